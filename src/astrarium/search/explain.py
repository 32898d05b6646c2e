"""Explain why two designs differ: split the difference of their makespans by knob, exact to the ps.

A knob's contribution is its Shapley value (L. S. Shapley, "A value for n-person games", 1953): what its change adds,
averaged over the orders in which the knobs can change from the one design to the other. Up to `EXACT` knobs all orders
count; beyond, `orders` drawn ones, each beside its reverse, and every contribution has a standard error.

What the configuration or a model refuses on the way: a knob that is refused at its place in an order waits, and is
tried again after every later change. Where knobs are left that no order of their own brings in, the smallest set of
them that is accepted together (the first such set in the order of the knobs) is one knob from then on.

Where three axes of a parallelisation or more differ (tp, pp, dp), one of them alone leaves another number of ranks:
then an axis that has not changed yet makes up for it (`differences.made_up`), so that each of them has its own share.

Every design is simulated once. Contributions are whole ps and add up exactly: they are rounded down, and what is left
goes, one ps each, to those that lost most.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from msgspec import Struct
from msgspec.structs import replace

from astrarium.design import Design
from astrarium.errors import InputError, StallError
from astrarium.search.differences import Difference, between, differences, made_up
from astrarium.simulate import TraceCache, simulate

__all__ = ["EXACT", "Change", "Explanation", "explain", "shared", "times_of"]

EXACT = 8           # knobs: 2^8 designs at most
SEARCHED = 12       # left-over knobs whose smallest accepted set is looked for; more are one knob

Run = Callable[[Design], int]
Value = Callable[[Sequence[Difference]], int]


class Change(Struct, frozen=True):
    """The effect of one knob (or of several that only change together) on the makespan, in ps.

    `alone`: if it is the only change to the first design (None: refused); `step`: if knobs change one after the other
    in the order of `Explanation.changes`; `contribution`: its share of the difference; `error`: the standard error of
    the contribution (0: exact).
    """

    knobs: tuple[Difference, ...]
    alone: int | None
    step: int
    contribution: int
    error: float = 0.0


class Explanation(Struct, frozen=True):
    """The difference of two designs. `before`, `after`: makespans in ps; `changes`: in the order of their steps;
    `exact`: whether all orders counted, else `orders` drawn ones; `simulated`, `refused`: designs that ran, and that
    could not; `filled`: of those that ran, the ones in which an axis of the parallelisation made up for others;
    `times`: `Result.spent` of both designs (empty: not asked for)."""

    before: int
    after: int
    changes: tuple[Change, ...]
    exact: bool
    orders: int
    simulated: int
    refused: int
    filled: int = 0
    times: tuple[Mapping[str, int], ...] = ()

    @property
    def difference(self) -> int:
        """`after` minus `before` in ps: the sum of the contributions."""
        return self.after - self.before


class _StuckError(Exception):
    """No knob of `waiting` can change by itself after those of `at`."""

    def __init__(self, at: int, waiting: Sequence[int]):
        super().__init__()
        self.at, self.waiting = at, tuple(waiting)


class _Worth:
    """The makespan of a coalition of knobs (a bit per knob), simulated once; None if it is refused."""

    def __init__(self, knobs: Sequence[Difference], value: Value):
        self.knobs, self._value = knobs, value
        whole = (1 << len(knobs)) - 1
        self.known: dict[int, int | None] = {0: value(())}
        if whole:
            self.known[whole] = value(knobs)

    def __call__(self, coalition: int) -> int | None:
        if coalition not in self.known:
            chosen = [knob for bit, knob in enumerate(self.knobs) if coalition >> bit & 1]
            try:
                self.known[coalition] = self._value(chosen)
            except (InputError, StallError):
                self.known[coalition] = None
        return self.known[coalition]


def explain(first: Design, second: Design, *, orders: int = 64, seed: int = 0, run: Run | None = None) -> Explanation:
    """Split the makespan of `second` minus that of `first` by knob.

    Args:
        first: The design before.
        second: The design after.
        orders: Orders to draw if more than EXACT knobs differ; 4 or more.
        seed: Seed of the drawn orders.
        run: From a design to its makespan in ps; None: `simulate`.

    Raises:
        InputError: or one of its subclasses, if one of the two designs cannot run.
    """
    way = _Way(first, second, _simulated() if run is None else run)
    found = shared(differences(first, second), way, orders, seed)
    return replace(found, filled=way.filled, times=() if run is not None else (times_of(first), times_of(second)))


def times_of(design: Design) -> dict[str, int]:
    """What the time of the last rank goes into (`Result.spent`)."""
    return simulate(design).spent


class _Way:
    """The makespan of a design between two; if it is refused, of one in which an axis makes up for the others."""

    def __init__(self, first: Design, second: Design, run: Run):
        self.first, self.second, self.run, self.filled = first, second, run, 0
        self.known: dict[Design, int] = {}

    def __call__(self, chosen: Sequence[Difference]) -> int:
        try:
            return self._run(between(self.first, self.second, chosen))
        except (InputError, StallError):
            for design in made_up(self.first, self.second, chosen):
                with contextlib.suppress(InputError, StallError):
                    found = self._run(design)
                    self.filled += 1
                    return found
            raise

    def _run(self, design: Design) -> int:
        if design not in self.known:
            self.known[design] = self.run(design)
        return self.known[design]


def shared(knobs: Sequence[Difference], value: Value, orders: int = 64, seed: int = 0) -> Explanation:
    """Split the difference of any `value` among knobs. `value` maps the set of changed knobs to a makespan in ps; it
    may raise InputError, except for no knob and for all knobs."""
    if orders < 4:
        raise InputError("orders", f"{orders} is impossible", expected="4 or more")
    worth = _Worth(knobs, value)
    players = [1 << bit for bit in range(len(knobs))]
    while True:
        try:
            return _explained(worth, players, orders, seed)
        except _StuckError as stuck:
            players = _merged(players, _smallest(worth, stuck))


def _simulated() -> Run:
    cache: TraceCache = {}
    return lambda design: simulate(design, record=False, cache=cache).at_least_ps


def _explained(worth: _Worth, players: Sequence[int], orders: int, seed: int) -> Explanation:
    exact = len(players) <= EXACT
    walked = list(_walk(worth, players))
    sums, squares, count = dict.fromkeys(players, 0), dict.fromkeys(players, 0), 0
    for pair in itertools.permutations(players) if exact else _pairs(players, orders // 2, seed):
        routes = (pair,) if exact else (pair, pair[::-1])
        both = dict.fromkeys(players, 0)
        for route in routes:
            for player, step in _walk(worth, route):
                both[player] += step
        for player, step in both.items():
            sums[player] += step
            squares[player] += step * step
        count += 1
    total = count if exact else 2 * count
    shares = _whole([Fraction(sums[player], total) for player, _ in walked])
    changes = []
    for (player, step), share in zip(walked, shares):
        alone = worth(player)
        error = 0.0 if exact else _error(sums[player], squares[player], count)
        changes.append(Change(tuple(knob for bit, knob in enumerate(worth.knobs) if player >> bit & 1),
                              None if alone is None else alone - _known(worth, 0), step, share, error))
    refused = sum(value is None for value in worth.known.values()) if players else 0
    before, after = _known(worth, 0), _known(worth, sum(players))
    return Explanation(before, after, tuple(changes), exact, total, len(worth.known) - refused, refused)


def _known(worth: _Worth, coalition: int) -> int:
    value = worth(coalition)
    assert value is not None
    return value


def _pairs(players: Sequence[int], count: int, seed: int) -> Iterator[tuple[int, ...]]:
    draw = random.Random(seed)
    for _ in range(count):
        yield tuple(draw.sample(players, len(players)))


def _error(total: int, squares: int, pairs: int) -> float:
    """The standard error of a mean over two or more pairs of orders, from the sums over both orders of each pair."""
    spread = Fraction(squares * pairs - total * total, pairs * (pairs - 1))
    return math.sqrt(spread / pairs) / 2


def _walk(worth: _Worth, order: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield (knob, effect of its change) along an order; a refused knob waits. Raises _StuckError if knobs wait for
    ever."""
    at, here, waiting = 0, _known(worth, 0), list[int]()
    for player in order:
        waiting.append(player)
        while True:
            found = next(((each, there) for each in waiting if (there := worth(at | each)) is not None), None)
            if found is None:
                break
            each, there = found
            yield each, there - here
            at, here = at | each, there
            waiting.remove(each)
    if waiting:
        raise _StuckError(at, waiting)


def _smallest(worth: _Worth, stuck: _StuckError) -> tuple[int, ...]:
    """The smallest set of waiting knobs that is accepted together."""
    waiting = sorted(stuck.waiting)
    if len(waiting) <= SEARCHED:
        for size in range(2, len(waiting)):
            for chosen in itertools.combinations(waiting, size):
                if worth(stuck.at | sum(chosen)) is not None:
                    return chosen
    return tuple(waiting)


def _merged(players: Sequence[int], chosen: Sequence[int]) -> list[int]:
    return [sum(chosen) if player == chosen[0] else player for player in players
            if player == chosen[0] or player not in chosen]


def _whole(shares: Sequence[Fraction]) -> list[int]:
    """Round shares to whole numbers with an equal (whole) sum, each less than one away."""
    found = [math.floor(share) for share in shares]
    left = int(sum(shares)) - sum(found)
    losses = sorted(range(len(shares)), key=lambda place: found[place] - shares[place])
    for place in losses[:left]:
        found[place] += 1
    return found
