"""Traces to learn from, as files: PREFIX.RANK.et, PREFIX.groups.json, PREFIX.conditions.json."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from astrarium.errors import InputError
from astrarium.synthesise.examples import Example, examples_of
from astrarium.trace.groups import groups_of, read_groups
from astrarium.trace.read import read_traces

__all__ = ["find_prefixes", "read_conditions", "read_examples"]

ENDING = ".conditions.json"
MOST = 1 << 20          # bytes of a file of conditions


def find_prefixes(paths: Sequence[str]) -> list[str]:
    """Prefixes as they are; of a folder, those in it that have conditions. InputError for a folder without any."""
    out: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            out.append(path.removesuffix(ENDING).removesuffix(".*.et"))
            continue
        found = sorted(name.removesuffix(ENDING) for name in os.listdir(path) if name.endswith(ENDING))
        if not found:
            raise InputError(path, "has no traces with conditions", expected=f"files PREFIX{ENDING} next to the traces")
        out += [os.path.join(path, name) for name in found]
    return out


def read_conditions(path: str) -> dict[str, float]:
    """A file of conditions: a JSON object of numbers. InputError for anything else."""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST)
        found = msgspec.json.decode(data, type=dict[str, float])
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror or error})",
                         expected='conditions such as {"layers": 4, "d_model": 512, "tp": 2, "dp": 8}') from None
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise InputError(path, f"is no JSON object of numbers ({error})",
                         expected='conditions such as {"layers": 4, "d_model": 512, "tp": 2, "dp": 8}') from None
    if "stage" in found:
        raise InputError(path, "names a stage", expected="conditions of the whole trace")
    return found


def read_examples(prefix: str) -> tuple[Example, ...]:
    """The examples of the traces of one prefix, one per pipeline stage."""
    conditions = read_conditions(f"{prefix}{ENDING}")
    traces = read_traces(prefix)
    groups = f"{prefix}.groups.json"
    return examples_of(traces, read_groups(groups) if os.path.exists(groups) else groups_of(traces), conditions)
