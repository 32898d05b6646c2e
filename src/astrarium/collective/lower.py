"""From (operation, bytes, shape of the group) to the engine's CollectivePlan: chunks, dims, algorithms, block sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from msgspec.structs import replace

from astrarium.cache import Cache
from astrarium.collective import chunking, in_switch, themis
from astrarium.collective.algorithms import Options, build, canonical_op, supporting
from astrarium.collective.compose import ROOTED, Composition, Step, compose
from astrarium.collective.groups import FLAT, SubDim
from astrarium.collective.settings import Settings
from astrarium.engine.plan import Algorithm, Chunk, CollectivePlan, Phase
from astrarium.errors import InputError, UnsupportedError
from astrarium.vocab import CommOp, Schedule

__all__ = ["ScheduleCache", "block_size", "plan_collective", "schedule_cache"]

ScheduleCache = Cache[Schedule]
SCHEDULES = 1 << 12
_NAMES = {op: op.name.lower() for op in CommOp}


def schedule_cache() -> ScheduleCache:
    """An empty cache of schedules."""
    return Cache(SCHEDULES)


def block_size(op: CommOp, size: int, blocks: int, n: int) -> int:
    """Bytes of one block, padded up. `size` counts as the operation counts: all_gather and gather the input shard (the
    blocks are those of the n-fold output), barrier nothing, the others the full buffer."""
    if op == CommOp.BARRIER:
        return 0
    whole = size * n if op in (CommOp.ALL_GATHER, CommOp.GATHER) else size
    return -(-whole // blocks)


def plan_collective(op: CommOp, size: int, shape: Sequence[SubDim], settings: Settings, *,
                    cache: ScheduleCache | None = None, path: str = "collective") -> CollectivePlan:
    """The plan of `op` on `size` bytes (counted as `block_size` says) for a group of `shape` (see `groups`).

    `cache` (`schedule_cache`) holds the schedules of calls with the same algorithm, op, n and options.
    Raises InputError and UnsupportedError at `path`.
    """
    op = canonical_op(op)
    schedules = schedule_cache() if cache is None else cache
    size = 0 if op == CommOp.BARRIER else size
    parts = tuple(part for part in shape if part.n > 1)
    pieces = _pieces(op, size, parts, settings, path)
    if not parts:
        pieces, parts = [(1, size)], (SubDim(FLAT, 1, 1),)
    rows: list[tuple[int, tuple[Phase, ...]]]
    if op in ROOTED:
        schedule = _rooted(op, size, parts, settings, schedules, path)
        dim = FLAT if len(parts) > 1 else parts[0].dim
        rows = [(count, (_phase(schedule, dim, op, each, 1, settings, path),))
                for count, each in pieces]
    else:
        known: dict[tuple[CommOp, SubDim], Schedule] = {}      # chunks share steps, but for their bytes
        rows = [(count, tuple([_step_phase(step, known, settings, schedules, path) for step in steps]))
                for count, steps in _steps(op, pieces, parts, settings, path)]
    plan = CollectivePlan(int(op), size, tuple(Chunk(count, phases) for count, phases in rows), settings.active_chunks,
                          how=_how(op, parts, settings, rows))
    if not settings.active_chunks or not _reorders(op, parts, settings):
        return plan
    return replace(plan, turns=themis.turns_of(rows, settings))


def _how(op: CommOp, parts: Sequence[SubDim], settings: Settings, rows: Sequence[tuple[int, object]]) -> str:
    """Composition, algorithms by dim and chunks in words: "blueconnect direct + ring, 4 chunks"."""
    names = [settings.algorithm(op, part, "") for part in parts if part.n > 1]
    if not names:
        return ""
    several = op not in ROOTED and op != CommOp.BARRIER and len(names) > 1
    composition = f"{settings.composition.value} " if several or settings.composition == Composition.THEMIS else ""
    chunks = sum(count for count, _ in rows)
    return composition + " + ".join(names if len(set(names)) > 1 else names[:1]) + (
        f", {chunks} chunks" if chunks > 1 else "")


def _pieces(op: CommOp, size: int, parts: Sequence[SubDim], settings: Settings, path: str) -> list[tuple[int, int]]:
    """(how many, bytes each); an operation that cuts its payload among n members keeps a byte for each of them, and one
    in switches what they take at once."""
    granule, chunks = 1, settings.chunks
    if payload := in_switch.largest(op, parts, settings):
        chunks = max(chunks, -(-size // payload))
    if op in (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL, CommOp.SCATTER):
        for part in parts:
            granule *= part.n
    return list(chunking.split(size, chunks, granule=granule, path=f"{path}.chunks"))


def _steps(op: CommOp, pieces: Sequence[tuple[int, int]], parts: Sequence[SubDim], settings: Settings,
           path: str) -> list[tuple[int, tuple[Step, ...]]]:
    """(how many equal chunks, their steps), in chunk order."""
    if not _reorders(op, parts, settings):
        return [(count, compose(op, each, parts, settings.composition)) for count, each in pieces]
    sizes = [each for count, each in pieces for _ in range(count)]
    runs = groupby(zip(sizes, themis.orders_of(op, sizes, parts, settings, path), strict=True))
    return [(len(list(run)), compose(op, each, order, settings.composition)) for (each, order), run in runs]


def _reorders(op: CommOp, parts: Sequence[SubDim], settings: Settings) -> bool:
    """Whether chunks may take the dims in different orders."""
    able = op in (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER)
    return settings.composition == Composition.THEMIS and len(parts) > 1 and able


def _schedule(op: CommOp, size: int, part: SubDim, settings: Settings, cache: ScheduleCache, path: str) -> Schedule:
    where = f"{path}.{_NAMES[op]}"
    entry = settings.algorithm(op, part, where)
    able = None
    if in_switch.is_one(entry):
        entry, able = in_switch.with_rounds(entry, op, size, part, settings, where), in_switch.said_of(part, settings)
    key = (entry, op, part.n, settings.options, () if able is None else able.up)

    def made() -> Schedule:
        algorithm, options = _entry(entry, settings.options, where)
        found = None if able is None else in_switch.along_tree(algorithm, op, part.n, able, options, where)
        return found or build(algorithm, op, part.n, options, path=where)

    return cache.get(key, made)


def _entry(entry: str, options: Options, path: str) -> tuple[str, Options]:
    """`direct:7` is direct with a window of 7 messages, `sharp:7` is sharp in 7 rounds."""
    name, colon, number = entry.partition(":")
    if not colon:
        return name, options
    rounds = in_switch.is_one(name)
    if not (name == "direct" or rounds) or not number.isascii() or not number.isdigit():
        raise InputError(path, repr(entry[:60]), expected="an algorithm, direct:K for K messages in flight, or nvls:K "
                                                          "or sharp:K for K rounds")
    return name, replace(options, pipeline=int(number)) if rounds else replace(options, window=int(number))


def _rooted(op: CommOp, size: int, parts: Sequence[SubDim], settings: Settings, cache: ScheduleCache,
            path: str) -> Schedule:
    if len(parts) == 1:
        return _schedule(op, size, parts[0], settings, cache, path)
    from astrarium.collective.hierarchy import hierarchical

    names: Mapping[SubDim, str] = {part: settings.algorithm(op, part, f"{path}.{_NAMES[op]}") for part in parts}
    if found := next((name for name in names.values() if in_switch.is_one(name)), None):
        raise UnsupportedError(f"{path}.{_NAMES[op]}", f"{found} for a group that lies in several dims",
                               expected="one of " + ", ".join(supporting(op)))
    key = ("hierarchy", op, settings.options, tuple((names[part], part.dim, part.n, part.stride) for part in parts))
    return cache.get(key, lambda: hierarchical(op, parts,
                                               lambda part: _schedule(op, size, part, settings, cache, path)))


def _step_phase(step: Step, known: dict[tuple[CommOp, SubDim], Schedule], settings: Settings, cache: ScheduleCache,
                path: str) -> Phase:
    schedule = known.get((step.op, step.part))
    if schedule is None:
        schedule = known[step.op, step.part] = _schedule(step.op, step.size, step.part, settings, cache,
                                                                      path)
    return _phase(schedule, step.part.dim, step.op, step.size, step.part.stride, settings, path)


def _phase(schedule: Schedule, dim: int, op: CommOp, size: int, stride: int, settings: Settings, path: str) -> Phase:
    switches = None
    if schedule.switches:
        switches = in_switch.switches(schedule, dim, settings, f"{path}.{_NAMES[op]}")
    return Phase(dim=dim, op=int(op), algorithm=Algorithm.SCHEDULE, size=size, n=schedule.n, stride=stride,
                 schedule=schedule, block_size=block_size(op, size, schedule.blocks, schedule.n), in_switch=switches)
