"""Which nodes communicate: GPU kernels and host operators to Comm, from whatever says the most."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.profile.link.calls import Calls
from astrarium.profile.link.coalesced import Recorded
from astrarium.profile.link.comm import (
    CPU_BACKENDS,
    DISPATCHED,
    P2P,
    Comm,
    HostComms,
    annotated,
    by_kernel,
    is_comm_kernel,
    of_args,
)
from astrarium.profile.link.host import HostTrace
from astrarium.profile.link.join import Join
from astrarium.profile.link.records import KERNEL, CommArgs, DeviceTrace
from astrarium.profile.link.splits import spread

__all__ = ["Communications", "communications", "host_only"]

DEPTH = 16     # operators around a launch that may say what it communicates


class Communications(Struct):
    """`gpu[operation]` (`more` where it is several messages), `operator[number]` and `host[node]` that communicate;
    `unclear` says what is not known."""

    gpu: dict[int, Comm] = field(default_factory=dict)
    more: dict[int, list[Comm]] = field(default_factory=dict)     # GPU operation -> further messages of its group
    operator: dict[int, Comm] = field(default_factory=dict)
    operator_more: dict[int, list[Comm]] = field(default_factory=dict)     # operator -> further messages
    host_more: dict[int, list[Comm]] = field(default_factory=dict)         # host node -> the same
    host: dict[int, Comm] = field(default_factory=dict)
    messages: dict[int, list[Comm]] = field(default_factory=dict)          # node of the draft -> further messages
    unclear: dict[str, int] = field(default_factory=dict)

    def note(self, what: str) -> None:
        self.unclear[what] = self.unclear.get(what, 0) + 1


def communications(trace: DeviceTrace, host: HostTrace | None, join: Join, calls: Calls, parent: array[int],
                   groups: Mapping[str, tuple[int, ...]], rank: int) -> Communications:
    """Kernels of communication libraries, and operators of CPU back ends (gloo, MPI), of `rank`."""
    found, said = Communications(), HostComms(host, groups)
    kernels = _kernels(trace)
    recorded = _recorded(trace, join, said, parent, calls, kernels)
    for operation in kernels:
        args, call = trace.comms.get(operation), calls.launcher.get(operation, -1)
        around = parent[len(trace.operators.name) + call] if call >= 0 else -1
        around = calls.adopted.get(operation, around)
        comm = _kernel(trace.gpu.name[operation], args, groups, partial(_above, trace, join, said, parent, around))
        if call >= 0 and (comm is None or comm.size is None):
            comm = _grouped(found, operation, comm, recorded, (trace.calls.thread[call], trace.calls.start[call]))
        if comm is None:
            found.note("communication kernels whose operation is not known (kept as compute)")
        else:
            comm = _spread(found, found.more, operation, comm, groups, rank)
            if comm is not None:
                _keep(found, found.gpu, operation, comm)
    for operator, name in enumerate(trace.operators.name):
        op = annotated(name, CPU_BACKENDS) if ":" in name else None
        if op is not None:
            comm = _operator(Comm(op), trace.op_comms.get(operator), groups,
                             said.comm(join.host[operator]) if join.host[operator] >= 0 else None)
            above = _above(trace, join, said, parent, parent[operator]) if parent[operator] >= 0 else None
            comm = _filled(comm, above)
            if comm.op == "all_to_all" and host is not None and join.host[operator] >= 0:
                comm = _filled(comm, _asked(host, said, join.host[operator]))
            comm = replace(comm, logical=said.logical(join.host[operator], comm.op))
            whole = _spread(found, found.operator_more, operator, comm, groups, rank)
            if whole is not None:
                _keep(found, found.operator, operator, whole)
    _note_groups(found, groups)
    return found


def _spread(found: Communications, more: dict[int, list[Comm]], number: int, comm: Comm,
            groups: Mapping[str, tuple[int, ...]], rank: int) -> Comm | None:
    """The nodes of a communication; the rest of its messages go to `more`. None if it moves nothing."""
    messages = spread(comm, rank, groups)
    if messages is None:
        found.note("all_to_alls whose ranks are not known (taken as even; what each gets is recorded)")
        return comm
    if messages != [comm] and (not messages or messages[0].op in P2P):
        found.note("all_to_alls of unequal parts (written as messages)")
    if len(messages) > 1:
        more[number] = messages[1:]
    return messages[0] if messages else None


def _kernels(trace: DeviceTrace) -> list[int]:
    """GPU operations that communicate."""
    gpu = trace.gpu
    return [operation for operation, name in enumerate(gpu.name) if gpu.kind[operation] == KERNEL and (
        is_comm_kernel(name) or ((args := trace.comms.get(operation)) is not None and args.op is not None))]


def _recorded(trace: DeviceTrace, join: Join, said: HostComms, parent: array[int], calls: Calls,
              kernels: Sequence[int]) -> Recorded:
    comms = []
    for operator, name in enumerate(trace.operators.name):
        node = join.host[operator]
        if name == "record_param_comms":
            args = trace.op_comms.get(operator)
            comm = of_args(args, None, {}) if args is not None else None
            host = said.comm(node) if node >= 0 else None
            comm = host if comm is None else _filled(comm, host)
            if comm is not None:
                comms.append((operator, comm))
    launches = [(trace.calls.thread[call], trace.calls.start[call])
                for operation in kernels if (call := calls.launcher.get(operation, -1)) >= 0]
    return Recorded(trace, comms, parent, launches)


def _grouped(found: Communications, operation: int, comm: Comm | None, recorded: Recorded,
             launch: tuple[int, int]) -> Comm | None:
    """A kernel that says too little alone, by what its thread recorded since the launch before."""
    if comm is not None:
        return _filled(comm, recorded.total(*launch, comm.op)) if comm.op not in P2P else comm
    messages = recorded.messages(*launch)
    if not messages:
        return None
    if len(messages) > 1:
        found.more[operation] = messages[1:]
    return messages[0]


def _kernel(name: str, args: CommArgs | None, groups: Mapping[str, tuple[int, ...]],
            above: Callable[[], Comm | None]) -> Comm | None:
    """What a kernel communicates: Kineto's arguments first, then the operators around its launch, then its name."""
    by_name = by_kernel(name)
    comm = of_args(args, by_name, groups) if args is not None else None
    if comm is not None and comm.size is not None and (comm.peer is not None or comm.op not in P2P):
        return comm
    outer = above()
    if comm is None:
        return outer if outer is not None else Comm(by_name) if by_name is not None else None
    return _filled(comm, outer)


