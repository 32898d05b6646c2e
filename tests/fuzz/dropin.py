"""Runs ASTRA-sim's inputs through the drop-in path, from bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from astrarium.astra_sim.files import AstraInputs, lower_inputs, read_inputs, workload_of
from astrarium.engine import Outcome
from astrarium.errors import AstrariumError, InternalError
from astrarium.lower.explain import execute_workload
from astrarium.trace import traces_of_bytes

Answer = tuple[list[int], list[int]]


def parse(folder: Path, system: bytes, network: bytes, memory: bytes, groups: bytes | None,
          backend: str) -> AstraInputs:
    """Writes the files into `folder` and parses them."""
    names = {"system.json": system, "network.yml": network, "memory.json": memory, "groups.json": groups or b""}
    for name, data in names.items():
        (folder / name).write_bytes(data)
    paths = [str(folder / name) for name in names]
    return read_inputs("w", *paths[:3], paths[3] if groups is not None else None, backend=f"congestion_{backend}")


def answer(inputs: AstraInputs, files: Sequence[bytes], *, fold: bool) -> Answer | str:
    """(finish, busy) in ps per rank, or the kind of refusal. Anything but an error meant for the user comes through."""
    try:
        workload = workload_of(inputs, traces_of_bytes(list(files)))
        plan = lower_inputs(inputs, workload)
        outcome: Outcome = execute_workload(plan, workload.traces, workload.groups, fold=fold)
    except InternalError:
        raise
    except AstrariumError as error:
        return type(error).__name__
    return outcome.finish[outcome.row].tolist(), outcome.busy[outcome.row].tolist()
