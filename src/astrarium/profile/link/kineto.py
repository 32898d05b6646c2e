"""Device traces: the Chrome JSON that Kineto (torch.profiler) writes, read into what linking needs."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from astrarium.errors import InputError
from astrarium.profile.launches import arguments
from astrarium.profile.link.records import (
    ALONE,
    CALL,
    EVENT,
    KERNEL,
    MAX_MEMBERS,
    MEMCPY,
    MEMSET,
    OPERATOR,
    OVERHEAD,
    SYNC,
    CommArgs,
    DeviceTrace,
    Gpu,
    Host,
    Sync,
)
from astrarium.profile.link.text import UNREADABLE, decoded, numbers

__all__ = ["read_device"]

FORM = 'a Kineto file: {"traceEvents": [{"ph": "X", "cat": "kernel", "ts": …, "dur": …, "args": {…}}, …]}'
LATEST = float(2**53)        # us: beyond it a time is no time
TIME_LIMIT = 1 << 62         # ns
MAX_STREAMS = 4096
Scalar = int | float | str | bool | None

MTIA = "mtia_ccp_events"
CATEGORY: Mapping[str, int] = MappingProxyType({
    "cpu_op": OPERATOR, "user_annotation": OPERATOR, "Operator": OPERATOR,
    "cuda_runtime": CALL, "cuda_driver": CALL, "hip_runtime": CALL, "hip_driver": CALL, "Runtime": CALL,
    "xpu_runtime": CALL, "xpu_driver": CALL, "mtia_runtime": CALL, "privateuse1_runtime": CALL,
    "privateuse1_driver": CALL,
    "kernel": KERNEL, "Kernel": KERNEL, "concurrent_kernel": KERNEL, MTIA: KERNEL,
    "gpu_memcpy": MEMCPY, "Memcpy": MEMCPY, "gpu_memset": MEMSET, "Memset": MEMSET,
    "cuda_sync": SYNC, "cuda_event": EVENT, "overhead": OVERHEAD})
"""Categories of Kineto, those of before 2022 with capital letters, -> what they are here; others are not read."""

SPANS = frozenset({"Trace", "python_function", "gpu_user_annotation", "cpu_instant_event"})
"""Categories that are no work of their own: frames and spans around it. What has still another one is reported."""
PROFILERS = frozenset({"Activity Buffer Request", "Buffer Flush", "Instrumentation", "Resource"})
"""Overheads that the profiler causes; others, such as the loading of modules, the program has without it as well."""
DMA = "dma_request"      # MTIA's copies; what else its command processor did are kernels


class _Args(msgspec.Struct, gc=False):
    external: Scalar = msgspec.field(name="External id", default=None)
    external_old: Scalar = msgspec.field(name="external id", default=None)
    record: Scalar = msgspec.field(name="Record function id", default=None)
    correlation: Scalar = None
    stream: Scalar = None
    device: Scalar = None
    wait_on_stream: Scalar = None
    record_call: Scalar = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=None)
    graph_node: Scalar = msgspec.field(name="graph node id", default=None)
    forward: Scalar = msgspec.field(name="Fwd thread id", default=None)
    collective: Scalar = msgspec.field(name="Collective name", default=None)
    elements_in: Scalar = msgspec.field(name="In msg nelems", default=None)
    elements_out: Scalar = msgspec.field(name="Out msg nelems", default=None)
    group_size: Scalar = msgspec.field(name="Group size", default=None)
    dtype: Scalar = None
    group: Scalar = msgspec.field(name="Process Group Name", default=None)
    ranks: Any = msgspec.field(name="Process Group Ranks", default=None)
    source: Scalar = msgspec.field(name="Src Rank", default=None)
    destination: Scalar = msgspec.field(name="Dst Rank", default=None)
    split_in: Any = msgspec.field(name="In split size", default=None)
    split_out: Any = msgspec.field(name="Out split size", default=None)


class _Shapes(msgspec.Struct, gc=False):
    dims: Any = msgspec.field(name="Input Dims", default=None)
    types: Any = msgspec.field(name="Input type", default=None)
    values: Any = msgspec.field(name="Concrete Inputs", default=None)


class _Event(msgspec.Struct, gc=False):
    ph: Scalar = None
    cat: Scalar = None
    name: Scalar = None
    pid: Scalar = None
    tid: Scalar = None
    ts: Scalar = None
    dur: Scalar = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Group(msgspec.Struct):
    pg_name: str | int
    ranks: list[int] = []
    pg_size: int | None = None
    pg_desc: str = ""


class _Distributed(msgspec.Struct):
    rank: int | None = None
    world_size: int | None = None
    pg_config: Any = None
    backend: Any = None


class _Device(msgspec.Struct):
    name: str = ""


class _Document(msgspec.Struct, gc=False):
    events: list[msgspec.Raw] = msgspec.field(name="traceEvents")
    distributed: msgspec.Raw = msgspec.field(name="distributedInfo", default=msgspec.Raw(b"null"))
    devices: msgspec.Raw = msgspec.field(name="deviceProperties", default=msgspec.Raw(b"null"))
    alone: Scalar = msgspec.field(name=ALONE, default=None)


def read_device(data: bytes | bytearray, where: str, *, shapes: bool = False) -> DeviceTrace:
    """The events of a device trace; with `shapes` the arguments of operators, too. Raises InputError for anything that
    is not one."""
    document = _document(data, where)
    trace = DeviceTrace(where)
    _distributed(trace, document.distributed)
    trace.device = _device(document.devices)
    trace.alone = _ns(document.alone)
    decode_event = msgspec.json.Decoder(_Event).decode
    decode_args = msgspec.json.Decoder(_Args).decode
    for number, raw in enumerate(document.events):
        try:
            event = decode_event(raw)
        except UNREADABLE:
            event = decoded(bytes(raw), f"{where}: traceEvents[{number}]", decode_event, FORM)
        if event.ph != "X" and event.ph is not None:
            continue
        kind = CATEGORY.get(event.cat) if event.cat.__class__ is str else None
        if kind is None:
            trace.nameless += event.cat is None and event.ph == "X"
            if isinstance(event.cat, str) and event.cat not in SPANS:
                trace.unread[event.cat] = trace.unread.get(event.cat, 0) + 1
            continue
        try:
            args = decode_args(event.args)
        except UNREADABLE:
            args = decoded(bytes(event.args), f"{where}: traceEvents[{number}].args", decode_args, FORM)
        operators = len(trace.operators.name)
        _take(trace, kind, event, args)
        if shapes and len(trace.operators.name) > operators:
            _describe(trace, operators, event)
    _from_zero(trace)
    return trace


def _describe(trace: DeviceTrace, operator: int, event: _Event) -> None:
    """Notes an operator's arguments, where `record_shapes` wrote them."""
    try:
        found = msgspec.json.decode(event.args, type=_Shapes)
    except UNREADABLE:
        return
    given = arguments(found.dims, found.types, found.values)
    if given is not None:
        trace.arguments[operator] = given


