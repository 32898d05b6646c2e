"""Sentences of a launch that cannot go on: who waits, at which operation, for which value at which address."""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.errors import StallError
from astrarium.gpu.engine.values import ON_ROOM, ON_SEMAPHORE, Launch, Wait, layout

__all__ = ["stalled"]


def stalled(launch: Launch, waits: Sequence[Wait], undispatched: int) -> StallError:
    """The error for those who wait; `undispatched` workgroups never had a place."""
    said = [_sentence(launch, wait) for wait in waits]
    if undispatched:
        said.append(f"{undispatched} workgroups wait for a place on a compute unit; those that run wait for ever")
    return StallError(said)


def _sentence(launch: Launch, wait: Wait) -> str:
    op = launch.grid(wait.gpu)[wait.workgroup].operations[wait.operation]
    who = f"GPU {wait.gpu}, workgroup {wait.workgroup}, operation {wait.operation} ({op.kind.name.lower()})"
    first, _, _, semaphores = layout(launch.buffers)
    if wait.line == ON_ROOM:
        return f"{who} waits for room: requests that wait have used up a limit on outstanding requests"
    if wait.line == ON_SEMAPHORE:
        return (f"{who} waits for semaphore {launch.semaphores[op.semaphore]!r} (line {semaphores + op.semaphore} of "
                f"GPU {wait.gpu}) to be {op.value}; it is {wait.value}")
    number = next(i for i, b in enumerate(launch.buffers) if first[i] <= wait.line < first[i] + b.size * b.lines)
    owner = (wait.gpu + wait.peer) % launch.gpus
    return (f"{who} waits for a store to line {wait.line - first[number]} of buffer {launch.buffers[number].name!r} "
            f"(line {wait.line} of GPU {owner}); none came")
