"""A launch is checked before it runs: what it names exists, and every limit leaves room for an instruction."""

from __future__ import annotations

from collections.abc import Iterator

from astrarium.errors import InputError
from astrarium.gpu.engine.values import Launch, Machine, Operation, OpKind, Place, Stream, layout

__all__ = ["check"]

MOST = {"gpus": 1 << 10, "workgroups": 1 << 14, "wavefronts": 1 << 5, "streams": 1 << 5}    # what a key can count
MOST_LINES, MOST_PS = 1 << 31, 1 << 40
_POSITIVE = ("workgroups_per_unit", "wavefronts_per_unit", "instruction", "unit_data", "unit_control", "barrier",
             "fence", "dispatch", "enter", "hop", "interleave", "channel", "port_interleave", "port_data",
             "port_control", "link_latency", "columns", "rows", "engine_data", "engine_control", "engine_limit",
             "engine_dispatch")
_AT_LEAST_0 = ("reduce", "mesh_data", "mesh_control", "channel_latency", "hbm", "hbm_latency", "credits", "engines",
               "write_back", "unit_store", "hbm_store")


def check(launch: Launch, *, path: str = "launch") -> None:
    """Raise InputError at `path` for a launch that cannot run as it is."""
    _machine(launch, path)
    _within(f"{path}.gpus", launch.gpus, 1, MOST["gpus"])
    _within(f"{path}.streams", len(launch.streams), 1, MOST["streams"])
    for i, stream in enumerate(launch.streams):
        _stream(launch, stream, f"{path}.streams[{i}]")
        _cluster(launch, i, f"{path}.streams[{i}]")
    for name, rows in (("grids", launch.grids), ("starts", launch.starts)):
        if len(rows) not in (1, launch.gpus):
            raise InputError(f"{path}.{name}", f"{len(rows)} of them", expected=f"1 or {launch.gpus}")
    if any(not 0 <= start <= MOST_PS for start in launch.starts):
        raise InputError(f"{path}.starts", "a start is out of range", expected=f"0 to {MOST_PS} ps")
    *_, lines = layout(launch.buffers)
    for i, buffer in enumerate(launch.buffers):
        if buffer.size < 1 or buffer.lines not in (1, 2) or (buffer.flagged and buffer.hbm):
            raise InputError(f"{path}.buffers[{i}]", f"{buffer}", expected="a size, 1 or 2 lines, flags in L2 only")
    if lines + len(launch.semaphores) > MOST_LINES:
        raise InputError(f"{path}.buffers", f"{lines} lines", expected=f"at most {MOST_LINES}")
    for g, grid in enumerate(launch.grids):
        _grid(launch, grid, f"{path}.grids[{g}]")