def _document(data: bytes | bytearray, where: str) -> _Document:
    decoder = msgspec.json.Decoder(_Document)
    if data[:64].lstrip()[:1] == b"[":      # Chrome's other form: the bare list
        return _Document(decoded(data, where, msgspec.json.Decoder(list[msgspec.Raw]).decode, FORM))
    return decoded(data, where, decoder.decode, FORM)


def _distributed(trace: DeviceTrace, raw: msgspec.Raw) -> None:
    """Rank and process groups; what has another form is left out."""
    try:
        found = msgspec.json.decode(raw, type=_Distributed | None)
    except UNREADABLE:
        return
    if found is None:
        return
    trace.rank, trace.world, members = found.rank, found.world_size, 0
    for entry in found.pg_config if isinstance(found.pg_config, list) else ():
        try:
            group = msgspec.convert(entry, _Group)
        except UNREADABLE:
            continue
        ranks = tuple(group.ranks)
        if not ranks and group.pg_size is not None and group.pg_size == found.world_size:
            ranks = tuple(range(group.pg_size)) if 0 < group.pg_size < MAX_MEMBERS - members else ()
        members += len(ranks)
        if ranks and members < MAX_MEMBERS and min(ranks) >= 0 and len(set(ranks)) == len(ranks):
            trace.groups[str(group.pg_name)] = ranks


def _device(raw: msgspec.Raw) -> str:
    """The name of the first GPU; "" where there is none."""
    try:
        found = msgspec.json.decode(raw, type=list[_Device] | None)
    except UNREADABLE:
        return ""
    return found[0].name if found else ""


