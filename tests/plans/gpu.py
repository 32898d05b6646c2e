"""GPU launches for tests: a plain machine, and random launches with random machines."""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec.structs import replace

from astrarium.errors import InputError
from astrarium.gpu.engine import Buffer, Launch, Machine, Operation, OpKind, Place, Stream, Workgroup
from astrarium.gpu.engine.check import check

__all__ = ["machine", "one", "random_launch"]

PLAIN = Machine(
    unit_router=(0, 0), workgroups_per_unit=2, wavefronts_per_unit=8, instruction=4, limit_wavefront=64,
    limit_workgroup=256, limit_unit=512, unit_data=1000, unit_control=500, reduce=250, dispatch=1000, barrier=20_000,
    fence=300_000, enter=60_000, channel_router=(0,) * 4, interleave=2, channel=700, channel_latency=100_000, hbm=1500,
    hbm_latency=200_000, port_router=(0, 0), port_interleave=2, port_data=5760, port_control=640, link_latency=500_000)


def machine(**changes: Any) -> Machine:
    """The plain machine with other fields."""
    return replace(PLAIN, **changes)


def one(kind: OpKind, size: int, *, gpus: int = 1, peer: int = 0, hbm: bool = False, on: Machine = PLAIN,
        workgroups: int = 1, wavefronts: int = 1, unroll: int = 1) -> Launch:
    """One operation of each workgroup, on `size` requests of its own of the GPU at distance `peer`."""
    operations = []
    for group in range(workgroups):
        place = Place(0, group * size, peer)
        operations.append(Operation(kind, size, () if kind == OpKind.STORE else (place,),
                                    (place,) if kind == OpKind.STORE else ()))
    return Launch(on, gpus, (tuple(Workgroup((op,)) for op in operations),),
                  (Buffer("data", size * workgroups, hbm=hbm),), (), (Stream(wavefronts, unroll),))


def random_machine(random: Random, gpus: int) -> Machine:
    """Any machine: crossbar or mesh, switch or direct links, with and without credits, any arbitration."""
    rows, columns = random.choice([(1, 1), (1, 3), (2, 3)])

    def routers(count: int) -> tuple[int, ...]:
        return tuple(random.randrange(rows * columns) for _ in range(count))

    mesh = random.choice([0, random.randint(1, 3000)])
    switched = random.random() < 0.5
    ports = random.randint(1, 4) if switched else random.randint(1, 3) * max(1, gpus - 1)
    instruction = random.randint(1, 4)
    limits = [random.randint(2 * instruction, 40) for _ in range(3)]
    few = {name: random.randint(1, 5) for name in ("interleave", "port_interleave", "workgroups_per_unit")}
    times = {name: random.randint(1, random.choice([4, 900, 60_000])) for name in (
        "unit_data", "unit_control", "dispatch", "barrier", "fence", "enter", "hop", "channel", "port_data",
        "port_control", "link_latency")}
    free = {name: random.randint(0, 900) for name in ("reduce", "channel_latency", "hbm", "hbm_latency", "unit_store",
                                                      "hbm_store")}
    units = random.randint(1, 4)
    engines = {name: random.randint(1, 900) for name in ("engine_data", "engine_control", "engine_dispatch")}
    shared = random.choice([(), tuple(random.randint(0, 2) for _ in range(units)), tuple(i % 2 for i in range(units))])
    return Machine(unit_router=routers(units), unit_port=shared, engines=random.randint(0, units - 1), **engines,
                   engine_limit=random.randint(2 * instruction, 40), channel_router=routers(random.randint(1, 5)),
                   port_router=routers(ports), wavefronts_per_unit=random.randint(4, 9), instruction=instruction,
                   limit_wavefront=limits[0], limit_workgroup=limits[1], limit_unit=limits[2], rows=rows,
                   columns=columns, mesh_data=mesh, mesh_control=mesh and random.randint(1, mesh), switched=switched,
                   write_back=random.choice([0, 3]),
                   credits=random.choice([0, 1, 3]), round_robin=random.random() < 0.5, **few, **times, **free)


