"""The time of one collective, estimated: what `collective.choice: auto` compares.

An algorithm on a dim is a few *strides*: messages that leave an NPU one after the other, each of which keeps its port
for bytes / link bandwidth and lets the next go a latency later (the model of Hockney; the counts of steps, hops and
bytes of each algorithm and shape are those of the closed form). Chunks of a collective then share the ports of one NPU,
where all NPUs take equal steps (`engine.strides`).

What it does not know: other collectives and messages, back ends other than closed_form, ranks that differ. Algorithms
without a formula for a shape are estimated by their steps and bytes (`bounds`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from astrarium.collective.bounds import bound
from astrarium.engine.plan import Dim, Shape
from astrarium.vocab import CommOp

__all__ = ["Around", "Counts", "Reach", "Stride", "counts", "ends", "messages", "strides"]

Stride = tuple[int, float, float, int]
MOST = 64       # messages one after the other; more are taken together
MOST_OF_A_TREE = 1024
SENT_IN_TREES = 32      # 8 blocks in two trees, up and down
SENT_IN_SWITCH = 32     # in as many rounds
PIECES_HIDE = 0.35


class Around(NamedTuple):
    """What a message costs beside the network: ns at an endpoint, bytes/ns of reductions (0: free)."""

    endpoint_delay: float
    reduce_rate: float


class Reach(NamedTuple):
    """How far members of a group are from each other in a dim, in hops: the next in order, any, and all others of one
    together as its busier port has it."""

    near: int
    far: int
    load: float


class Counts(NamedTuple):
    """Messages one after the other: `times` of them, each keeps port `port` for `held` blocks, goes `hops` hops and
    arrives `late` blocks after that; `size` blocks are its payload. `hidden`: how much of latency or blocks, whichever
    takes less, does not show because the payload comes in pieces."""

    port: int
    times: int
    held: float
    hops: float
    size: float
    late: float = 0.0
    hidden: float = 0.0


Rows = list[Counts]
ONE_PORT = (Shape.SWITCH, Shape.RING_ONE_WAY)
AROUND = (Shape.RING, Shape.RING_ONE_WAY)
_SCATTERS = (CommOp.REDUCE_SCATTER, CommOp.ALL_REDUCE)


def _one_pass(rows: Rows, op: CommOp) -> Rows:
    """An all_reduce is a reduce_scatter, and its all_gather backwards."""
    return [*rows, *reversed(rows)] if op == CommOp.ALL_REDUCE else rows


def _direct(shape: Shape, op: CommOp, n: int, reach: Reach) -> Rows:
    late = 0.0
    if shape in AROUND:
        held = reach.load
    elif shape == Shape.MESH:
        held, late = float(n // 2 * ((n + 1) // 2)), float((n - 1) // 2)
    elif shape == Shape.HYPERCUBE:      # the first bit's port has half of the messages
        held = n / 2
    else:
        held = 1.0 if shape == Shape.FULLY_CONNECTED else n - 1.0
    hops = 2 if shape == Shape.SWITCH else reach.far
    return _one_pass([Counts(0, 1, held, hops, 1.0, late)], op)


def _ring(shape: Shape, op: CommOp, n: int, reach: Reach) -> Rows:
    hops = 2 if shape == Shape.SWITCH else reach.near
    charged = reach.near if shape in AROUND else 1
    if op == CommOp.ALL_TO_ALL:
        return [Counts(0, 1, charged * (n - 1.0 - step), hops, n - 1.0 - step) for step in range(n - 1)]
    if shape == Shape.MESH:     # the message back to the first passes all others
        times = 2 * n - 3
        held = (n - 1) / times
        return _one_pass([Counts(0, times, held, 1, 1.0, 1.0 - held)], op)
    return _one_pass([Counts(0, n - 1, charged, hops, 1.0)], op)


def _two_way(shape: Shape, op: CommOp, n: int, reach: Reach) -> Rows:
    """Both directions of a ring; a switch's port serves one of the two while the other is on its way."""
    half = 0.5 if shape == Shape.RING and n > 2 else 1.0
    if op == CommOp.ALL_TO_ALL:
        far = n // 2
        return [Counts(0, 1, reach.near * 2 * half * (far - step), reach.near, far - step) for step in range(far)]
    rows = _ring(shape, op, n, reach)
    if shape == Shape.SWITCH and n > 2:
        last = Counts(0, 1, 1.0, 2, 1.0)
        before = [last._replace(times=n - 1, late=-0.5)] if op == CommOp.ALL_REDUCE else []
        rows = [*before, last._replace(times=n - 2, late=-0.5), last]
    return [row._replace(held=row.held * half) for row in rows]


