"""What collectives in switches need to know of them: what they can do, how much at once, in how many rounds."""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.collective.algorithms import Options, algorithm_of
from astrarium.collective.algorithms.in_switch import tree
from astrarium.collective.groups import FLAT, SubDim
from astrarium.collective.settings import Able, Settings
from astrarium.engine.plan import InSwitch
from astrarium.errors import InputError, UnsupportedError
from astrarium.registry import Kind
from astrarium.vocab import CommOp, Schedule

__all__ = ["along_tree", "is_one", "largest", "rounds", "said_of", "switches", "with_rounds"]

MOST = 32           # rounds, unless the design names more
SLACK = 1.01        # fewer rounds are good enough where they take so much longer


def is_one(entry: str) -> bool:
    """Whether an entry of an algorithm is one of those in switches."""
    name = entry.partition(":")[0]
    return name in Kind("algorithm") and algorithm_of(name).in_switch


def said_of(part: SubDim, settings: Settings) -> Able | None:
    """What a part's switches can do, where there are such."""
    return settings.in_switch[part.dim] if FLAT < part.dim < len(settings.in_switch) else None


def able_of(dim: int, settings: Settings, algorithm: str, path: str) -> Able:
    """What the switches of a dim can do. Raises UnsupportedError where a group has no such dim, InputError where the
    design says nothing of its switches."""
    if dim == FLAT:
        raise UnsupportedError(path, f"{algorithm}, where a group is no part of one dim",
                               expected="groups along the switches of a dim")
    able = settings.in_switch[dim] if dim < len(settings.in_switch) else None
    if able is None:
        raise InputError(f"network.dims[{dim}].in_switch", f"is missing, and {path} is {algorithm}",
                         expected="a switch dim, and what its switches can do: {rate: 6.4 TB/s} (of a fabric: "
                                  "network.fabric.in_switch), or another algorithm")
    return able


def switches(schedule: Schedule, dim: int, settings: Settings, path: str) -> InSwitch:
    """The switches of a phase in a dim, for the engine. Raises as `able_of`."""
    able = able_of(dim, settings, schedule.algorithm, path)
    return InSwitch(able.rate, able.latency, nodes_of(able))


def nodes_of(able: Able) -> tuple[int, ...]:
    """The nodes of the switches of a tree's schedule: those on the way down once more."""
    n = len(able.up) - len(able.nodes)
    return able.nodes + tuple([node for node, above in zip(able.nodes, able.up[n:], strict=True) if above >= 0])


def along_tree(algorithm: str, op: CommOp, n: int, able: Able, options: Options, path: str) -> Schedule | None:
    """The schedule along the tree of a group; None where it is that of one switch. Raises UnsupportedError where a tree
    cannot serve."""
    if not able.up:
        return None
    if n != len(able.up) - len(able.nodes):
        raise UnsupportedError(path, f"{algorithm} in a graph, for a part of a group",
                               expected="groups that lie in one of network.dims")
    if len(able.nodes) == 1:
        return None
    if algorithm != "sharp":
        raise UnsupportedError(path, f"{algorithm} for a group at several switches", expected="sharp")
    return tree(op, algorithm, n, able.up, options)


def largest(op: CommOp, parts: Sequence[SubDim], settings: Settings) -> int:
    """The largest payload of a chunk, bytes; 0: any."""
    found = [able.payload for part in parts if part.dim != FLAT and part.dim < len(settings.in_switch)
             and (able := settings.in_switch[part.dim]) is not None and able.payload
             and is_one(settings.algorithm(op, part, "collective"))]
    return min(found, default=0)


def with_rounds(entry: str, op: CommOp, size: int, part: SubDim, settings: Settings, path: str) -> str:
    """An entry with its rounds: those that it names, else as many as are worth it. Raises as `able_of`."""
    name, colon, _ = entry.partition(":")
    if colon or part.n == 1:
        return entry
    able = able_of(part.dim, settings, name, path)
    whole = size * part.n if op == CommOp.ALL_GATHER else size
    return f"{name}:{rounds(name, op, whole, part.n, able)}"


def rounds(name: str, op: CommOp, whole: int, n: int, able: Able) -> int:
    """The fewest rounds (1, 2, 4 ... MOST) that take hardly longer than the best, by `estimate`."""
    counts = [1 << k for k in range(MOST.bit_length())]
    times = [estimate(name, op, whole, n, able, count) for count in counts]
    return next(count for count, time in zip(counts, times, strict=True) if time <= SLACK * min(times))


def estimate(name: str, op: CommOp, whole: int, n: int, able: Able, count: int) -> float:
    """ns of an operation on `whole` bytes (of an all_gather: that come together) in `count` rounds, alone in closed
    form (docs/background/in_switch.md)."""
    wire = max(whole / able.bandwidth, n * whole / able.rate)
    turn = 2 * able.hop + able.latency / 1000
    if name == "nvls" and op == CommOp.ALL_REDUCE:
        each = wire / count
        pairs, odd = divmod(count - 1, 2)
        by_turns = 2 * each * (1 + 1 / n) + 2 * turn + pairs * (each * (1 + 2 / n) + turn) + odd * each
        return by_turns if count == 1 else max(by_turns, wire * (1 + 1 / n) + each * (2 - 1 / n) + 2 * turn)
    return wire + wire / count + turn