def _within(path: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InputError(path, str(value), expected=f"{least} to {most}")


def _stream(launch: Launch, stream: Stream, path: str) -> None:
    m = launch.machine
    _within(f"{path}.wavefronts", stream.wavefronts, 1, min(MOST["wavefronts"], m.wavefronts_per_unit))
    _within(f"{path}.unroll", stream.unroll, 1, 1 << 10)
    _within(f"{path}.places", stream.places, 1, m.workgroups_per_unit)
    _within(f"{path}.start", stream.start, 0, MOST_PS)
    if len(set(stream.units)) < len(stream.units) or not all(0 <= u < len(m.unit_router) for u in stream.units):
        raise InputError(f"{path}.units", f"{len(stream.units)} of them", expected="each once, of 0 to "
                         f"{len(m.unit_router) - 1}")


def _cluster(launch: Launch, number: int, path: str) -> None:
    """A stream's clusters fill ports, and its workgroups fill clusters."""
    cluster, units = launch.streams[number].cluster, set(launch.units(number))
    if cluster == 1:
        return
    ports = launch.ports()
    if cluster < 1 or any(len(ports[unit]) != cluster or not units.issuperset(ports[unit]) for unit in units):
        raise InputError(f"{path}.cluster", str(cluster), expected="1, or the units of each port on which it runs")
    for grid in launch.grids:
        if (count := sum(group.stream == number for group in grid)) % cluster:
            raise InputError(f"{path}.cluster", str(cluster), expected=f"a divisor of its {count} workgroups")


def _grid(launch: Launch, grid: object, path: str) -> None:
    assert isinstance(grid, tuple)
    if not 1 <= len(grid) <= MOST["workgroups"]:
        raise InputError(path, f"{len(grid)} workgroups", expected=f"1 to {MOST['workgroups']}")
    for w, group in enumerate(grid):
        _within(f"{path}.workgroup[{w}].stream", group.stream, 0, len(launch.streams) - 1)
        requests = sum(2 * op.size * (len(op.sources) + len(op.targets)) + 1 for op in group.operations)
        if requests >= MOST_LINES:
            raise InputError(f"{path}.workgroup[{w}]", f"about {requests} requests", expected=f"below {MOST_LINES}")
        for i, op in enumerate(group.operations):
            for what in _faults(launch, op):
                raise InputError(f"{path}.workgroup[{w}].operation[{i}]", f"{op.kind.name.lower()} {what}")


def _faults(launch: Launch, op: Operation) -> Iterator[str]:
    """What is wrong with an operation, in words."""
    if op.kind == OpKind.NOP:
        if not 1 <= op.time <= MOST_PS:
            yield f"of {op.time} ps; expected 1 to {MOST_PS}"
    elif op.kind in (OpKind.ACQUIRE, OpKind.RELEASE):
        if not 0 <= op.semaphore < len(launch.semaphores):
            yield f"of semaphore {op.semaphore}; there are {len(launch.semaphores)}"
        if not 0 <= op.peer < launch.gpus or (op.kind == OpKind.ACQUIRE and op.peer):
            yield f"of a semaphore of the GPU at distance {op.peer}; an acquire asks its own, a release one of "\
                  f"{launch.gpus}"
        if op.kind == OpKind.ACQUIRE and not 1 <= op.value < 1 << 31:
            yield f"of value {op.value}"
    elif op.kind != OpKind.BARRIER:
        yield from _data_faults(launch, op)


def _data_faults(launch: Launch, op: Operation) -> Iterator[str]:
    counts = {OpKind.LOAD: (1, 0), OpKind.STORE: (0, 1), OpKind.MEMCPY: (1, 1), OpKind.REDUCE: (2, 1),
              OpKind.MULTIPLY: (1, 0)}[op.kind]
    for word, places, least in (("sources", op.sources, counts[0]), ("targets", op.targets, counts[1])):
        if len(places) < least or (not least and places) or len(places) > 1 << 10:
            yield f"has {len(places)} {word}"
    if op.kind == OpKind.MEMCPY and 1 < len(op.sources) != len(op.targets):
        yield f"has {len(op.sources)} sources and {len(op.targets)} targets"
    if op.size < 1:
        yield f"of {op.size} requests"
    if op.kind == OpKind.MULTIPLY and not 1 <= op.time <= MOST_PS:
        yield f"of {op.time} ps a request; expected 1 to {MOST_PS}"
    for place in (*op.sources, *op.targets):
        yield from _place_faults(launch, op.size, place)
    if any(place.peer == launch.gpus > 1 and launch.buffers[place.buffer].flagged for place in op.sources
           if 0 <= place.buffer < len(launch.buffers)):
        yield f"of all {launch.gpus} GPUs: the switch adds no lines with flags"


def _place_faults(launch: Launch, size: int, place: Place) -> Iterator[str]:
    if not 0 <= place.buffer < len(launch.buffers):
        yield f"in buffer {place.buffer}; there are {len(launch.buffers)}"
        return
    buffer = launch.buffers[place.buffer]
    if place.offset < 0 or place.offset + size > buffer.size:
        yield (f"of requests {place.offset} to {place.offset + size} of buffer {buffer.name!r}, which has "
               f"{buffer.size}")
    if place.peer == launch.gpus > 1:
        if not (launch.machine.switched and launch.machine.multimem) or launch.gpus == MOST["gpus"]:
            yield (f"of all {launch.gpus} GPUs: this needs a switch that adds and copies (multimem), and at most "
                   f"{MOST['gpus'] - 1} GPUs")
    elif not 0 <= place.peer < launch.gpus:
        yield f"at distance {place.peer}; there are {launch.gpus} GPUs"


def _machine(launch: Launch, path: str) -> None:
    m = launch.machine
    for names, least in ((_POSITIVE, 1), (_AT_LEAST_0, 0)):
        for name in names:
            if not least <= getattr(m, name) <= MOST_PS:
                raise InputError(f"{path}.machine.{name}", str(getattr(m, name)), expected=f"at least {least}")
    if bool(m.mesh_data) != bool(m.mesh_control):
        raise InputError(f"{path}.machine.mesh_control", str(m.mesh_control), expected="both rates of a mesh, or none")
    widest = m.instruction * max((buffer.lines for buffer in launch.buffers), default=1)
    for name in ("limit_wavefront", "limit_workgroup", "limit_unit", *(["engine_limit"] if m.engines else [])):
        if getattr(m, name) < widest:
            raise InputError(f"{path}.machine.{name}", str(getattr(m, name)), expected=f"at least {widest}, the "
                             "requests of one instruction")
    _places(m, launch.gpus, f"{path}.machine")


def _places(m: Machine, gpus: int, path: str) -> None:
    for name in ("unit_router", "channel_router", "port_router"):
        routers = getattr(m, name)
        if not 1 <= len(routers) <= 1 << 14 or not all(0 <= r < m.rows * m.columns for r in routers):
            raise InputError(f"{path}.{name}", f"{len(routers)} entries", expected=f"routers 0 to "
                             f"{m.rows * m.columns - 1}, at least one entry")
    if m.unit_port and (len(m.unit_port) != len(m.unit_router) or min(m.unit_port) < 0):
        raise InputError(f"{path}.unit_port", f"{len(m.unit_port)} entries", expected=f"none, or {len(m.unit_router)}")
    if m.engines >= len(m.unit_router):
        raise InputError(f"{path}.engines", str(m.engines), expected=f"less than the {len(m.unit_router)} units")
    if m.rows * m.columns > 1 << 12:
        raise InputError(f"{path}.rows", f"{m.rows} x {m.columns} routers", expected=f"at most {1 << 12}")
    if not m.switched and gpus > 1 and len(m.port_router) % (gpus - 1):
        raise InputError(f"{path}.port_router", f"{len(m.port_router)} ports for {gpus - 1} peers",
                         expected="a multiple of the peers, or switched links")