def _two_trees(shape: Shape, op: CommOp, n: int, reach: Reach) -> Rows:
    """An all_reduce in a whole dim: each tree carries half of the payload up and down."""
    if op != CommOp.ALL_REDUCE or n > MOST_OF_A_TREE:
        return _by_bounds(shape, "double_binary_tree", op, n, reach)
    from astrarium.collective.algorithms.double_binary_tree import parents

    deepest, ports = 0, dict[tuple[int, int], float]()
    for up in (parents(n, 0).tolist(), parents(n, 1).tolist()):
        depth = [0] * n
        for member in range(n):
            at = member
            while up[at] >= 0:
                depth[member] += _hops(shape, n, abs(at - up[at]))
                at = up[at]
        deepest = max(deepest, *depth)
        for member, above in enumerate(up):
            for source, target in ((member, above), (above, member)) if above >= 0 else ():
                port = source, 0 if shape not in AROUND else int((target - source) % n > n // 2)
                held = _hops(shape, n, abs(target - source)) if shape in AROUND else 1
                ports[port] = ports.get(port, 0.0) + n / 2 * held
    return [Counts(0, 1, max(ports.values()), 2 * deepest, n / 16, 0.0, PIECES_HIDE)]


def _hops(shape: Shape, n: int, far: int) -> int:
    if shape in AROUND:
        return min(far, n - far)
    return 2 if shape == Shape.SWITCH else far if shape == Shape.MESH else 1


def _halving(shape: Shape, op: CommOp, n: int, reach: Reach) -> Rows:
    """Powers of two; other numbers of members take a step more."""
    del reach
    rows = []
    for level in range((n - 1).bit_length()):
        size = n / 2 if op == CommOp.ALL_TO_ALL else n / (2 << level)
        far = 1 << level
        if shape == Shape.HYPERCUBE:
            rows.append(Counts(level, 1, size, 1, size))
        elif shape == Shape.MESH:
            rows.append(Counts(0, 1, 0.75 * size * far, far, size, 0.25 * size * far))
        else:
            hops = 2 if shape == Shape.SWITCH else min(far, n - far) if shape in AROUND else 1
            rows.append(Counts(0, 1, size * (hops if shape in AROUND else 1), hops, size))
    return _one_pass(rows[::-1] if op == CommOp.ALL_GATHER else rows, op)


def _bruck(shape: Shape, op: CommOp, n: int, reach: Reach) -> Rows:
    """Growing bundles on a switch; a reduce_scatter is the all_gather backwards."""
    if shape != Shape.SWITCH or op not in (CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER):
        return _by_bounds(shape, "bruck", op, n, reach)
    sizes = [min(1 << level, n - (1 << level)) for level in range((n - 1).bit_length())]
    return [Counts(0, 1, size, 2, size) for size in (sizes if op == CommOp.ALL_GATHER else sizes[::-1])]


def _in_switches(shape: Shape, algorithm: str, op: CommOp, n: int, reach: Reach) -> Rows:
    """Through a switch that computes, in so many rounds that only one way counts."""
    del shape, reach
    written = algorithm == "nvls" and op == CommOp.ALL_REDUCE
    held = n + 1.0 if written else float(n)
    return [Counts(0, 1, held, 4 if written else 2, held)]


_FORMULAS: Mapping[str, Callable[[Shape, CommOp, int, Reach], Rows]] = {
    "direct": _direct, "ring": _ring, "ring_two_way": _two_way, "halving_doubling": _halving,
    "double_binary_tree": _two_trees, "bruck": _bruck,
    "nvls": lambda shape, op, n, reach: _in_switches(shape, "nvls", op, n, reach),
    "sharp": lambda shape, op, n, reach: _in_switches(shape, "sharp", op, n, reach)}


def _by_bounds(shape: Shape, algorithm: str, op: CommOp, n: int, reach: Reach) -> Rows:
    """Of any other: its steps and bytes, as far as they are known."""
    blocks = 1 if algorithm in ("double_binary_tree", "binomial_tree") else n
    limit = bound(algorithm, op, n, blocks)
    steps, sent = (n - 1, n - 1.0) if limit is None else (limit.steps, limit.sent * n / blocks)
    hops = 2 if shape == Shape.SWITCH else (reach.near + reach.far) / 2
    each = sent / max(1, steps)
    return [Counts(0, max(1, steps), each * (hops if shape in (*AROUND, Shape.MESH) else 1), hops, each)]


@lru_cache(1 << 14)
def counts(shape: Shape, algorithm: str, op: CommOp, n: int, reach: Reach) -> tuple[Counts, ...]:
    """What `algorithm` does for `op` among `n` members of a dim, in blocks of a n-th of the whole payload."""
    formula = _FORMULAS.get(algorithm)
    rows = _by_bounds(shape, algorithm, op, n, reach) if formula is None else formula(shape, op, n, reach)
    return tuple(rows)


def strides(dim: Dim, algorithm: str, op: CommOp, n: int, reach: Reach, whole: int, around: Around) -> list[Stride]:
    """(port of the dim, service ns, latency ns, times) of `op` on a payload of `whole` bytes (of an all_gather: that
    comes together) among `n` members."""
    rows = counts(dim.shape, algorithm, op, n, reach)
    wire = -(-whole // n) / dim.bandwidth
    reduced = len(rows) if op == CommOp.REDUCE_SCATTER else len(rows) // 2 if op == CommOp.ALL_REDUCE else 0
    reduced *= algorithm not in ("nvls", "sharp")       # the switch adds
    found: list[Stride] = []
    for number, row in enumerate(rows):
        latency = max(0.0, row.hops * dim.latency + row.late * wire) + around.endpoint_delay
        latency = max(0.0, latency - row.hidden * min(latency, row.held * wire))
        if around.reduce_rate and number < reduced:
            latency += 3 * row.size * -(-whole // n) / around.reduce_rate
        times = min(row.times, MOST)
        each = row.times / times
        found.append((row.port, row.held * wire * each, latency * each, times))
    return found


@lru_cache(1 << 14)
def messages(algorithm: str, op: CommOp, n: int) -> int:
    """How many messages a member sends."""
    if algorithm == "double_binary_tree":
        return SENT_IN_TREES
    if algorithm in ("nvls", "sharp"):
        return SENT_IN_SWITCH * (2 if algorithm == "nvls" and op == CommOp.ALL_REDUCE else 1)
    once = (n - 1).bit_length() if algorithm in ("halving_doubling", "bruck") else n - 1
    ways = 2 if algorithm == "ring_two_way" and op != CommOp.ALL_TO_ALL else 1
    return once * ways * (2 if op == CommOp.ALL_REDUCE else 1)


@lru_cache(1 << 14)
def _totals(shape: Shape, algorithm: str, op: CommOp, n: int, reach: Reach) -> tuple[float, int, float]:
    """(hops, messages one after the other, blocks that the busiest port carries)."""
    rows = counts(shape, algorithm, op, n, reach)
    ports: dict[int, float] = {}
    for row in rows:
        ports[row.port] = ports.get(row.port, 0.0) + row.held * row.times
    return sum([row.hops * row.times for row in rows]), sum([row.times for row in rows]), max(ports.values())


def ends(dim: Dim, algorithm: str, op: CommOp, n: int, reach: Reach, whole: int, around: Around) -> tuple[float, float]:
    """(latencies one after the other, what the busiest port carries) in ns: the two ends of what `op` on `whole` bytes
    can take in a dim."""
    hops, times, held = _totals(dim.shape, algorithm, op, n, reach)
    return hops * dim.latency + times * around.endpoint_delay, held * (-(-whole // n) / dim.bandwidth)
