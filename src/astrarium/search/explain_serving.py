"""Explain why two serving designs differ: TTFT, TPOT and tokens per second by knob, and by what their time goes into.

By knob, contributions are those of `explain`: Shapley values of each figure, in whole units that add up.

By part, the first design's steps are also timed as the second's: what differs then is the time of the same steps, by
class of kernel and collective. The rest is that the second design takes other steps: other batches, prompts that meet
other sequences, other queues, other hits of the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from astrarium.cost.interval import Interval, tied
from astrarium.search.differences import Difference, between, differences
from astrarium.search.explain import Explanation, shared
from astrarium.serving import serve
from astrarium.serving.breakdown import FIGURES, Recorded, recorded
from astrarium.serving.design import ServingDesign
from astrarium.serving.interval import tpot_interval
from astrarium.serving.outcome import Served

__all__ = ["FIGURES", "MICRO", "VALUES", "Part", "ServingExplanation", "explain_serving"]

MICRO = 1_000_000       # parts of a token/s in which tokens per second are counted
VALUES: Mapping[str, tuple[str, float]] = {
    "ttft": ("ttft_mean_ns", 1e3), "tpot": ("tpot_mean_ns", 1e3), "tokens_per_second": ("output_tokens_per_s", MICRO)}
"""Figure -> its key in `Served.summary`, and how many of the whole units in which it is explained make one of that."""


class Part(Struct, frozen=True):
    """ps of a figure in the first design, in its steps timed as the second's, and in the second."""

    name: str
    before: float
    retimed: float
    after: float

    @property
    def same_steps(self) -> float:
        """What other times of the same steps add, ps."""
        return self.retimed - self.before

    @property
    def other_steps(self) -> float:
        """What other steps add, ps."""
        return self.after - self.retimed


class ServingExplanation(Struct, frozen=True):
    """`knobs`: figure of VALUES -> its difference by knob; `parts`: figure of FIGURES -> what it is made of; `facts`:
    what steps of both designs hold; `saturated`: runs whose stream was, so that latencies grow with its length;
    `within`: intervals of TPOT of both."""

    knobs: Mapping[str, Explanation]
    parts: Mapping[str, Sequence[Part]]
    facts: tuple[Mapping[str, float], Mapping[str, float]]
    saturated: int
    within: tuple[Interval, Interval]

    @property
    def undecided(self) -> bool | None:
        """Whether one of both TPOT is within the interval of the other; None if one is not validated."""
        tpot = self.knobs["tpot"]
        return tied((float(tpot.before), self.within[0]), (float(tpot.after), self.within[1]))


class _Runs:
    """The figures of designs between two, each served once."""

    def __init__(self, first: ServingDesign, second: ServingDesign, known: Mapping[ServingDesign, Served]):
        self.first, self.second, self.saturated = first, second, 0
        self.known = {design: self._values(served) for design, served in known.items()}

    def value(self, figure: str) -> Callable[[Sequence[Difference]], int]:
        """What gives a figure of the first design with some knobs as in the second."""
        return lambda chosen: self._of(chosen)[figure]

    def _of(self, chosen: Sequence[Difference]) -> Mapping[str, int]:
        design = between(self.first, self.second, chosen)
        assert isinstance(design, ServingDesign)
        if design not in self.known:
            self.known[design] = self._values(serve(design, design.requests, design.policy, design.buckets))
        return self.known[design]

    def _values(self, served: Served) -> Mapping[str, int]:
        self.saturated += served.saturated
        found = served.summary()
        return {name: round(float(found.get(key, 0.0)) * units) for name, (key, units) in VALUES.items()}


def explain_serving(first: ServingDesign, second: ServingDesign, *, orders: int = 64, seed: int = 0
                    ) -> ServingExplanation:
    """Split the differences of two serving designs.

    Args:
        first: The design before.
        second: The design after.
        orders: Orders to draw if more than EXACT knobs differ; 4 or more.
        seed: Seed of the drawn orders.

    Raises:
        InputError: or one of its subclasses, if one of the two cannot be served.
    """
    one, two = recorded(first), recorded(second)
    runs = _Runs(first, second, {first: one.served, second: two.served})
    knobs = differences(first, second)
    return ServingExplanation({name: shared(knobs, runs.value(name), orders, seed) for name in VALUES},
                              _parts(one, two), (one.facts(), two.facts()), runs.saturated,
                              (tpot_interval(first), tpot_interval(second)))


def _parts(one: Recorded, two: Recorded) -> Mapping[str, Sequence[Part]]:
    before, retimed, after = one.parts(), one.parts(two.instance), two.parts()
    found = {}
    for figure in FIGURES:
        columns = [each[figure] for each in (before, retimed, after)]
        names = dict.fromkeys(name for column in columns for name in column)
        parts = [Part(name, *(column.get(name, 0.0) for column in columns)) for name in names]
        found[figure] = [part for part in parts if part.before or part.retimed or part.after]
    return found
