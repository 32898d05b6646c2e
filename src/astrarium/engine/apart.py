"""Jobs that share nothing run by themselves: one run per set of jobs that may meet, and equal sets once.

Which links a job's messages may take follows from its plan: a phase of a collective sends along its dim between the
members of a group, a phase over a whole group (dim -1) and a message between nodes from NPU to NPU, dim after dim. Jobs
whose links have none in common, and that use no memory and no adder of a switch together, cannot meet: a joined run
gives each the integers that it has alone (`engine.jobs`). A memory at switches has its own links at each of them.
Where that does not follow from the plan, jobs stay together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from astrarium.arrays import I64
from astrarium.engine.connected import connected
from astrarium.engine.jobs import of_collectives, part_of
from astrarium.engine.outcome import Outcome, link_counts
from astrarium.engine.plan import Backend, Dim, Kind, Order, Plan, RemoteKind, Shape
from astrarium.engine.program_order import run_in_order
from astrarium.errors import EXPLAINED

__all__ = ["execute_apart", "run_apart", "sets_of_jobs"]

Part = tuple[I64, Outcome, int]     # ranks of the plan [copies * ranks of the run], its Outcome, copies


def execute_apart(plan: Plan, first: Sequence[int], run: Callable[[Plan, bool], Outcome]) -> tuple[I64, Outcome]:
    """What `run_in_order` gives of a plan of several jobs, each set of jobs that may meet by itself: the ranks of job j
    are `first[j]` to `first[j + 1] - 1`. An error counts ranks as `plan` does."""
    sets = [np.concatenate([np.arange(first[job], first[job + 1]) for job in jobs])
            for jobs in sets_of_jobs(plan, first)]
    if len(sets) > 1:
        try:
            return run_apart(plan, sets, lambda part: run_in_order(part, run))
        except EXPLAINED:
            pass        # a run of all says it with the plan's ranks
    return run_in_order(plan, run)


def run_apart(plan: Plan, sets: Sequence[I64], run: Callable[[Plan], tuple[I64, Outcome]]) -> tuple[I64, Outcome]:
    """(the ranks that ran in program order, the Outcome) of a plan of several jobs; `sets` are ranks that cannot meet
    those of other sets.

    Each set is one `run`, and equal sets are one. On `closed_form` their ranks have common rows; elsewhere each set has
    rows and links of its own. Raises what `run` raises, which then counts ranks in a part of the plan.
    """
    parts: dict[object, list[Part]] = {}
    ordered: dict[object, I64] = {}     # of the ranks of a part
    in_order = []
    for ranks in sets:
        part = part_of(plan, ranks)
        content = _content(part)
        equal = parts.setdefault(content, [])
        if not equal:
            ordered[content], outcome = run(part)
            equal.append((ranks, outcome, 1))
        elif plan.network.backend == Backend.PORTS:
            others, outcome, copies = equal[0]
            equal[0] = np.concatenate([others, ranks]), outcome, copies + 1
        else:
            others, outcome, _ = equal[0]
            equal.append((ranks, _copy(plan, outcome, others, ranks), 1))
        in_order.append(ranks[ordered[content]])
    return np.sort(np.concatenate(in_order)), _merged(plan, [part for equal in parts.values() for part in equal])


def sets_of_jobs(plan: Plan, first: Sequence[int]) -> list[list[int]]:
    """The jobs, in sets that cannot meet each other."""
    jobs = range(len(first) - 1)
    network = plan.network
    known = network.backend in (Backend.PORTS, "contention") and network.graph is None
    if not known or plan.changes is not None or plan.policy.order != Order.CANONICAL:
        return [list(jobs)]
    pairs = [np.zeros((0, 2), np.int64)]    # a job, and the number of a link or of what else jobs may share
    for job in jobs:
        ranks = np.arange(first[job], first[job + 1])
        shared = _where_others_pass(plan, ranks).tolist()
        if plan.remote.kind in (RemoteKind.PER_NODE, RemoteKind.POOL) and _remote(plan, ranks):
            shared.append(-1)
        if _in_switches(plan, ranks):
            shared.append(-2)
        shared += _of_memories(plan, ranks)
        pairs.append(np.stack([np.full(len(shared), job), np.array(shared, np.int64)], axis=1))
    user, number = np.concatenate(pairs).T
    links, link = np.unique(number, return_inverse=True)
    leader = connected(len(jobs) + links.size, user, len(jobs) + link)[:len(jobs)]
    return [np.flatnonzero(leader == each).tolist() for each in np.unique(leader)]


def _remote(plan: Plan, ranks: I64) -> bool:
    return any((plan.programs[kind].kind == Kind.REMOTE).any() for kind in np.unique(plan.program_of[ranks]).tolist())


def _of_memories(plan: Plan, ranks: I64) -> list[int]:
    """Numbers of the links to memories at switches that the ranks use, -3 and below; and on `contention` of the NPUs'
    own links to those switches, which messages of other NPUs pass."""
    found: set[int] = set()
    dims, memories = plan.network.dims, len(plan.attached)
    ports = 2 * max(dim.npus for dim in dims)
    for kind in np.unique(plan.program_of[ranks]).tolist() if memories else ():
        program, npus = plan.programs[kind], plan.npu_of[ranks[plan.program_of[ranks] == kind]].astype(np.int64)
        for code in np.unique(program.slot[(program.kind == Kind.REMOTE) & (program.slot < -1)]).tolist():
            memory, store = divmod(-2 - code, 2)
            at = plan.attached[memory]
            stride = math.prod(dim.npus for dim in dims[:at.dim])
            place = npus // stride % dims[at.dim].npus
            switch = (npus - place * stride) * memories + memory
            found.update((-3 - (switch * dims[at.dim].npus + place % at.links)).tolist())
            if plan.network.backend != Backend.PORTS:
                found.update(((npus * ports + 1 - store) * len(dims) + at.dim).tolist())
    return sorted(found)


def _in_switches(plan: Plan, ranks: I64) -> bool:
    """Whether switches add for the ranks, which all jobs may share."""
    able = np.array([any(phase.in_switch is not None for chunk in each.chunks for phase in chunk.phases)
                     for each in plan.collectives] + [False])
    slots = slice(int(plan.slot_ptr[ranks[0]]), int(plan.slot_ptr[ranks[-1] + 1]))
    return bool(able.any()) and bool(able[plan.slot_a[slots][of_collectives(plan)[slots]]].any())


# ------------------------------------------------------------ links of messages
def _where_others_pass(plan: Plan, ranks: I64) -> I64:
    """Numbers of the links that the ranks' messages may take; on `closed_form` of a mesh's, as only
    there messages pass other NPUs."""
    dims = plan.network.dims
    ports = plan.network.backend == Backend.PORTS
    along = [not ports or dim.shape == Shape.MESH for dim in dims]
    if not any(along):
        return np.zeros(0, np.int64)
    return np.unique(np.concatenate([_links(dims, along, *ends) for ends in _ends(plan, ranks)]))


def _ends(plan: Plan, ranks: I64) -> Iterator[tuple[I64, I64]]:
    """(sources, destinations) NPUs of all messages that the ranks may send."""
    slots = slice(int(plan.slot_ptr[ranks[0]]), int(plan.slot_ptr[ranks[-1] + 1]))
    rank = np.repeat(ranks, np.diff(plan.slot_ptr)[ranks])
    npu, meets = plan.npu_of.astype(np.int64), of_collectives(plan)[slots]
    a, b = plan.slot_a[slots], plan.slot_b[slots]
    yield npu[rank[~meets]], npu[a[~meets]]
    yield npu[a[~meets]], npu[rank[~meets]]
    steps = set()
    for collective, group in np.unique(np.stack([a[meets], b[meets]], axis=1), axis=0).tolist():
        each = plan.collectives[collective]
        found = {(phase.n, phase.stride) for chunk in each.chunks for phase in chunk.phases}
        size = plan.groups[group].size if group >= 0 else npu.size
        steps |= {(group, *step) for step in ({(size, 1)} if each.custom else found)}
    for group, n, stride in sorted(steps):
        members = npu[plan.groups[group]] if group >= 0 else npu
        position = np.arange(members.size)
        begin = position - position // stride % n * stride
        peers = begin[:, None] + np.arange(n) * stride
        yield np.repeat(members, n), members[np.minimum(peers, members.size - 1)].reshape(-1)


def _links(dims: Sequence[Dim], along: Sequence[bool], source: I64, target: I64) -> I64:
    """Numbers of the links on the ways of messages, dim after dim of those `along`: (NPU, port, dim), each once."""
    found, stride = [], 1
    ports = 2 * max(dim.npus for dim in dims)
    for number, dim in enumerate(dims):
        if not along[number]:
            stride *= dim.npus
            continue
        ways = np.unique(source * dim.npus + target // stride % dim.npus)
        at, to = ways // dim.npus, ways % dim.npus
        for npu, port in _hops(dim, at, at // stride % dim.npus, to, stride):
            found.append((npu * ports + port) * len(dims) + number)
        source = source + (target // stride % dim.npus - source // stride % dim.npus) * stride
        stride *= dim.npus
    return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)


def _hops(dim: Dim, npu: I64, at: I64, to: I64, stride: int) -> Iterator[tuple[I64, I64]]:
    """(NPU, port) of each step from the places `at` of a dim to `to`."""
    n = dim.npus
    if dim.shape == Shape.SWITCH:
        npu, at, to = (each[at != to] for each in (npu, at, to))
        yield npu, np.zeros_like(npu)
        yield npu + (to - at) * stride, np.ones_like(npu)
        return
    while True:
        npu, at, to = (each[at != to] for each in (npu, at, to))
        if not npu.size:
            return
        ahead = (to - at) % n
        if dim.shape == Shape.FULLY_CONNECTED:
            port = following = to
        elif dim.shape == Shape.HYPERCUBE:
            port = (at ^ to) & -(at ^ to)
            following = at ^ port
        else:
            back = {Shape.RING: n - ahead < ahead, Shape.MESH: to < at}.get(dim.shape, np.zeros(at.size, np.bool_))
            port, following = back.astype(np.int64), (at + 1 - 2 * back) % n
        yield npu, port
        npu, at = npu + (following - at) * stride, following


# ------------------------------------------------------------ equal sets
def _content(part: Plan) -> object:
    """Equal for plans that are one another's images: the same work on NPUs moved along dims."""
    npus = part.npu_of.astype(np.int64)
    rates = part.reduce_bandwidth[npus].tobytes() if part.reduce_bandwidth.size else b""
    shared = part.attached or part.remote.kind in (RemoteKind.PER_NODE, RemoteKind.POOL)
    places, rest = [npus.tobytes() if shared else b""], npus
    for dim in part.network.dims:
        rest, at = np.divmod(rest, dim.npus)
        places.append(_moved(dim, at)[at].tobytes())
    return (*map(id, part.programs), *places, rates, *[each.tobytes() for each in part.groups],
            *[each.tobytes() for each in (part.program_of, part.slot_a, part.slot_b, part.slot_c)])


