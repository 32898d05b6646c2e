"""`collective.choice: auto`: the algorithms, the composition and the chunks of one collective, by the estimate.

Candidates are, in each dim, the algorithms that say so (`Algorithm.candidate`: those of plug-ins, too), every
composition, and 1, 2, 4 ... 64 chunks (at last also three quarters of the fewest that are good enough); what the design
names is the only candidate of its kind. Those within `SLACK` of the least estimate are good enough. Of them, the ones
with the fewest messages of an NPU are taken, and of these the first within `SAME` of their least. So the choice is a
function of operation, bytes, the group's shape and the design: equal ranks choose alike, on every machine, with either
engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from msgspec.structs import replace

from astrarium.collective.algorithms import algorithm_of, candidates, has_op
from astrarium.collective.algorithms.algorithm import Case, Reach
from astrarium.collective.compose import Composition
from astrarium.collective.config import default_algorithm, parse_algorithm
from astrarium.collective.estimate import Estimate, Names
from astrarium.collective.groups import SubDim
from astrarium.collective.settings import Free, Settings
from astrarium.engine.plan import Shape
from astrarium.vocab import CommOp

__all__ = ["CHOSEN", "CHUNKS", "SLACK", "choose"]

CHOSEN = (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL)
CHUNKS = (1, 2, 4, 8, 16, 32, 64)
SLACK = 0.013
SAME = 0.001
MESSAGES = 1 << 12  # of one NPU (both directions of a ring as one), beyond which there are no further chunks
NAMED = 1 << 10     # more chunks are estimated as this many: they change little
LISTS = 256         # lists of algorithms that are looked at; beyond, each dim takes its best alone
KEPT = 32           # of these, the lists with the least guesses are estimated
FEW = 4             # (so many with one chunk, or the named number, in one order of the dims):
PROBES = (4, 16)    # with so many chunks,
CLOSEST = 6         # then, for the best pairs of composition and list
CLOSE = 0.5         # that are not so much slower, with others


class _Candidate(NamedTuple):
    """What may be chosen, and the estimate of its time in ns."""

    chunks: int
    time: float
    composition: Composition
    names: Names


Pair = tuple[Composition, Names]


def choose(op: CommOp, size: int, parts: Sequence[SubDim], settings: Settings,
           reaches: Mapping[int, Reach]) -> Settings:
    """`settings` with what they leave open chosen for `op` on `size` bytes and a group of `parts`, regular and with two
    members or more in each; `reaches`: per dim, how far its members are from each other."""
    free = settings.free
    if free is None:
        return settings
    estimate = Estimate(op, size, parts, settings, free, reaches)
    counts, compositions = _counts(estimate, settings, free), _compositions(estimate, settings, free)
    lists = _lists(estimate, settings, free, Composition.THEMIS in compositions)
    open_ = len(counts) * len(compositions) > 1
    if len(lists) > KEPT:
        lists = _guessed(estimate, lists, PROBES[-1] if open_ else counts[0])[:KEPT]
    plain = _in_order(estimate, lists, free) if compositions[0] != Composition.THEMIS else lists
    few = _guessed(estimate, plain, counts[0])[:FEW] if compositions[0] != Composition.THEMIS else plain
    if not open_ and len(few) == 1:
        return _settings(_Candidate(counts[0], 0.0, compositions[0], few[0]), parts, settings, free)
    found = _tried(estimate, product(compositions[:1], few), counts[0])
    quick = min(each.time for each in found)
    if open_:
        bounds = {names: estimate.bound(names) for names in lists}
        if quick > min(bounds.values()) * (1 + SLACK):
            pairs = [(composition, names) for composition in compositions
                     for names in (plain if composition == compositions[0] else lists) if bounds[names] < quick]
            found += _chunked(estimate, pairs, counts)
    most = min(each.time for each in found) * (1 + SLACK)
    near = [each for each in found if each.time <= most]
    sent = [each.chunks * estimate.messages(each.names) for each in near]
    close = [each for each, messages in zip(near, sent) if messages == min(sent)]
    most = min(each.time for each in close) * (1 + SAME)
    return _settings(next(each for each in close if each.time <= most), parts, settings, free)


def _guessed(estimate: Estimate, lists: Sequence[Names], chunks: int) -> list[Names]:
    """The quickest by a guess first."""
    return sorted(lists, key=lambda names: estimate.guess(names, chunks)) if len(lists) > 1 else list(lists)


def _tried(estimate: Estimate, pairs: Iterable[Pair], count: int) -> list[_Candidate]:
    return [_Candidate(count, estimate.time(composition, names, count), composition, names)
            for composition, names in pairs]


def _in_order(estimate: Estimate, lists: Sequence[Names], free: Free) -> list[Names]:
    """Candidates for chunks that visit the dims in one order; a two-way ring on a switch only changes that of
    Themis."""
    switches = [free.dims[part.dim].shape == Shape.SWITCH for part in estimate.parts]
    return [names for names in lists if not free.algorithms or not any(
        switch and name == "ring_two_way" for switch, name in zip(switches, names.own))]


def _chunked(estimate: Estimate, pairs: Sequence[Pair], counts: Sequence[int]) -> list[_Candidate]:
    """With several chunks. Of one dim these gain nothing unless all are under way."""
    if len(estimate.parts) == 1 and pairs[0][0] != pairs[-1][0]:
        pairs = [pair for pair in pairs if pair[0] == Composition.THEMIS]
    most = {names: _most(estimate, names, counts) for _, names in pairs}
    found = list[_Candidate]()
    for count in PROBES:
        found += [each for pair in pairs for each in _tried(estimate, [pair], min(count, most[pair[1]]))]
    times = [min(each.time for each in found[place::len(pairs)]) for place in range(len(pairs))]
    ranked = sorted(range(len(pairs)), key=times.__getitem__)[:CLOSEST]
    close = [pairs[place] for place in sorted(ranked) if times[place] <= min(times) * (1 + CLOSE)]
    for count in counts:
        if count not in PROBES:
            found += _tried(estimate, [pair for pair in close if count <= most[pair[1]]], count)
    enough = min(each.time for each in found) * (1 + SLACK)
    fewer = 3 * min(each.chunks for each in found if each.time <= enough) // 4
    if fewer < 2 or len(counts) == 1:
        return found
    return found + _tried(estimate, [pair for pair in close if fewer <= most[pair[1]]], fewer)


def _most(estimate: Estimate, names: Names, counts: Sequence[int]) -> int:
    """The most chunks with which an NPU does not send too many messages."""
    most = MESSAGES // (2 * estimate.rounds(names))
    return max([count for count in counts if count <= most], default=counts[0])


def _settings(best: _Candidate, parts: Sequence[SubDim], settings: Settings, free: Free) -> Settings:
    """Settings in which nothing is open; dims that the group does not reach keep the design's own algorithms."""
    if not free.algorithms:
        own, scatters, gathers = settings.algorithms, settings.scatters, settings.gathers
    else:
        lists = [list(settings.algorithms) for _ in best.names]
        for names, entries in zip(best.names, lists):
            for part, name in zip(parts, names):
                entries[part.dim] = name
        own, scatters, gathers = map(tuple, lists)
    return replace(settings, algorithms=own, scatters=() if scatters == own else scatters,
                   gathers=() if gathers == own else gathers, composition=best.composition,
                   chunks=best.chunks if free.chunks else settings.chunks,
                   active_chunks=_active(best.composition, free), free=None)


