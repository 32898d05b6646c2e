"""From (operation, bytes, shape of the group) to the engine's CollectivePlan: chunks, dims, algorithms, block sizes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, MutableMapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from itertools import groupby

from astrarium.collective import chunking
from astrarium.collective.algorithms import Options, build, canonical_op
from astrarium.collective.compose import ROOTED, Composition, Step, compose
from astrarium.collective.estimate import Around
from astrarium.collective.groups import FLAT, SubDim
from astrarium.engine.plan import Algorithm, Chunk, CollectivePlan, Dim, Phase
from astrarium.errors import InputError
from astrarium.vocab import CommOp, Schedule

__all__ = ["Free", "Link", "ScheduleCache", "Settings", "block_size", "chunk_steps", "plan_collective"]

ScheduleCache = MutableMapping[tuple[object, ...], Schedule]
_NAMES = {op: op.name.lower() for op in CommOp}


@dataclass(frozen=True)
class Link:
    """A network dim as Themis sees it: `bandwidth` out of one NPU in bytes/ns, `latency` of one message in ns."""

    bandwidth: float
    latency: float


@dataclass(frozen=True)
class Free:
    """What a design leaves to `choice: auto`, and what the choice depends on: the network's dims, what messages cost
    beside it, `plain`: per dim, the algorithms of reduce_scatter and of all_gather where nobody chooses, and `active`:
    chunks in flight per phase where the design says how many."""

    algorithms: bool
    composition: bool
    chunks: bool
    dims: tuple[Dim, ...]
    around: Around
    plain: tuple[tuple[str, ...], tuple[str, ...]]
    active: int | None = None


@dataclass(frozen=True)
class Settings:
    """How collectives of one operation run.

    `algorithms`: one per network dim, innermost first, or a single one for all dims (`direct:7`: window 7).
    `scatters` and `gathers` (none: `algorithms`) are for the reduce_scatter and all_gather steps of an all_reduce.
    `flat_algorithm` serves irregular groups. `links`: per network dim; `themis` needs it. `active_chunks`: chunks in
    flight per phase, with `themis` per dim, 0: all. `endpoint_delay`: ns, as the engine's policy has it. `free`: what
    is still to be chosen, and for what network (`choose`); none: nothing.
    """

    algorithms: tuple[str, ...]
    composition: Composition = Composition.BLUECONNECT
    chunks: int = 1
    active_chunks: int = 1
    flat_algorithm: str = "ring"
    options: Options = field(default_factory=Options)
    links: tuple[Link, ...] = ()
    endpoint_delay: float = 0.0
    scatters: tuple[str, ...] = ()
    gathers: tuple[str, ...] = ()
    free: Free | None = None

    @cached_property
    def key(self) -> Hashable:
        """All of it, as plain values: quickly hashed."""
        return (self.algorithms, self.scatters, self.gathers, self._rest)

    def on(self, shape: Sequence[SubDim]) -> Hashable:
        """The same, as far as it matters to a group of `shape`: of algorithms, those of its dims."""
        dims = [part.dim for part in shape]
        return (*[names if len(names) < 2 else tuple([names[dim:dim + 1] for dim in dims])
                  for names in (self.algorithms, self.scatters, self.gathers)], self._rest)

    @cached_property
    def _rest(self) -> Hashable:
        return (self.composition.value, self.chunks, self.active_chunks, self.flat_algorithm, astuple(self.options),
                tuple([astuple(link) for link in self.links]), self.endpoint_delay, self.free)

    def chosen(self) -> Settings:
        """The same, with nothing left to choose."""
        return self if self.free is None else replace(self, free=None)

    def algorithm(self, op: CommOp, part: SubDim, path: str) -> str:
        """The algorithm of a step on `part`; InputError when the list is too short for its dim."""
        if part.dim == FLAT:
            return self.flat_algorithm
        chosen = (self.scatters if op == CommOp.REDUCE_SCATTER else self.gathers if op == CommOp.ALL_GATHER else ()) \
            or self.algorithms
        if len(chosen) == 1:
            return chosen[0]
        if part.dim >= len(chosen):
            raise InputError(path, f"{len(chosen)} algorithms, but the group reaches network dim {part.dim}",
                             expected=f"one algorithm, or at least {part.dim + 1}")
        return chosen[part.dim]


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

    `cache` keeps schedules between calls with the same algorithm, op, n and options; pass one dict to share them.
    Raises InputError and UnsupportedError at `path`.
    """
    op = canonical_op(op)
    schedules: ScheduleCache = {} if cache is None else cache
    size = 0 if op == CommOp.BARRIER else size
    parts = tuple(part for part in shape if part.n > 1)
    pieces = _pieces(op, size, parts, settings, path)
    if not parts:
        pieces, parts = [(1, size)], (SubDim(FLAT, 1, 1),)
    rows: list[tuple[int, tuple[Phase, ...]]]
    if op in ROOTED:
        schedule = _rooted(op, parts, settings, schedules, path)
        rows = [(count, (_phase(schedule, FLAT if len(parts) > 1 else parts[0].dim, op, each, 1),))
                for count, each in pieces]
    else:
        known: dict[tuple[CommOp, SubDim], Schedule] = {}      # chunks share steps, but for their bytes
        rows = [(count, tuple([_step_phase(step, known, settings, schedules, path) for step in steps]))
                for count, steps in _steps(op, pieces, parts, settings, path)]
    plan = CollectivePlan(int(op), size, tuple(Chunk(count, phases) for count, phases in rows), settings.active_chunks,
                          how=_how(op, parts, settings, rows))
    if not settings.active_chunks or not _reorders(op, parts, settings):
        return plan
    from astrarium.collective.balance import turns_of

    return replace(plan, turns=turns_of(rows, settings))


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


