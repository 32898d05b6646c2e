"""All that is said of some measured rows: predictions, scores per group, and the rival without physics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from astrarium import catalog
from astrarium.validate.baseline import fit, table_of
from astrarium.validate.intervals import Held, held
from astrarium.validate.kernel_times import Meant
from astrarium.validate.micro_rows import COPIES
from astrarium.validate.predict import NotPredictable, Prediction, predictions
from astrarium.validate.record import fitted_on, halves
from astrarium.validate.rows import Row
from astrarium.validate.score import Score, scores
from astrarium.validate.serving.rows import READERS
from astrarium.validate.serving.silicon import distinct

__all__ = ["Validation", "verdict"]

Found = Prediction | NotPredictable
FEWEST = 4      # rows of a source, below which no rival is fitted
OPTIONAL = ("kernel", "kernel, of fitted rows")


class Validation(Struct, frozen=True):
    """Rows with their predictions; `fitted` says of each whether a stack was fitted on it; `groups` holds scores by
    what they group. Per source: `rival` is what trees without physics do; `left_out` what we do where the source was in
    no fit of a stack (the catalog's record: tools/fit_stacks.py --leave-out). `held`: how the intervals of step times
    hold for unseen rows."""

    found: Sequence[Found]
    fitted: Sequence[bool]
    groups: Mapping[str, Sequence[Score]]
    rival: Mapping[str, str]
    left_out: Mapping[str, str]
    held: Sequence[Held] = ()


def verdict(rows: Sequence[Row], note: Callable[[int], None] | None = None) -> Validation:
    """Predict rows and score them; rows on which a stack was fitted are scored apart from unseen ones."""
    total, rows = len(rows), distinct(rows)
    found = list(predictions(rows, note))
    if note is not None:
        note(total)
    fitted = fitted_on(rows)
    judges = [each for each, known in zip(found, fitted, strict=True) if not known]
    groups = {"source": _both(judges, lambda each: each.row.source),
              "device": _both(judges, _device), "stack": _both(judges, _stack), "kernel": _kernels(judges)}
    if any(fitted):
        seen = [each for each, known in zip(found, fitted, strict=True) if known]
        groups["source, of fitted rows"] = _both(seen, lambda each: each.row.source)
        groups["kernel, of fitted rows"] = _kernels(seen)
    groups = {name: each for name, each in groups.items() if each or name not in OPTIONAL}
    return Validation(found, fitted, groups, rivals(rows, fitted), left_out(rows),
                      held(zip(found, fitted, strict=True)))


def left_out(rows: Sequence[Row]) -> dict[str, str]:
    """Per source of `rows`: median and p90 error where no fit of its stack had it, as far as the catalog records it."""
    named, found = {row.source for row in rows}, dict[str, list[str]]()
    for sources in catalog.load("left_out").values():
        for source, row in sources.items():
            if source in named:
                start = "" if row["others"] else " (constants at their start)"
                found.setdefault(source, []).append(f"{row['median']:.1f} / {row['p90']:.1f} %{start}")
    return {source: "; ".join(each) for source, each in found.items()}


def _both(found: Sequence[Found], key: Callable[[Found], str]) -> list[Score]:
    more = [each for metric in _metrics(found) for each in scores(found, key, metric) if each.rows]
    return [*scores(found, key), *more]


def _kernels(found: Sequence[Found]) -> list[Score]:
    """Scores of kernels by their groups, in alphabetical order."""
    return sorted(_both([each for each in found if isinstance(each, Prediction) and isinstance(each.meant, Meant)],
                        lambda each: each.meant.group if isinstance(each, Prediction) and isinstance(
                            each.meant, Meant) else ""), key=lambda each: each.name)


def _metrics(found: Sequence[Found]) -> list[str]:
    """Memory, the clock, copies beside products, and where rows of serving have several metrics or different ones, each
    of them."""
    named = dict.fromkeys(value.metric for each in found if isinstance(each, Prediction) and each.row.kind in READERS
                          for value in each.values)
    return ["mem_GiB", "clock_MHz", COPIES, *named]


def _device(each: Found) -> str:
    return each.meant.device if isinstance(each, Prediction) else each.row.text("gpu") or each.row.text("hw")


def _stack(each: Found) -> str:
    return each.meant.stack if isinstance(each, Prediction) else "not predictable"


def rivals(rows: Sequence[Row], fitted: Sequence[bool], key: Callable[[Row], str] = lambda row: row.source
           ) -> dict[str, str]:
    """Per source (or `key`): median error of trees on the rows' columns, fitted on the rows that a stack was fitted on
    (where there is none of them: on every other row), and with all rows of the source left out."""
    timed = [(row, known) for row, known in zip(rows, fitted, strict=True) if row.kind == "training" and _seconds(row)]
    learn = [row for row, known in timed if known]
    judge = [row for row, known in timed if not known]
    if not learn:
        learn, judge = halves([row for row, _ in timed])
    found = {}
    for name in dict.fromkeys(key(row) for row, _ in timed):
        mine, source = [row for row in judge if key(row) == name], [row for row, _ in timed if key(row) == name]
        others = [row for row, _ in timed if row.source not in {each.source for each in source}]
        known, apart = _error(learn, mine), _error(others, source)
        found[name] = "-" if known == apart == "-" else f"{known}; left out {apart}"
    return found


def _seconds(row: Row) -> float:
    """Measured seconds of a step, from its rate where the row states no time; 0: neither."""
    tokens = (row.number("gbs") or 0.0) * (row.number("seq") or 0.0)
    rate = (row.number("tok_s_gpu") or 0.0) * (row.number("n_gpus") or 0.0)
    return row.number("step_s") or (tokens / rate if rate else 0.0)


def _error(learn: Sequence[Row], judge: Sequence[Row]) -> str:
    if len(learn) < FEWEST or not judge:
        return "-"
    trees = fit(table_of(learn, learn), np.log([_seconds(row) for row in learn]))
    made = np.exp(trees.predict(table_of(judge, learn)))
    measured = np.array([_seconds(row) for row in judge])
    return f"{100 * float(np.median(np.abs(made / measured - 1))):.1f} %"