def _moved(dim: Dim, at: I64) -> I64:
    """[places of the dim] where each is once the first of `at` is at 0, of a mesh the lowest; all NPUs of a switch are
    alike, so there in order of appearance, and the others follow."""
    places = np.arange(dim.npus)
    if dim.shape in (Shape.SWITCH, Shape.FULLY_CONNECTED):
        _, begin = np.unique(np.concatenate([at, places]), return_index=True)
        found: I64 = np.argsort(np.argsort(begin))
    elif dim.shape == Shape.HYPERCUBE:
        found = places ^ at[0]
    else:
        found = (places - (at.min() if dim.shape == Shape.MESH else at[0])) % dim.npus
    return found


def _copy(plan: Plan, outcome: Outcome, ranks: I64, others: I64) -> Outcome:
    """The Outcome of `ranks` as that of `others`, an equal set: with the ends of its links. Its events did not run."""
    number, stride = np.zeros(plan.npus, np.int32), 1
    for dim in plan.network.dims:
        here, there = (_moved(dim, plan.npu_of[each].astype(np.int64) // stride % dim.npus) for each in (ranks, others))
        place = np.argsort(there)[here]
        number += (place[np.arange(plan.npus) // stride % dim.npus] * stride).astype(np.int32)
        stride *= dim.npus
    ends = (np.where(each < 0, each, number[each]).astype(np.int32) for each in (outcome.link_from, outcome.link_to))
    return replace(outcome, link_from=next(ends), link_to=next(ends), events=0, counted=0)


# ------------------------------------------------------------ one Outcome
def _merged(plan: Plan, parts: Sequence[Part]) -> Outcome:
    """One Outcome of all parts; the rows of each follow those of the one before."""
    outcomes = [outcome for _, outcome, _ in parts]
    row, rows, nodes = np.zeros(plan.npu_of.size, np.int32), 0, 0
    pointers, counts = [np.zeros(1, np.int64)], []
    for ranks, outcome, copies in parts:
        counts.append(link_counts(outcome, plan.npu_of[ranks[:outcome.row.size]]) * copies)
        row[ranks] = np.tile(outcome.row + np.int32(rows), copies)
        rows += outcome.finish.size
        if outcome.node_ptr.size:
            pointers.append(outcome.node_ptr[1:] + nodes)
            nodes += int(outcome.node_ptr[-1])
    width = max(outcome.use_width for outcome in outcomes)
    joined: dict[str, Any] = {name: np.concatenate([getattr(outcome, name) for outcome in outcomes]) for name in (
        "finish", "busy", "start", "end", "link_dim", "link_from", "link_to", "link_bytes", "link_busy")}
    folded = any(outcome.folded or copies > 1 for _, outcome, copies in parts)
    return replace(outcomes[0], **joined, row=row, use_width=width, link_count=np.concatenate(counts),
                   node_ptr=np.concatenate(pointers) if nodes else outcomes[0].node_ptr,
                   use_busy=sum((_wider(outcome, width) * copies for _, outcome, copies in parts[1:]),
                                _wider(outcomes[0], width) * parts[0][2]),
                   events=sum(outcome.events for outcome in outcomes), folded=folded,
                   counted=sum(outcome.counted for outcome in outcomes),
                   in_program_order=any(outcome.in_program_order for outcome in outcomes),
                   unfolded_because="" if folded else outcomes[0].unfolded_because,
                   how=(f"{sum(copies for _, _, copies in parts)} sets of jobs without a common link were simulated "
                        "apart, equal sets once",
                        *dict.fromkeys(attempt for outcome in outcomes for attempt in outcome.how)))


def _wider(outcome: Outcome, width: int) -> I64:
    """`use_busy` in bins of another width, a multiple of its own."""
    if not outcome.use_width:
        return outcome.use_busy
    busy, bins = outcome.use_busy.reshape(-1, 256), 256 * outcome.use_width // width
    found = np.zeros_like(busy)
    found[:, :max(bins, 1)] = busy.reshape(busy.shape[0], max(bins, 1), -1).sum(axis=2)
    return found.reshape(-1)
