"""All that is said of some measured rows: predictions, scores per group, and the rival without physics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from astrarium.validate.baseline import fit, table_of
from astrarium.validate.intervals import Held, held
from astrarium.validate.predict import NotPredictable, Prediction, predictions
from astrarium.validate.record import fitted_on, halves
from astrarium.validate.rows import Row
from astrarium.validate.score import Score, scores

__all__ = ["Validation", "verdict"]

Found = Prediction | NotPredictable
FEWEST = 4      # rows of a source, below which no rival is fitted


@dataclass(frozen=True)
class Validation:
    """Rows with their predictions; `fitted` says of each whether a stack was fitted on it; `groups` holds scores by
    what they group; `rival` is what trees without physics do, per source; `held`: how the intervals of step times hold
    for unseen rows."""

    found: Sequence[Found]
    fitted: Sequence[bool]
    groups: Mapping[str, Sequence[Score]]
    rival: Mapping[str, str]
    held: Sequence[Held] = ()


def verdict(rows: Sequence[Row], note: Callable[[int], None] | None = None) -> Validation:
    """Predict rows and score them; rows on which a stack was fitted are scored apart from unseen ones."""
    found = list(predictions(rows, note))
    if note is not None:
        note(len(rows))
    fitted = fitted_on(rows)
    judges = [each for each, known in zip(found, fitted, strict=True) if not known]
    groups = {"source": _both(judges, lambda each: each.row.source),
              "device": _both(judges, _device), "stack": _both(judges, _stack)}
    if any(fitted):
        seen = [each for each, known in zip(found, fitted, strict=True) if known]
        groups["source, of fitted rows"] = _both(seen, lambda each: each.row.source)
    return Validation(found, fitted, groups, rivals(rows), held(zip(found, fitted, strict=True)))


def _both(found: Sequence[Found], key: Callable[[Found], str]) -> list[Score]:
    memory = [each for each in scores(found, key, "mem_GiB") if each.rows]
    return [*scores(found, key), *memory]


def _device(each: Found) -> str:
    return each.meant.device if isinstance(each, Prediction) else each.row.text("gpu") or each.row.text("hw")


def _stack(each: Found) -> str:
    return each.meant.stack if isinstance(each, Prediction) else "not predictable"


def rivals(rows: Sequence[Row]) -> dict[str, str]:
    """Per source: median error of trees on the rows' columns, fitted on the same half (`halves`), and with the whole
    source left out."""
    timed = [row for row in rows if row.kind == "training" and row.number("step_s")]
    learn, judge = halves(timed)
    found = {}
    for source in dict.fromkeys(row.source for row in timed):
        mine = [row for row in judge if row.source == source]
        others = [row for row in timed if row.source != source]
        found[source] = f"{_error(learn, mine)}; left out {_error(others, [r for r in timed if r.source == source])}"
    return found


def _error(learn: Sequence[Row], judge: Sequence[Row]) -> str:
    if len(learn) < FEWEST or not judge:
        return "-"
    trees = fit(table_of(learn, learn), np.array([np.log(row.number("step_s") or 1.0) for row in learn]))
    made = np.exp(trees.predict(table_of(judge, learn)))
    measured = np.array([row.number("step_s") or 1.0 for row in judge])
    return f"{100 * float(np.median(np.abs(made / measured - 1))):.1f} %"