def random_launch(random: Random) -> Launch:
    """Any launch, most of which end: releases go first, then what is waited for; some wait for ever."""
    gpus, semaphores, streams = random.randint(1, 4), random.randint(1, 3), random.randint(1, 3)
    buffers = [Buffer("flags", random.randint(4, 20), flagged=True, lines=random.choice([1, 2])),
               Buffer("hbm", random.randint(4, 30), hbm=True), Buffer("l2", random.randint(4, 30))]
    symmetric = random.random() < 0.4
    grids = tuple(tuple(_workgroup(random, gpus, semaphores, buffers, streams) for _ in range(random.randint(1, 4)))
                  for _ in range(1 if symmetric else gpus))
    starts = (0,) if symmetric else tuple(random.randint(0, 9000) for _ in range(gpus))
    on = random_machine(random, gpus)
    return _clustered(random, Launch(on, gpus, grids, tuple(buffers), tuple("abc"[:semaphores]),
                                     tuple(_stream(random, on) for _ in range(streams)), starts))


def _clustered(random: Random, launch: Launch) -> Launch:
    """Some of the streams that can have clusters have them."""
    for i, stream in enumerate(launch.streams):
        streams = list(launch.streams)
        streams[i] = replace(stream, cluster=random.choice([1, 2]))
        tried = replace(launch, streams=tuple(streams))
        try:
            check(tried)
        except InputError:
            continue
        launch = tried
    return launch


def _stream(random: Random, on: Machine) -> Stream:
    units = random.sample(range(len(on.unit_router)), random.randint(0, len(on.unit_router)))
    return Stream(random.randint(1, 4), random.randint(1, 3), tuple(units),
                  random.randint(1, on.workgroups_per_unit), random.choice([0, 0, random.randint(1, 90_000)]))


def _workgroup(random: Random, gpus: int, semaphores: int, buffers: list[Buffer], streams: int) -> Workgroup:
    operations = []
    for _ in range(random.randint(0, 5)):
        kind = random.choice(list(OpKind))
        if kind == OpKind.NOP:
            operations.append(Operation(kind, time=random.randint(1, 5000)))
        elif kind == OpKind.BARRIER:
            operations.append(Operation(kind))
        elif kind in (OpKind.ACQUIRE, OpKind.RELEASE):
            operations.append(Operation(OpKind.RELEASE, semaphore=random.randrange(semaphores),
                                        peer=random.randrange(gpus), fence=random.random() < 0.5))
        else:
            operations.append(_data(random, kind, gpus, buffers, flags=False))
    flag = buffers[0].size
    if random.random() < 0.6:
        operations.insert(0, Operation(OpKind.STORE, flag, (), tuple(Place(0, 0, d) for d in range(gpus))))
    if random.random() < 0.5:
        operations.append(_data(random, OpKind.LOAD, gpus, buffers, flags=True))
    if random.random() < 0.3:
        operations.append(Operation(OpKind.ACQUIRE, semaphore=random.randrange(semaphores), value=1))
    return Workgroup(tuple(operations), random.randrange(streams))


def _data(random: Random, kind: OpKind, gpus: int, buffers: list[Buffer], *, flags: bool) -> Operation:
    size = random.randint(1, min(buffer.size for buffer in buffers))

    def places(count: int) -> tuple[Place, ...]:
        found = []
        for _ in range(count):
            buffer = 0 if flags else random.randrange(1, len(buffers))
            found.append(Place(buffer, random.randint(0, buffers[buffer].size - size), random.randrange(gpus)))
        return tuple(found)

    sources = {OpKind.STORE: 0, OpKind.REDUCE: random.randint(2, 3)}.get(kind, 1)
    targets = {OpKind.LOAD: 0, OpKind.MULTIPLY: 0}.get(kind, random.randint(1, 2))
    if kind == OpKind.MEMCPY and random.random() < 0.5:
        sources = targets       # pairs
    if kind == OpKind.MULTIPLY:
        return Operation(kind, size, places(random.randint(1, 3)), time=random.randint(1, 9000))
    return Operation(kind, size, places(sources), places(targets))
