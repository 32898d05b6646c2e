"""What the ratios of a study become with other numbers, and which number would give a published one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from msgspec import Struct

from comet.compare import expansion_ratios, ratio
from comet.lab import Lab

__all__ = ["Answer", "Changed", "answers", "sensitivities"]

PLACES, STEPS = 7, 8        # values at which a range is looked at, then halvings between two of them


class Changed(Struct, frozen=True):
    """The ratios (by name) where one thing is different, and the best strategy (MP) of the first pair of clusters
    without and with expanded memory."""

    name: str
    ratios: dict[str, float]
    moved: tuple[int, int]


class Answer(Struct, frozen=True):
    """By which factor one parameter would have to be scaled for a ratio to be `target`; None where no factor of the
    range does, in which the ratio goes from `low` to `high`."""

    ratio: str
    parameter: str
    target: float
    factor: float | None
    first: float
    last: float
    low: float
    high: float


def sensitivities(lab: Lab, case: str, ratios: Sequence[str]) -> tuple[Changed, ...]:
    """The ratios under each of the book's `sensitivities`."""
    found = []
    for given in lab.book.sensitivities:
        book = lab.book.changed(given.get("set", {})).scaled(given.get("scale", {}))
        other = lab.of(book)
        ((_, before, after),) = expansion_ratios(other, case, book.value("ratios.expansion")[:1]).values()
        found.append(Changed(str(given["name"]), {name: ratio(other, case, name) for name in ratios},
                             (before.split, after.split)))
    return tuple(found)


def answers(lab: Lab, case: str) -> tuple[Answer, ...]:
    """An answer to each of the book's `questions`: the crossing that is nearest to 1x."""
    found = []
    for given in lab.book.questions:
        name, path = str(given["ratio"]), str(given["scale"])
        target = float(lab.book.value(f"published.{'clusters' if name == 'gpus' else name}"))
        found.append(_answer(lab, case, name, path, target, (float(given["from"]), float(given["to"]))))
    return tuple(found)


def _answer(lab: Lab, case: str, name: str, path: str, target: float, between: tuple[float, float]) -> Answer:
    first, last = between

    def at(factor: float) -> float:
        return ratio(lab.of(lab.book.scaled({path: factor})), case, name)

    places = sorted({1.0, *[first * (last / first) ** (step / (PLACES - 1)) for step in range(PLACES)]})
    values = [at(place) for place in places]
    crossings = [(low, high) for (low, one), (high, two) in pairwise(zip(places, values))
                 if (one - target) * (two - target) <= 0]
    best = min(crossings, key=lambda ends: abs(math.log(ends[0] * ends[1])), default=None)
    factor = None if best is None else _halved(at, target, *best)
    return Answer(name, path, target, factor, first, last, min(values), max(values))


def _halved(at: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Where `at` crosses the target between two factors, by halving on a logarithmic scale."""
    above = at(low) > target
    for _ in range(STEPS):
        middle = math.sqrt(low * high)
        if (at(middle) > target) == above:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)