def _take(trace: DeviceTrace, kind: int, event: _Event, args: _Args) -> None:
    start, length = _ns(event.ts), _ns(event.dur if event.dur is not None else 0)
    if start is None or length is None or length < 0:
        trace.skipped += 1
        return
    name = event.name if isinstance(event.name, str) else ""
    name = trace.texts.setdefault(name, name)
    correlation = whole(args.correlation)
    external = whole(args.external)
    external = external if external >= 0 else whole(args.external_old)
    if kind in (OPERATOR, CALL):
        thread = trace.threads.setdefault((str(event.pid), str(event.tid)), len(trace.threads))
        into = trace.operators if kind == OPERATOR else trace.calls
        if args.collective is not None and kind == OPERATOR:
            trace.op_comms[len(into.name)] = _comm(args)
        if event.cat == "user_annotation":
            into.annotations.add(len(into.name))
        into.thread.append(thread)
        into.start.append(start)
        into.end.append(start + length)
        into.key.append(whole(args.record) if kind == OPERATOR else correlation)
        into.external.append(external)
        into.name.append(name)
    elif kind == SYNC:
        stream = _stream(trace, args, event) if whole(args.stream) >= 0 else None
        waited = whole(args.wait_on_stream)
        device = max(whole(args.device), 0)
        trace.syncs.append(Sync(name, correlation, stream,
                                _number_of(trace, (device, waited)) if waited >= 0 else None,
                                whole(args.record_call), start))
    elif kind == OVERHEAD:
        trace.overhead += [(start, start + length)] * (name in PROFILERS)
    elif kind != EVENT:
        _take_gpu(trace, kind, (start, start + length, name, correlation, external), event, args)


def _take_gpu(trace: DeviceTrace, kind: int, what: tuple[int, int, str, int, int], event: _Event, args: _Args) -> None:
    gpu = trace.gpu
    if args.collective is not None or args.group is not None:
        trace.comms[len(gpu.name)] = _comm(args)
    gpu.kind.append(MEMCPY if event.cat == MTIA and what[2] == DMA else kind)
    gpu.start.append(what[0])
    gpu.end.append(what[1])
    gpu.name.append(what[2])
    gpu.correlation.append(what[3])
    gpu.external.append(what[4])
    gpu.stream.append(_stream(trace, args, event))
    gpu.graph.append(int(whole(args.graph_node) > 0))


def _stream(trace: DeviceTrace, args: _Args, event: _Event) -> int:
    """The number of the (device, stream) pair; pid and tid stand in for arguments that are missing."""
    device = whole(args.device)
    stream = whole(args.stream)
    key = (device if device >= 0 else max(whole(event.pid), 0), stream if stream >= 0 else max(whole(event.tid), 0))
    return _number_of(trace, key)


def _number_of(trace: DeviceTrace, key: tuple[int, int]) -> int:
    number = trace.streams.get(key)
    if number is None:
        number = trace.streams[key] = len(trace.stream_names)
        if number == MAX_STREAMS:
            raise InputError(trace.where, f"more than {MAX_STREAMS} GPU streams", expected="the trace of one process")
        trace.stream_names.append(key)
    return number


def _comm(args: _Args) -> CommArgs:
    def text(value: Scalar) -> str | None:
        return None if value is None else str(value)

    def count(value: Scalar) -> int | None:
        number = whole(value)
        return number if number >= 0 else None

    return CommArgs(text(args.collective), count(args.elements_in), count(args.elements_out), text(args.dtype),
                    text(args.group), _ranks(args.ranks), count(args.group_size), count(args.source),
                    count(args.destination), numbers(args.split_in), numbers(args.split_out))


def _ranks(value: Any) -> tuple[int, ...] | None:
    """Distinct ranks; None for other things."""
    found = numbers(value)
    return found if found is not None and max(found) < 1 << 31 and len(set(found)) == len(found) else None


def whole(value: Scalar) -> int:
    """A number that may be written as a text; -1 where it is none, is negative or has no 63 bits."""
    if value.__class__ is not int:
        try:
            value = int(value) if value is not None else -1
        except (ValueError, OverflowError):
            return -1
    return value if 0 <= value < 1 << 63 else -1


def _ns(micros: Scalar) -> int | None:
    """Microseconds as whole ns; None where this is no time."""
    if micros.__class__ is str:
        try:
            micros = float(micros)
        except ValueError:
            return None
    if micros.__class__ is int and abs(micros) < LATEST:
        return micros * 1000
    if micros.__class__ is float and abs(micros) < LATEST:
        return round(micros * 1000)
    return None


def _from_zero(trace: DeviceTrace) -> None:
    """Shifts all times so that the earliest is 0."""
    tables: tuple[Host | Gpu, ...] = (trace.operators, trace.calls, trace.gpu)
    starts = [min(table.start) for table in tables if table.start]
    trace.origin = origin = min(starts, default=0)
    for table in tables:
        if table.end and max(table.end) - origin > TIME_LIMIT:
            raise InputError(trace.where, "its events are more than 146 years apart")
        table.start = array("q", [at - origin for at in table.start])
        table.end = array("q", [at - origin for at in table.end])
    trace.overhead = [(begin - origin, end - origin) for begin, end in trace.overhead]
    trace.syncs = [Sync(s.kind, s.correlation, s.stream, s.wait_on, s.record_call, s.start - origin)
                   for s in trace.syncs]
