"""How far measured times lay from predictions, per device and stack: intervals for unmeasured designs, and how well
they hold on rows that they have not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, comb, floor, log
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from astrarium.cost.interval import ANYWHERE, FEWEST, SHARE, device_of, is_wide
from astrarium.cost.support import Support, support_of, united

if TYPE_CHECKING:
    from astrarium.validate.predict import NotPredictable, Prediction

__all__ = ["Held", "StackInterval", "conformal", "held", "interval_score", "intervals", "usual_counts"]

Key = tuple[str, str]       # stack, device
SURE = 0.95


def conformal(ratios: Sequence[float], share: float = SHARE) -> tuple[float, float]:
    """(low, high) of measured over predicted: split-conformal, as much of the error outside on either side (Vovk et
    al., Algorithmic Learning in a Random World, 2005, chapter 2)."""
    ordered, n = np.sort(np.asarray(ratios, np.float64)), len(ratios)
    outside = (1 - share) / 2
    low = max(0, floor(outside * (n + 1)) - 1)
    high = min(n - 1, ceil((1 - outside) * (n + 1)) - 1)
    return float(ordered[low]), float(ordered[high])


def interval_score(low: float, high: float, value: float, share: float = SHARE) -> float:
    """Width plus 2 / (1 - share) times the distance outside, of logarithms of measured over predicted: lower is better
    (Gneiting and Raftery, Journal of the American Statistical Association 102, 2007, equation 43)."""
    least, most, found = log(low), log(high), log(value)
    return most - least + 2 / (1 - share) * (max(0.0, least - found) + max(0.0, found - most))


class _Judge(Struct, frozen=True):
    """A row that judges: its source, stack and device, whether it is wide, measured over predicted time, settings."""

    source: str
    key: Key
    wide: bool
    ratio: float
    support: Support


def _judges(found: Iterable[tuple[Prediction | NotPredictable, bool]]) -> list[_Judge]:
    """Rows of training steps that state enough, on devices with measured kernels, on which nothing was fitted (the
    second of each pair says whether something was)."""
    from astrarium.validate.designs import Candidate
    from astrarium.validate.predict import Prediction

    return [_Judge(each.row.source, (each.meant.stack, device_of(each.meant.design)), is_wide(each.meant.design),
                   1.0 / (1.0 + each.values[0].time_error), support_of(each.meant.design))
            for each, fitted in found
            if isinstance(each, Prediction) and isinstance(each.meant, Candidate) and each.row.kind == "training"
            and each.meant.stated and not fitted
            and each.values[0].metric != "mem_GiB" and device_of(each.meant.design)]


def _divided(rows: Sequence[_Judge]) -> dict[Key, bool]:
    """Whether the rows of a stack on a device have their own interval where they are wide: both parts need
    rows enough."""
    count = {(each.key, wide): 0 for each in rows for wide in (False, True)}
    for each in rows:
        count[each.key, each.wide] += 1
    return {key: min(count[key, False], count[key, True]) >= FEWEST for key, _ in count}


class StackInterval(Struct, frozen=True):
    """Some rows of a stack: their devices, the interval of measured over predicted time, and their settings."""

    devices: tuple[str, ...]
    rows: int
    low: float
    high: float
    support: Support


def intervals(found: Iterable[tuple[Prediction | NotPredictable, bool]]) -> Mapping[Key, tuple[StackInterval, ...]]:
    """(stack, device) -> the interval of its step times; where there are rows enough of wide ones, the interval of the
    others and theirs. The device `ANYWHERE` is all of them together."""
    rows = _judges(found)
    every = {each.key[0]: [other for other in rows if other.key[0] == each.key[0]] for each in rows}
    groups = {each.key: [other for other in rows if other.key == each.key] for each in rows}
    groups |= {(stack, ANYWHERE): mine for stack, mine in every.items()}
    made = {}
    for key, mine in groups.items():
        wide, narrow = ([each for each in mine if each.wide is kind] for kind in (True, False))
        divided = min(len(wide), len(narrow)) >= FEWEST
        made[key] = tuple(_part(part) for part in ((narrow, wide) if divided else (mine,)))
    return made


def _part(rows: Sequence[_Judge]) -> StackInterval:
    devices = tuple(sorted({each.key[1] for each in rows}))
    return StackInterval(devices, len(rows), *conformal([each.ratio for each in rows]),
                         united(each.support for each in rows))


class Held(Struct, frozen=True):
    """How intervals hold for rows: `covered` of `rows` lie within the interval of all others of their kind. `fewest`,
    `most`: how many would in 95 of 100 such sets if the share were right. `score` the mean `interval_score`, `whole`
    that of one width for all rows, whatever their stack and device."""

    name: str
    rows: int
    covered: int
    fewest: int
    most: int
    score: float
    whole: float

    @property
    def better(self) -> float:
        """By how much the score is better than that of one width."""
        return 1.0 - self.score / self.whole


def held(found: Iterable[tuple[Prediction | NotPredictable, bool]]) -> list[Held]:
    """Coverage of all rows together, and per source; each row is judged by the others. Stacks on devices with fewer
    than `FEWEST` rows have no interval, and are left out."""
    rows = _judges(found)
    divided = _divided(rows)

    def kind(each: _Judge) -> tuple[Key, bool]:
        return each.key, divided[each.key] and each.wide

    whole, own = _left_out(rows, lambda _: 0), _left_out(rows, kind)
    judged = [(each, own[number], whole[number]) for number, each in enumerate(rows) if own[number] is not None]
    names = dict.fromkeys(each.source for each, _, _ in judged)
    groups = [("all", judged), *((name, [each for each in judged if each[0].source == name]) for name in names)]
    return [_held(name, [(each.ratio, mine, others) for each, mine, others in group if mine and others])
            for name, group in groups if group]


def _left_out(rows: Sequence[_Judge], kind: Callable[[_Judge], object]) -> list[tuple[float, float] | None]:
    """Per row the interval of all others of its kind; None where there are fewer than `FEWEST` with it."""
    made: list[tuple[float, float] | None] = []
    kinds = [kind(each) for each in rows]
    for number, mine in enumerate(kinds):
        others = [each.ratio for place, each in enumerate(rows) if kinds[place] == mine and place != number]
        made.append(conformal(others) if len(others) + 1 >= FEWEST else None)
    return made


def _held(name: str, rows: Sequence[tuple[float, tuple[float, float], tuple[float, float]]]) -> Held:
    covered = sum(low <= ratio <= high for ratio, (low, high), _ in rows)
    fewest, most = usual_counts(len(rows))
    return Held(name, len(rows), covered, fewest, most,
                float(np.mean([interval_score(*mine, ratio) for ratio, mine, _ in rows])),
                float(np.mean([interval_score(*whole, ratio) for ratio, _, whole in rows])))


def usual_counts(rows: int) -> tuple[int, int]:
    """The middle of the binomial distribution of `SHARE` that holds `SURE`."""
    chance = np.cumsum([comb(rows, each) * SHARE**each * (1 - SHARE)**(rows - each) for each in range(rows + 1)])
    outside = (1 - SURE) / 2
    return int(np.searchsorted(chance, outside)), int(np.searchsorted(chance, 1 - outside))
