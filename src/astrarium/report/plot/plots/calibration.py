"""A calibration: predicted against measured times of kernels, by the base and by the correction."""

from __future__ import annotations

import numpy as np

from astrarium.compute.calibration import Calibration, unseen_times
from astrarium.errors import InputError
from astrarium.report.plot.colours import PALETTE
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot, spread

__all__ = ["PLOT", "calibrated_times"]

BAND = 0.1


def calibrated_times(answer: Calibration) -> Plot:
    """Predicted against measured times of every row: by the base, and by a calibration without the row's fifth; dashed
    lines: 10 % away.

    Args:
        answer: a calibration by timings of kernels.

    Raises:
        InputError: where no class of kernels has enough rows to be judged; of logs of collectives or of an engine.
    """
    if not isinstance(answer, Calibration):
        raise InputError("calibrated_times", "collectives and engines are fitted, not kernels",
                         expected="a calibration by timings of kernels")
    rows = [(name, when, *pair, pair[1] / pair[0] - 1)
            for name, (measured, before, after) in unseen_times(answer).items()
            for when, predicted in (("before", before), ("after", after))
            for pair in zip(measured.tolist(), predicted.tolist())]
    if not rows:
        raise InputError("calibrated_times", "no class of kernels has five rows", expected="more timings")
    shown, left = spread(rows)
    every = [value for row in rows for value in row[2:4]]
    low, high = min(every) / 1.3, max(every) * 1.3
    lines = [Layer("line", {"x": Column("", [low, high], "time"), "y": Column("", [low * share, high * share], "time")},
                   colour="muted", size=1.2, dash=share != 1) for share in (1.0, 1 - BAND, 1 + BAND)]
    columns = {"colour": Column("prediction", [row[1] for row in shown]),
               "of": Column("class", [row[0] for row in shown]),
               "x": Column("measured", [row[2] for row in shown], "time"),
               "y": Column("predicted", [row[3] for row in shown], "time"),
               "error": Column("error", [row[4] for row in shown], "share")}
    errors = {when: np.abs([row[4] for row in rows if row[1] == when]) for when in ("before", "after")}
    near = {when: int((each <= BAND).sum()) for when, each in errors.items()}
    median = {when: 100 * float(np.median(each)) for when, each in errors.items()}
    return Plot("Predicted against measured times", f"{len(rows) // 2:,} rows: {near['before']:,} lie within "
                f"{100 * BAND:.0f} % (dashed) of the measured time before the calibration (median error "
                f"{median['before']:.1f} %), {near['after']:,} after it ({median['after']:.1f} %; every row is "
                f"predicted without its own timing).{left}",
                (*lines, Layer("point", columns, size=40, opacity=0.8)),
                Axis("measured", "time", log=True, low=low, high=high),
                Axis("predicted", "time", log=True, low=low, high=high),
                {"before": PALETTE[1], "after": PALETTE[0]}, zoom=True, height=420)


PLOT = Drawing(("calibrate",), calibrated_times)
