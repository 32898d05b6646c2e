"""Which signal of a plan wakes which wait: channels are counters, and their signals and waits go in pairs, in order."""

from __future__ import annotations

from collections.abc import Iterator

from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu.mscclpp.read import SIGNALS, WAITS, PlanGpu, PlannedKernels, PlanStep

__all__ = ["Signals", "steps_of"]

Channel = tuple[bool, int]              # a port channel, number
Where = tuple[int, int, int]            # rank, thread block, operation
Semaphore = tuple[str, int, int]        # a key that does not depend on the rank


class Signals:
    """The semaphores of a plan's channels.

    The waits of one operation are one semaphore, raised by as many signals: the threads of a block ask at once. Where
    several thread blocks signal a channel, which signal wakes which wait is open, and the channel is one counter.
    """

    def __init__(self, plan: PlannedKernels):
        self.plan = plan
        self.made: dict[tuple[int, Channel], list[Where]] = {}
        self.waits: dict[tuple[int, Channel], list[Where]] = {}
        self.turns: dict[tuple[Where, int], tuple[int, Channel, int]] = {}    # (operation, place in its list) -> turn
        for rank, gpu in enumerate(plan.gpus):
            for block, at, step in steps_of(gpu):
                for place, number in enumerate(step.channels):
                    self._note((rank, block, at), step, place, (step.port, number))
        self._check()

    def _note(self, where: Where, step: PlanStep, place: int, channel: Channel) -> None:
        if step.name in SIGNALS:
            there = self.other_end(where[0], channel)
            listed = self.made.setdefault(there, [])
        elif step.name in WAITS:
            there = where[0], channel
            listed = self.waits.setdefault(there, [])
        else:
            return
        self.turns[where, place] = (*there, len(listed))
        listed.append(where)

    def other_end(self, rank: int, channel: Channel) -> tuple[int, Channel]:
        """(rank, channel) to which a signal on a channel goes: channels between two ranks are paired in order."""
        port, number = channel
        mine = self._ends(rank, port)
        peer = mine[number]
        turn = mine[:number].count(peer)
        back = [i for i, to in enumerate(self._ends(peer, port)) if to == rank]
        if turn >= len(back):
            raise InputError(self.plan.path, f"rank {rank}, {_name(channel)}: rank {peer} has no channel back",
                             expected="as many channels from either end")
        return peer, (port, back[turn])

    def _ends(self, rank: int, port: bool) -> tuple[int, ...]:
        return self.plan.gpus[rank].ports if port else self.plan.gpus[rank].channels

    def _check(self) -> None:
        """Check that every channel has equally many signals and waits, and one thread block that waits."""
        for (rank, channel), where in self.waits.items():
            count = len(self.made.get((rank, channel), ()))
            _, block, at = where[min(count, len(where) - 1)]
            if len(where) != count:
                name = self.plan.gpus[rank].blocks[block].steps[at].name
                raise InputError(self.plan.path, f"rank {rank}, threadblock {block}, operation {at} ({name}): "
                                 f"{_name(channel)} gets {count} signals and {len(where)} waits")
            if len({each[1] for each in where}) > 1:
                raise UnsupportedError(self.plan.path, f"rank {rank}, {_name(channel)}: thread blocks "
                                       f"{sorted({each[1] for each in where})} wait on it", expected="one of them")
        for rank, channel in self.made.keys() - self.waits.keys():
            raise InputError(self.plan.path, f"rank {rank}, {_name(channel)}: gets "
                             f"{len(self.made[rank, channel])} signals and no wait")

    def raised(self, where: Where, place: int) -> tuple[int, Semaphore]:
        """(rank, semaphore) that the signal on an operation's channel number `place` raises."""
        rank, channel, turn = self.turns[where, place]
        if self._open(rank, channel):
            return rank, ("channel", *channel)
        return rank, ("wait", *self.waits[rank, channel][turn][1:])

    def awaited(self, where: Where, step: PlanStep) -> Iterator[tuple[Semaphore, int]]:
        """(semaphore, value) of each wait of an operation."""
        together = 0
        for place in range(len(step.channels)):
            rank, channel, turn = self.turns[where, place]
            if self._open(rank, channel):
                yield ("channel", *channel), turn + 1
            else:
                together += 1
        if together:
            yield ("wait", *where[1:]), together

    def _open(self, rank: int, channel: Channel) -> bool:
        """Whether several thread blocks signal a channel."""
        return len({where[:2] for where in self.made[rank, channel]}) > 1


def steps_of(gpu: PlanGpu) -> list[tuple[int, int, PlanStep]]:
    """(thread block, number, operation) of all."""
    return [(block, at, step) for block, each in enumerate(gpu.blocks) for at, step in enumerate(each.steps)]


def _name(channel: Channel) -> str:
    return f"{'port ' if channel[0] else ''}channel {channel[1]}"
