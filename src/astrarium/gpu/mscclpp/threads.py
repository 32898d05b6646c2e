"""Whether the threads of a plan's blocks come together where one of them signals or waits for all.

MSCCL++'s executor (execution_kernel.hpp, commit 1f5f065d) has thread j of a block handle channel j of an operation, and
the other ones go on: only `nop` and `barrier` bring all together.
"""

from __future__ import annotations

from collections.abc import Iterator

from astrarium.errors import InputError
from astrarium.gpu.mscclpp.read import DATA, INSIDE, SIGNALS, WAITS, PlanBlock, PlannedKernels, PlanStep

__all__ = ["check_threads"]


def check_threads(plan: PlannedKernels) -> None:
    """Raise InputError where no `nop` is between data and a signal, or between a wait and what has to come after it."""
    for rank, gpu in enumerate(plan.gpus):
        for number, block in enumerate(gpu.blocks):
            for before, after, words in _apart(block):
                names = [f"operation {at} ({block.steps[at].name})" for at in (before, after)]
                raise InputError(plan.path, f"rank {rank}, threadblock {number}, {names[1]}: {words} {names[0]}",
                                 expected="a nop between them, where all threads of the block meet")


def _apart(block: PlanBlock) -> Iterator[tuple[int, int, str]]:
    """Two operations of which one is done by all threads, the other one by few, with nothing that joins them."""
    moved: int | None = None
    waited: int | None = None
    for at, step in enumerate(block.steps):
        if step.name in ("nop", "barrier"):
            moved = waited = None
        elif step.name in WAITS or step.name in ("sem_acquire", "flush"):
            waited = at
        elif _few(step):
            if moved is not None:
                yield moved, at, "does not wait for all threads at"
            if waited is not None and _elsewhere(block.steps[waited], step):
                yield waited, at, "some threads do not wait for"
        elif step.name in DATA:
            if waited is not None:
                yield waited, at, "some threads do not wait for"
            moved = at


def _elsewhere(before: PlanStep, after: PlanStep) -> bool:
    """Whether other threads do what comes after: all but one and the same, or each what its own proxy has flushed."""
    one = max(len(each.channels) + len(each.semaphores) for each in (before, after)) == 1
    return not one and not (before.name == "flush" and before.channels == after.channels)


def _few(step: PlanStep) -> bool:
    """Whether a thread per channel does it; before it asks its proxy, `rppkt` has all meet."""
    return step.name in SIGNALS | INSIDE or (step.port and step.name != "rppkt")