def chunk_steps(op: CommOp, size: int, parts: Sequence[SubDim], settings: Settings,
                path: str = "collective") -> list[tuple[int, tuple[Step, ...]]]:
    """(how many equal chunks, their steps), in chunk order, of an operation that has no root."""
    return _steps(op, _pieces(op, size, parts, settings, path), parts, settings, path)


def _pieces(op: CommOp, size: int, parts: Sequence[SubDim], settings: Settings, path: str) -> list[tuple[int, int]]:
    """(how many, bytes each); an operation that cuts its payload among n members keeps a byte for each of them."""
    granule = 1
    if op in (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL, CommOp.SCATTER):
        for part in parts:
            granule *= part.n
    return list(chunking.split(size, settings.chunks, granule=granule, path=f"{path}.chunks"))


def _steps(op: CommOp, pieces: Sequence[tuple[int, int]], parts: Sequence[SubDim], settings: Settings,
           path: str) -> list[tuple[int, tuple[Step, ...]]]:
    """(how many equal chunks, their steps), in chunk order."""
    if not _reorders(op, parts, settings):
        return [(count, compose(op, each, parts, settings.composition)) for count, each in pieces]
    from astrarium.collective.balance import orders_of

    sizes = [each for count, each in pieces for _ in range(count)]
    runs = groupby(zip(sizes, orders_of(op, sizes, parts, settings, path), strict=True))
    return [(len(list(run)), compose(op, each, order, settings.composition)) for (each, order), run in runs]


def _reorders(op: CommOp, parts: Sequence[SubDim], settings: Settings) -> bool:
    """Whether chunks may take the dims in different orders."""
    able = op in (CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER)
    return settings.composition == Composition.THEMIS and len(parts) > 1 and able


def _schedule(op: CommOp, part: SubDim, settings: Settings, cache: ScheduleCache, path: str) -> Schedule:
    where = f"{path}.{_NAMES[op]}"
    entry = settings.algorithm(op, part, where)
    key = (entry, op, part.n, settings.options)
    found = cache.get(key)
    if found is None:
        algorithm, options = _entry(entry, settings.options, where)
        found = cache[key] = build(algorithm, op, part.n, options, path=where)
    return found


def _entry(entry: str, options: Options, path: str) -> tuple[str, Options]:
    """`direct:7` is direct with a window of 7 messages."""
    name, colon, window = entry.partition(":")
    if not colon:
        return name, options
    if name != "direct" or not window.isascii() or not window.isdigit():
        raise InputError(path, repr(entry[:60]), expected="an algorithm, or direct:K for K messages in flight")
    return name, replace(options, window=int(window))


def _rooted(op: CommOp, parts: Sequence[SubDim], settings: Settings, cache: ScheduleCache, path: str) -> Schedule:
    if len(parts) == 1:
        return _schedule(op, parts[0], settings, cache, path)
    from astrarium.collective.hierarchy import hierarchical

    names: Mapping[SubDim, str] = {part: settings.algorithm(op, part, f"{path}.{_NAMES[op]}") for part in parts}
    key = ("hierarchy", op, settings.options, tuple((names[part], part.dim, part.n, part.stride) for part in parts))
    if key not in cache:
        cache[key] = hierarchical(op, parts, lambda part: _schedule(op, part, settings, cache, path))
    return cache[key]


def _step_phase(step: Step, known: dict[tuple[CommOp, SubDim], Schedule], settings: Settings, cache: ScheduleCache,
                path: str) -> Phase:
    schedule = known.get((step.op, step.part))
    if schedule is None:
        schedule = known[step.op, step.part] = _schedule(step.op, step.part, settings, cache, path)
    return _phase(schedule, step.part.dim, step.op, step.size, step.part.stride)


def _phase(schedule: Schedule, dim: int, op: CommOp, size: int, stride: int) -> Phase:
    return Phase(dim=dim, op=int(op), algorithm=Algorithm.SCHEDULE, size=size, n=schedule.n, stride=stride,
                 schedule=schedule, block_size=block_size(op, size, schedule.blocks, schedule.n))
