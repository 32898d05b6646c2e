"""A draft and what is known of its nodes to the messages of a Chakra file."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping

from msgspec import Struct

from astrarium.arrays import F64, I64
from astrarium.profile.link.between import HostNodes
from astrarium.profile.link.calls import Calls
from astrarium.profile.link.comm import P2P, Comm
from astrarium.profile.link.gather import Communications
from astrarium.profile.link.host import HostTrace
from astrarium.profile.link.join import Join
from astrarium.profile.link.nodes import GAP, GPU, LABEL, MESSAGE, Draft, Order
from astrarium.profile.link.records import MEMCPY, MEMSET, DeviceTrace
from astrarium.profile.link.threads import CALL, IDLE, OPERATOR
from astrarium.profile.link.wire import Encoder
from astrarium.trace._wire import delimited
from astrarium.trace.groups import GROUPS_NODE, groups_text
from astrarium.trace.linked import GAP_NAME, LOGICAL, STRIDES, UNEXPLAINED
from astrarium.trace.node import IOInfo, Node, encode_node
from astrarium.vocab import CommOp, NodeKind

__all__ = ["IDLE_NAME", "Source", "messages"]

IDLE_NAME = "host time outside operators"
CATEGORY = {MEMCPY: "gpu_memcpy", MEMSET: "gpu_memset"}
FIRST_ID = 1


class Source(Struct, frozen=True, eq=False):
    """What nodes are made from."""

    trace: DeviceTrace
    host: HostTrace | None
    join: Join
    calls: Calls
    parent: array[int]
    found: HostNodes
    comms: Communications
    groups: Mapping[str, tuple[int, ...]]
    rank: int


def messages(source: Source, draft: Draft, order: Order, starts: I64, micros: I64, gaps: F64) -> Iterator[bytes]:
    """Node messages with their lengths, ids ascending in time; the groups' metadata node first. [places]: `starts` in
    ns, `micros` the durations, `gaps` the share of each that is unexplained."""
    base = FIRST_ID
    if source.groups:
        yield delimited(encode_node(Node(base, GROUPS_NODE, int(NodeKind.METADATA),
                                         inputs=IOInfo(groups_text(source.groups.items()), "[[]]", "['String']"))))
        base += 1
    emitter = _Emitter(source, order, base)
    part, of, lane = draft.part, draft.of, draft.lane
    node, ptr, before = (array("q", column.tobytes()) for column in (order.node, order.ptr, order.before + base))
    start = starts // 1000
    begin, length, gap = array("q", start.tobytes()), array("q", micros.tobytes()), array("d", gaps.tobytes())
    make = {GPU: emitter.gpu, LABEL: emitter.label, MESSAGE: emitter.message,
            OPERATOR: emitter.operator, CALL: emitter.call, IDLE: emitter.idle,
            GAP: emitter.gap}
    for place, number in enumerate(node):
        emitter.part_of = (part[of[number]], of[of[number]]) if part[number] == MESSAGE else (0, 0)
        emitter.at = (place + base, before[ptr[place]:ptr[place + 1]], begin[place], length[place])
        emitter.unexplained = gap[place]
        yield make.get(part[number], emitter.rest)(of[number], lane[number])


class _Emitter:
    """One node at a time; `at` is its id, data dependencies, start and duration."""

    def __init__(self, source: Source, order: Order, base: int) -> None:
        self.source, self.encoder = source, Encoder()
        self.at: tuple[int, array[int], int, int] = (0, array("q"), 0, 0)
        self.unexplained = 0.0   # share of the node
        self.part_of = (0, 0)    # part and number of the node that a message belongs to
        self._id = array("q", (order.place + base).tobytes())
        self._base = len(source.trace.operators.name)
        self._tid = [_number(key[1], number) for key, number in source.trace.threads.items()]
        self._devices = len({device for device, _ in source.trace.stream_names}) > 1
        self._messages: dict[tuple[str, int], int] = {}

    def _node(self, name: str, kind: NodeKind, ctrl: int, info: tuple[bytes, ...], attrs: list[bytes]) -> bytes:
        number, data, begin, length = self.at
        if self.unexplained:
            attrs = [*attrs, self.encoder.same(UNEXPLAINED, self.unexplained)]
        return self.encoder.node(number, name, kind, (ctrl,) if 0 < ctrl < number else (), data, begin, length, info,
                                 attrs)

    def operator(self, operator: int, lane: int) -> bytes:
        source, encoder = self.source, self.encoder
        node = source.join.host[operator]
        above = source.found.operator.get(source.parent[operator], -1) if source.parent[operator] >= 0 else -1
        ctrl = self._id[above] if above >= 0 else 0
        attrs = self._host_attrs(node)
        info = self._info(node, attrs)
        attrs.append(encoder.same("tid", self._tid[lane]))
        name = source.trace.operators.name[operator]
        comm = source.comms.operator.get(operator)
        if comm is not None:
            kind, more = self._comm(comm)
            return self._node(name, kind, ctrl, info, [encoder.same("is_cpu_op", False), *more, *attrs])
        return self._node(name, NodeKind.COMP, ctrl, info, [encoder.same("is_cpu_op", True), *attrs])

    def _host_attrs(self, node: int) -> list[bytes]:
        host, encoder = self.source.host, self.encoder
        if host is None or node < 0:
            return []
        attrs = [encoder.whole("rf_id", host.rf_id[node]), encoder.whole("fw_parent", host.fw_parent[node]),
                 encoder.whole("seq_id", host.seq_id[node]), encoder.same("scope", host.scope[node]),
                 encoder.same("fw_tid", host.fw_tid[node])]
        if host.op_schema[node]:
            attrs.append(encoder.same("op_schema", host.op_schema[node]))
        return attrs

    def _info(self, node: int, attrs: list[bytes]) -> tuple[bytes, ...]:
        """Inputs and outputs; strides of inputs that are not contiguous go to `attrs`: Chakra has no field for them."""
        if self.source.host is None or node < 0:
            return ()
        inputs, outputs = self.source.host.tensors(node)
        strides = self.encoder.strides(bytes(inputs.shapes), bytes(inputs.strides))
        if strides:
            attrs.append(self.encoder.same(STRIDES, strides))
        return (self.encoder.info(8, (bytes(inputs.values), bytes(inputs.shapes), bytes(inputs.types))),
                self.encoder.info(9, (bytes(outputs.values), bytes(outputs.shapes), bytes(outputs.types))))

    def call(self, number: int, lane: int) -> bytes:
        above = self.source.found.operator.get(self.source.parent[number], -1)
        return self._node(self.source.trace.calls.name[number - self._base], NodeKind.COMP,
                          self._id[above] if above >= 0 else 0, (), self._cpu(lane))

    def rest(self, number: int, lane: int) -> bytes:
        """An operator or call that goes on: named like it; `rest_of` is its node's id."""
        trace, base = self.source.trace, self._base
        name = trace.operators.name[number] if number < base else trace.calls.name[number - base]
        found = self.source.found
        first = found.operator.get(number, -1) if number < base else found.launch.get(number - base, -1)
        attrs = self._cpu(lane)
        if first >= 0:
            attrs.append(self.encoder.whole("rest_of", self._id[first]))
        return self._node(name, NodeKind.COMP, 0, (), attrs)

    def idle(self, number: int, lane: int) -> bytes:
        del number
        return self._node(IDLE_NAME, NodeKind.COMP, 0, (), self._cpu(lane))

    def gap(self, operation: int, lane: int) -> bytes:
        """Unexplained time before a GPU operation; `idle_stream` is the stream of that operation."""
        del lane
        device, stream = self.source.trace.stream_names[self.source.trace.gpu.stream[operation]]
        attrs = [self.encoder.same("is_cpu_op", True), self.encoder.same("idle_stream", stream)]
        if self._devices:
            attrs.append(self.encoder.same("device", device))
        return self._node(GAP_NAME, NodeKind.COMP, 0, (), attrs)

    def _cpu(self, lane: int) -> list[bytes]:
        return [self.encoder.same("is_cpu_op", True), self.encoder.same("tid", self._tid[lane])]

    def label(self, node: int, lane: int) -> bytes:
        """A host node that the device trace has no time for."""
        del lane
        host, encoder = self.source.host, self.encoder
        assert host is not None
        attrs = [*self._host_attrs(node), encoder.same("tid", host.tid[node])]
        comm = self.source.comms.host.get(node)
        kind, more = self._comm(comm) if comm is not None else (NodeKind.COMP, [])
        return self._node(host.name[node], kind, self._above(node), self._info(node, attrs),
                          [encoder.same("is_cpu_op", comm is None), *more, *attrs])

    def _above(self, node: int) -> int:
        """The id of the node that a host node is called from; 0 where there is none."""
        caller = self.source.found.caller.get(node, -1)
        return self._id[caller] if caller >= 0 else 0

    def gpu(self, operation: int, lane: int) -> bytes:
        source, encoder = self.source, self.encoder
        trace = source.trace
        device, stream = trace.stream_names[lane]
        attrs = [encoder.same("is_cpu_op", False), encoder.same("stream", stream),
                 encoder.same("cat", CATEGORY.get(trace.gpu.kind[operation], "kernel"))]
        if self._devices:
            attrs.append(encoder.same("device", device))
        call = source.calls.launcher.get(operation, -1)
        around = source.parent[self._base + call] if call >= 0 else -1
        above = source.found.operator.get(around, -1)
        node = source.join.host[around] if around >= 0 else -1
        if source.host is not None and node >= 0:
            attrs.append(encoder.whole("rf_id", source.host.rf_id[node]))
        kind = NodeKind.COMP
        comm = source.comms.gpu.get(operation)
        if comm is not None:
            kind, more = self._comm(comm)
            attrs += more
        return self._node(trace.gpu.name[operation], kind, self._id[above] if above >= 0 else 0, (), attrs)

    def message(self, node: int, place: int) -> bytes:
        """A further message of a kernel or an operator that is several."""
        kind, attrs = self._comm(self.source.comms.messages[node][place])
        attrs.append(self.encoder.whole("part_of", self._id[node]))
        part, number = self.part_of
        source = self.source
        table = source.trace.gpu if part == GPU else source.host if part == LABEL else source.trace.operators
        assert table is not None
        return self._node(table.name[number], kind, 0, (),
                          [self.encoder.same("is_cpu_op", False), *attrs])

    def _comm(self, comm: Comm) -> tuple[NodeKind, list[bytes]]:
        encoder = self.encoder
        attrs = [encoder.whole("comm_size", comm.size or 0)]
        if comm.group is not None:
            attrs.append(encoder.same("pg_name", comm.group))
        if comm.logical is not None:
            attrs.append(encoder.same(LOGICAL, comm.logical))
        if comm.op not in P2P:
            return NodeKind.COMM_COLL, [encoder.same("comm_type", int(CommOp[comm.op.upper()])), *attrs]
        peer, sends = comm.peer or 0, comm.op == "send"
        tag = self._messages[comm.op, peer] = self._messages.get((comm.op, peer), -1) + 1
        ends = (self.source.rank, peer) if sends else (peer, self.source.rank)
        return (NodeKind.COMM_SEND if sends else NodeKind.COMM_RECV,
                [*attrs, encoder.same("comm_src", ends[0]), encoder.same("comm_dst", ends[1]),
                 encoder.same("comm_tag", tag & 0x7FFFFFFF)])


def _number(text: str, otherwise: int) -> int:
    try:
        number = int(text)
    except ValueError:
        return otherwise
    return number if -1 << 63 <= number < 1 << 63 else otherwise