def _asked(host: HostTrace, said: HostComms, node: int) -> Comm | None:
    """The `c10d::` operator that issued a back end's, which ran on a separate thread: the last one before it."""
    for earlier in range(node - 1, max(node - 1 - DEPTH, -1), -1):
        if host.name[earlier].startswith(DISPATCHED):
            return said.comm(earlier)
    return None


def _operator(comm: Comm, args: CommArgs | None, groups: Mapping[str, tuple[int, ...]], host: Comm | None) -> Comm:
    told = of_args(args, comm.op, groups) if args is not None else None
    return _filled(told if told is not None else comm, host)


def _filled(comm: Comm, other: Comm | None) -> Comm:
    """`comm` with what it lacks from `other`, if that is the same operation."""
    if other is None or other.op != comm.op:
        return comm
    return replace(comm, size=comm.size if comm.size is not None else other.size,
                   group=comm.group if comm.group is not None else other.group,
                   peer=comm.peer if comm.peer is not None else other.peer,
                   splits=comm.splits if comm.splits is not None else other.splits)


def _above(trace: DeviceTrace, join: Join, said: HostComms, parent: array[int], operator: int) -> Comm | None:
    """What the operators around say, the innermost that knows bytes first."""
    best: Comm | None = None
    for _ in range(DEPTH):
        if operator < 0:
            break
        node = join.host[operator]
        comm = said.comm(node) if node >= 0 else None
        if comm is None and operator in trace.op_comms:
            comm = of_args(trace.op_comms[operator], None, {})
        if comm is None:
            op = annotated(trace.operators.name[operator])
            comm = Comm(op) if op is not None else None
        if comm is not None:
            best = comm if best is None else _filled(best, comm)
        operator = parent[operator]
    return best


def _keep(found: Communications, into: dict[int, Comm], number: int, comm: Comm) -> None:
    if comm.op in P2P and (comm.peer is None or not 0 <= comm.peer < 1 << 31):
        found.note("sends and receives whose other rank is not known (kept as compute)")
        return
    if comm.size is None:
        if comm.op != "barrier":
            found.note("communications whose bytes are not known (0 written)")
        comm = replace(comm, size=0)
    into[number] = comm


def host_only(host: HostTrace, groups: Mapping[str, tuple[int, ...]], rank: int) -> Communications:
    """Communications of a host trace without times: of the kinds of node that record them, the most telling one."""
    found, said = Communications(), HostComms(host, groups)
    number = {identity: node for node, identity in enumerate(host.id)}
    kinds: tuple[Callable[[str], bool], ...] = (
        lambda name: name == "record_param_comms", lambda name: annotated(name) is not None,
        lambda name: name.startswith("c10d::"))
    for kind in kinds:
        for node in [node for node, name in enumerate(host.name) if kind(name)]:
            comm = said.comm(node)
            if comm is not None:
                comm = replace(_called(host, said, number, node, comm), logical=said.logical(node, comm.op))
                whole = _spread(found, found.host_more, node, comm, groups, rank)
                if whole is not None:
                    _keep(found, found.host, node, whole)
        if found.host:
            break
    _note_groups(found, groups)
    return found


def _called(host: HostTrace, said: HostComms, number: Mapping[int, int], node: int, comm: Comm) -> Comm:
    """What the callers of a host node add: `c10d::send` knows the rank that `gloo:send` does not."""
    above = number.get(host.parent[node], -1)
    for _ in range(DEPTH):
        if above < 0:
            break
        comm = _filled(comm, said.comm(above))
        above = number.get(host.parent[above], -1)
    return comm


def _note_groups(found: Communications, groups: Mapping[str, tuple[int, ...]]) -> None:
    """Says so where a collective's group is not known and there are several."""
    if len(set(groups.values())) > 1:
        for comm in (*found.gpu.values(), *found.operator.values(), *found.host.values()):
            if comm.group is None and comm.op not in P2P:
                found.note("collectives whose group is not recorded (taken as all ranks)")
