"""Which operands of a plan's operations are packets: lines with flags in scratch, twice as long as their data."""

from __future__ import annotations

from collections.abc import Iterator

from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu.mscclpp.read import PACKETS, PlannedKernels, PlanStep, Spot
from astrarium.gpu.mscclpp.sync import steps_of

__all__ = ["has_packets"]

_ALL = 1 << 10
# How many sources and targets, from the first on, are plain data: MSCCL++'s executor (execution_kernel.hpp), commit
# 1f5f065d. A port channel's put moves packets as they are.
_PLAIN = {"cpkt": (_ALL, 0), "ppkt": (_ALL, 0), "upkt": (0, _ALL), "rppkt": (0, 0), "repkt": (1, _ALL),
          "respkt": (1, 1), "recpkt": (1, 1), "recspkt": (1, 1), "gstorepkt": (0, 0)}


def has_packets(plan: PlannedKernels) -> bool:
    """Whether the scratch buffer of a plan holds packets: with protocol LL, if an operation moves some.

    Raises InputError for packets elsewhere, UnsupportedError for plain data among them: chunk i of packets begins where
    chunk 2 i of plain data does.
    """
    if not plan.ll or not any(step.name in PACKETS for gpu in plan.gpus for *_, step in steps_of(gpu)):
        return False
    for rank, gpu in enumerate(plan.gpus):
        for block, at, step in steps_of(gpu):
            for (_, kind, index, _), packet in _operands(step):
                where = f"rank {rank}, threadblock {block}, operation {at} ({step.name})"
                if packet and kind != "s":
                    raise InputError(plan.path, f"{where}: packets in buffer {kind!r}, chunk {index}",
                                     expected="packets in scratch, which has room for flags")
                if not packet and kind == "s":
                    raise UnsupportedError(plan.path, f"{where}: data without flags in scratch, chunk {index}",
                                           expected="packets alone, as in other operations of this plan: their chunks "
                                           "are longer, and overlap those without flags")
    return True


def _operands(step: PlanStep) -> Iterator[tuple[Spot, bool]]:
    """Each source and target, and whether it is packets."""
    plain = (0, 0) if step.port and step.name == "ppkt" else _PLAIN.get(step.name, (_ALL, _ALL))
    for spots, count in zip((step.sources, step.targets), plain, strict=True):
        yield from ((spot, i >= count) for i, spot in enumerate(spots))