def _active(composition: Composition, free: Free) -> int:
    if free.active is not None:
        return free.active
    return 0 if composition == Composition.THEMIS else 1


def _compositions(estimate: Estimate, settings: Settings, free: Free) -> tuple[Composition, ...]:
    """An all_reduce in one dim after the other is never faster than in parts; of other operations and in one dim
    `blueconnect` is `baseline`. Themis has all chunks under way, so it needs a design that says nothing else."""
    if not free.composition:
        return (settings.composition,)
    parted = estimate.op == CommOp.ALL_REDUCE and len(estimate.parts) > 1
    plain = Composition.BLUECONNECT if parted else Composition.BASELINE
    return (plain,) if free.active else (plain, Composition.THEMIS)


def _counts(estimate: Estimate, settings: Settings, free: Free) -> tuple[int, ...]:
    if not free.chunks:
        return (min(settings.chunks, NAMED),)
    most = max(1, estimate.size // estimate.granule)
    return tuple([count for count in CHUNKS if count <= most])


def _lists(estimate: Estimate, settings: Settings, free: Free, themis: bool) -> list[Names]:
    """Lists of algorithms, one per dim of the group. Unless the order of the dims depends on them (`themis`), without
    those that another one of the dim beats in latencies and bytes."""
    op, parts = estimate.op, estimate.parts
    if not free.algorithms:
        return [Names(*[tuple([settings.algorithm(each, part, "collective").partition(":")[0] for part in parts])
                        for each in (op, CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER)])]
    options = [_options(Case(free.dims[part.dim].shape, op, part.n, estimate.reaches[part.dim], len(parts)))
               + _in_switch(free, op, part) for part in parts]
    if not themis:
        options = [estimate.unbeaten(place, each) for place, each in enumerate(options)]
    if prod(map(len, options)) > LISTS:
        options = [(min(each, key=lambda name: estimate.alone(place, name)),) for place, each in enumerate(options)]
    return [Names(names, _steps(names, parts, CommOp.REDUCE_SCATTER, free.plain[0]),
                  _steps(names, parts, CommOp.ALL_GATHER, free.plain[1])) for names in product(*options)]


def _steps(names: tuple[str, ...], parts: Sequence[SubDim], op: CommOp, plain: Sequence[str]) -> tuple[str, ...]:
    """Algorithms of the reduce_scatters, or all_gathers, of an all_reduce: those that have none take the design's."""
    return tuple([name if has_op(name, op) else parse_algorithm(plain[part.dim])[0]
                  for part, name in zip(parts, names)])


def _in_switch(free: Free, op: CommOp, part: SubDim) -> tuple[str, ...]:
    """What a dim's switches may run."""
    name = free.in_switch[part.dim] if free.in_switch else ""
    return (name,) if name and op != CommOp.ALL_TO_ALL and part.n > 2 else ()


def _options(case: Case) -> tuple[str, ...]:
    """Candidates in a dim; of equally good ones the first is taken, which is what a design without a choice has."""
    found = [name for name in candidates() if has_op(name, case.op) and algorithm_of(name).candidate(case)]
    plain = default_algorithm(case.shape.name.lower().removesuffix("_one_way"), case.op.name.lower())
    return tuple(sorted(found, key=lambda name: name != plain))
