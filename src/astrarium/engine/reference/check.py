"""What every later index of the pure-Python engine relies on: the checks of the compiled core (check_plan.cpp).

A broken Plan is our own bug (it comes from `lower`): InternalError. UnsupportedError for figures that no clock of 2^63
ps holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from astrarium.engine.plan import (
    Algorithm,
    Backend,
    CollectivePlan,
    Kind,
    Lane,
    Order,
    Phase,
    Pick,
    Plan,
    Program,
    RemoteKind,
    Shape,
)
from astrarium.engine.plugins.feeder import fits
from astrarium.engine.reference.check_changes import check_changes
from astrarium.engine.reference.check_graph import check_graph
from astrarium.engine.reference.check_schedule import array, check_schedule, require, whole, widest
from astrarium.engine.reference.geometry import kinds_of_links
from astrarium.engine.reference.native_media import medium_kind
from astrarium.errors import InternalError, UnsupportedError
from astrarium.vocab import CommOp

__all__ = ["check_plan", "heaviest_message"]

I64 = npt.NDArray[np.int64]
COLUMNS = (("node_id", np.uint64), ("kind", np.uint8), ("lane", np.int16), ("duration", np.int64), ("busy", np.int64),
           ("size", np.int64), ("slot", np.int32), ("parents", np.int32))
COMM = (Kind.COLLECTIVE, Kind.SEND, Kind.RECV)
LONGEST_NS = 9.2e15     # 2^63 ps
SLOWEST = 1e-9          # bytes per ns
MOST_CHUNKS = 1 << 20
Slots = dict[int, tuple[int, int]]      # slot -> kind and size of its nodes


def check_plan(plan: Plan) -> None:
    """Raise for a Plan whose arrays do not fit each other, or name what there is not."""
    try:
        _check(plan)
    except (AttributeError, IndexError, OverflowError, TypeError, ValueError) as error:     # a field of another type
        raise InternalError(f"the engine refused its plan: {error}") from error


def heaviest_message(plan: Plan) -> float:
    """Bytes of a message that every link of a checked Plan can carry in 2^63 ps."""
    return _check_network(plan)


def _check(plan: Plan) -> None:
    heaviest = _check_network(plan)
    _check_policy(plan)
    for program in plan.programs:
        _check_program(program, heaviest)
    _check_accesses(plan, heaviest)
    slots = [_slots_of(program) for program in plan.programs]
    _check_ranks(plan, [len(found) for found in slots])
    _check_groups(plan)
    for collective in plan.collectives:
        _check_collective(plan, collective, heaviest)
    _check_slots(plan, slots)


def _check_network(plan: Plan) -> float:
    """Bytes of a message that every link can carry in 2^63 ps."""
    require(whole(plan.npus) and plan.npus >= 1 and len(plan.network.dims) > 0, "no npus")
    npus, heaviest = 1, 9.2e18
    for dim in plan.network.dims:
        require(dim.shape in tuple(Shape), "shape out of range")
        require(whole(dim.npus) and dim.npus >= 1 and dim.bandwidth > 0 and dim.latency >= 0, "dim out of range")
        require(dim.shape != Shape.HYPERCUBE or dim.npus & (dim.npus - 1) == 0, "a hypercube needs a power of two")
        npus *= dim.npus
        require(len(dim.ends) < dim.npus and (not dim.ends or dim.shape == Shape.SWITCH)
                and all(end.bandwidth > 0 and end.latency >= 0 for end in dim.ends), "memory of a switch out of range")
        heaviest = min(heaviest, *[LONGEST_NS / dim.npus * link.bandwidth for link in kinds_of_links(dim)])
    if any(link.latency >= LONGEST_NS / dim.npus for dim in plan.network.dims for link in kinds_of_links(dim)):
        raise _too_long()
    require(npus == plan.npus, "npus is not the product of the dims")
    astra = plan.policy.order == Order.ASTRA_SIM
    require((plan.network.backend in (Backend.UNSHARED, Backend.LINKS)) == astra, "a back end of the other rule book")
    require(plan.network.whole_ns == astra, "ASTRA-sim counts whole ns, and only it")
    kind = None if astra or plan.network.backend == Backend.FOREIGN else medium_kind(plan.network.backend)
    if (graph := plan.network.graph) is not None:
        check_graph(plan.network, graph, plan.npus, kind is not None and kind.takes_graph)
        if float(graph.latency.max()) >= LONGEST_NS / graph.nodes:
            raise _too_long()
        heaviest = LONGEST_NS / graph.nodes * float(graph.bandwidth.min())
    if kind is not None:
        kind.check(plan.network)
    if plan.changes is not None:
        check_changes(plan, plan.changes, kind is not None and kind.takes_graph)
    if plan.network.backend == Backend.LINKS and len(plan.network.dims) == 1:
        require(plan.network.dims[0].shape <= Shape.FULLY_CONNECTED, "a shape that ASTRA-sim's links do not know")
    return heaviest


def _check_policy(plan: Plan) -> None:
    policy, remote = plan.policy, plan.remote
    require(policy.order in tuple(Order), "tie order out of range")
    numbers = (policy.queues_per_dim, policy.active_chunks, policy.endpoint_delay, policy.lifo)
    require(all(map(whole, numbers)), "policy has the wrong type")
    require(policy.queues_per_dim >= 1 and 0 <= policy.active_chunks <= 1 << 30 and policy.endpoint_delay >= 0
            and policy.reduce_bandwidth >= 0, "policy out of range")
    rates = array(plan.reduce_bandwidth, np.float64, "reduce_bandwidth")
    require(rates.size in (0, plan.npus), "reduction bandwidths differ in length")
    require(bool((rates >= 0).all()), "reduction bandwidth out of range")
    bus: tuple[float, ...] | None = policy.shared_bus
    if bus is not None:
        require(len(bus) == 5 and all(0 <= value < LONGEST_NS / 8 for value in bus), "shared bus out of range")
    require(remote.kind in tuple(RemoteKind) and whole(remote.npus_per_node) and remote.npus_per_node >= 1
            and remote.bandwidth > 0 and whole(remote.latency) and remote.latency >= 0, "remote memory out of range")
    if remote.latency >= LONGEST_NS or remote.bandwidth < SLOWEST:
        raise _too_long()
    require(len(plan.lanes) == len(Lane) and all(whole(room) and room >= 1 for room in plan.lanes), "lane without room")


def _too_long() -> UnsupportedError:
    return UnsupportedError("workload", "a delay of more than 2^63 ps (106 days)")


def _heavy(size: float, heaviest: float) -> None:
    if size > heaviest:
        raise _too_long()


def _check_program(program: Program, heaviest: float) -> None:
    columns = [array(getattr(program, name), kind, name) for name, kind in COLUMNS]
    pointer, child = (array(getattr(program, name), np.int32, name) for name in ("child_ptr", "child"))
    nodes = columns[0].size
    require(all(column.size == nodes for column in columns) and pointer.size == nodes + 1,
            "program arrays differ in length")
    _, kind, lane, duration, busy, size, _, parents = columns
    fine = (kind <= Kind.SKIP) & (lane >= -1) & (lane < len(Lane)) & (duration >= 0) & (size >= 0) & (busy >= 0)
    require(bool(fine.all()), "node out of range")
    require(int(pointer[0]) == 0 and bool((np.diff(pointer) >= 0).all()) and int(pointer[-1]) == child.size,
            "child_ptr out of range")
    if sum(busy.tolist()) >= 2**63:
        raise UnsupportedError("workload", "time exceeds 2^63 ps (106 days)")
    messages = np.isin(kind, (Kind.SEND, Kind.RECV))
    _heavy(float(size[messages].max(initial=0)), heaviest)
    require(bool(((child >= 0) & (child < nodes)).all()), "child out of range")
    require(bool((np.bincount(child, minlength=nodes) == parents).all()), "parents are not those of the children")


def _check_accesses(plan: Plan, heaviest: float) -> None:
    """Remote accesses over the network name memories that there are, in a network that has them."""
    memories = sum(len(dim.ends) for dim in plan.network.dims)
    require(not plan.attached and (not memories or (plan.network.graph is None
                                                    and plan.network.backend != Backend.FOREIGN)),
            "memories that are at no switch")
    for program in plan.programs:
        far = (program.kind == Kind.REMOTE) & (program.slot < -1)
        require(bool((program.slot[far] >= -1 - 2 * memories).all()), "memory out of range")
        _heavy(float(program.size[far].max(initial=0)), heaviest)


def _slots_of(program: Program) -> Slots:
    found: Slots = {}
    for node in np.flatnonzero(np.isin(program.kind, COMM)).tolist():
        mine = (int(program.kind[node]), int(program.size[node]))
        require(0 <= program.slot[node] < len(program.slot), "slot out of range")
        require(found.setdefault(int(program.slot[node]), mine) == mine, "nodes that differ share a slot")
    require(len(found) == max(found, default=-1) + 1, "a slot without a node")
    return found


def _check_ranks(plan: Plan, widths: Sequence[int]) -> None:
    program_of, npu_of = array(plan.program_of, np.int32, "program_of"), array(plan.npu_of, np.int32, "npu_of")
    pointer, ranks = array(plan.slot_ptr, np.int64, "slot_ptr"), program_of.size
    slots = [array(getattr(plan, name), np.int32, name) for name in ("slot_a", "slot_b", "slot_c")]
    require(npu_of.size == ranks and pointer.size == ranks + 1, "rank arrays differ in length")
    require(int(pointer[0]) == 0 and len({column.size for column in slots}) == 1, "slots differ in length")
    require(bool(((program_of >= 0) & (program_of < len(plan.programs)) & (npu_of >= 0) & (npu_of < plan.npus)).all()),
            "rank out of range")
    width = np.array([*widths, 0], np.int64)[program_of]
    require(bool((np.diff(pointer) == width).all()) and int(pointer[-1]) == slots[0].size, "slots of another program")
    require(np.unique(npu_of).size == ranks, "two ranks on one NPU")


def _check_groups(plan: Plan) -> None:
    for group in plan.groups:
        members = array(group, np.int32, "groups")
        require(bool(((members >= 0) & (members < plan.program_of.size)).all()), "group member out of range")
        require(np.unique(members).size == members.size, "a rank twice in a group")


def _check_collective(plan: Plan, collective: CollectivePlan, heaviest: float) -> None:
    require(whole(collective.op) and 0 <= collective.op <= 15, "collective op out of range")
    require(whole(collective.size) and collective.size >= 0 and whole(collective.active_chunks),
            "collective size out of range")
    repeats = [chunk.repeat for chunk in collective.chunks]
    require(all(whole(repeat) and repeat >= 0 for repeat in repeats), "chunk repeat out of range")
    if sum(repeats) > MOST_CHUNKS:
        raise UnsupportedError("workload", "a collective of more than 1,048,576 chunks")
    for chunk in collective.chunks:
        for phase in chunk.phases:
            _check_phase(plan, phase, collective.custom is not None, heaviest)
    require(whole(collective.lasts) and collective.lasts >= 0, "collective time out of range")
    require(not collective.lasts or not (collective.custom or collective.chunks
                                         or plan.policy.order == Order.ASTRA_SIM),
            "a collective of given time with messages")
    if collective.turns:
        require(plan.policy.order != Order.ASTRA_SIM, "turns under ASTRA-sim's order")
        _check_turns(collective)
    custom = collective.custom
    if custom is None:
        return
    program_of = array(custom.program_of, np.int32, "program_of")
    count = len(custom.programs)
    require(len(custom.slot_peer) == count and len(custom.slot_tag) == count, "custom programs differ in length")
    require(bool(((program_of >= 0) & (program_of < count)).all()), "custom program out of range")
    astra = plan.policy.order == Order.ASTRA_SIM
    require(len(custom.roots) == (count if astra else 0), "custom programs without the order of their roots")
    for program, roots in zip(custom.programs, custom.roots, strict=False):
        first = np.sort(array(roots, np.int32, "roots"))
        require(np.array_equal(first, np.flatnonzero(program.parents == 0)), "custom roots out of range")
    for number, program in enumerate(custom.programs):
        _check_custom(program, custom.slot_peer[number], custom.slot_tag[number], np.flatnonzero(program_of == number),
                      program_of.size, heaviest)


def _check_turns(collective: CollectivePlan) -> None:
    """Every visit of every chunk once."""
    listed = np.concatenate([array(turns, np.int32, "turns") for turns in collective.turns])
    phases = {len(chunk.phases) for chunk in collective.chunks}
    require(collective.custom is None and len(phases) == 1, "turns of chunks that differ in phases")
    visits = phases.pop() * sum(chunk.repeat for chunk in collective.chunks)
    once = listed.size == visits and bool((np.sort(listed) == np.arange(visits)).all())
    require(once, "turns are not each visit once")


def _check_custom(program: Program, peers: object, tags: object, positions: I64, count: int, heaviest: float) -> None:
    _check_program(program, heaviest)
    peer, tag = array(peers, np.int32, "slot_peer"), array(tags, np.int32, "slot_tag")
    require(peer.size == tag.size, "custom slots differ in length")
    used = program.slot[np.isin(program.kind, (Kind.SEND, Kind.RECV))]
    require(bool(((used >= 0) & (used < peer.size)).all()), "custom slot out of range")
    require(bool(((peer[used] >= 0) & (peer[used] < count) & (tag[used] >= 0)).all()), "custom peer out of range")
    require(not np.isin(positions, peer[used]).any(), "a custom message to itself")


def _check_phase(plan: Plan, phase: Phase, custom: bool, heaviest: float) -> None:
    numbers = (phase.dim, phase.op, phase.size, phase.n, phase.stride, phase.window, phase.block_size)
    require(all(map(whole, numbers)), "phase has the wrong type")
    require(phase.dim < len(plan.network.dims), "phase dim out of range")
    require(phase.n >= 1 and phase.stride >= 1 and phase.size >= 0 and phase.block_size >= 0, "phase out of range")
    require(0 <= phase.op <= 15 and phase.pick in tuple(Pick), "phase out of range")
    require((phase.algorithm == Algorithm.SCHEDULE) == (phase.schedule is not None), "schedule missing")
    astra = plan.policy.order == Order.ASTRA_SIM
    if phase.schedule is not None:
        check_schedule(phase.schedule)
        require(not astra and phase.schedule.n == phase.n, "schedule of another size")
        messages = phase.schedule.send_peer.size + phase.schedule.recv_peer.size
        require(whole(phase.lasts) and phase.lasts >= 0 and not (phase.lasts and messages),
                "a phase of given time with messages")
        _check_switches(plan, phase, phase.schedule.switches)
        return _heavy(float(widest(phase.schedule)) * phase.block_size, heaviest)
    require(astra and phase.algorithm in tuple(Algorithm)[1:], "algorithm out of range")
    require((phase.algorithm == Algorithm.CUSTOM) == custom, "custom program missing")
    most = float(phase.size) * (phase.n if phase.op == CommOp.ALL_GATHER else 1)
    rates = [rate for rate in (plan.policy.reduce_bandwidth, *plan.reduce_bandwidth.tolist()) if rate > 0]
    if rates and most * 3e9 >= LONGEST_NS * min(rates):
        raise _too_long()
    return _heavy(most, heaviest)


def _check_switches(plan: Plan, phase: Phase, switches: int) -> None:
    """A phase's switches are in the network, and the medium ends messages there."""
    able, network = phase.in_switch, plan.network
    require((able is None) == (switches == 0), "switches without what they can do")
    if able is None:
        return
    require(able.rate > 0 and whole(able.latency) and able.latency >= 0, "switch out of range")
    if network.graph is None:
        at_dim = phase.dim >= 0 and network.dims[phase.dim].shape == Shape.SWITCH
        require(not able.nodes and switches == 1 and at_dim, "a switch that is in no dim")
    else:
        require(len(able.nodes) == switches and all(plan.npus <= node < network.graph.nodes for node in able.nodes),
                "a switch that is no node of the graph")
    require(network.backend != Backend.FOREIGN and medium_kind(network.backend).takes_switches,
            "a medium without ends at switches")


def _check_slots(plan: Plan, slots: Sequence[Slots]) -> None:
    """Arguments of every rank; the participants of a phase, stride apart, must all be members."""
    for number, found in enumerate(slots):
        first = plan.slot_ptr[:-1][plan.program_of == number]
        for slot, (kind, _) in found.items():
            a, b = plan.slot_a[first + slot], plan.slot_b[first + slot]
            if kind != Kind.COLLECTIVE:
                require(bool(((a >= 0) & (b >= 0)).all()), "peer or tag out of range")
                continue
            require(bool(((a >= 0) & (a < len(plan.collectives)) & (b >= -1) & (b < len(plan.groups))).all()),
                    "collective out of range")
            for which, group in {*zip(a.tolist(), b.tolist(), strict=True)}:
                members = plan.program_of.size if group < 0 else plan.groups[group].size
                require(fits(plan.collectives[which], members), "a collective that does not fit its group")
