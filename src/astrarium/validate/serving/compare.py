"""Logs of an engine beside what a serving file predicts for the same requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from astrarium.design import load_design
from astrarium.serving.serve import Serving
from astrarium.validate.serving.calibrate import means_of, replayed
from astrarium.validate.serving.log import log_notes, read_log

__all__ = ["compared"]

MS = 1e6        # ns


def compared(files: Sequence[str], serving: Serving, note: Callable[[str], object]) -> list[dict[str, Any]]:
    """Mean times of each log, measured and predicted (ns), as plain rows. Raises InputError if a file is not a log.

    Args:
        files: The logs.
        serving: Its design and policy; the requests are those of the log.
        note: Told what a comparison leaves out, and what looks wrong.
    """
    design, known, found = load_design(serving.alone), dict[tuple[object, ...], object](), list[dict[str, Any]]()
    for path in files:
        log = read_log(path)
        for line in log_notes(path, log):
            note(line)
        real, made = means_of(log), replayed(log, design, serving.policy, known)
        found += [{"file": path, "metric": f"{name}_mean_ns", "requests": log.count(name),
                   "measured": getattr(real, name) * MS, "predicted": getattr(made, name) * MS,
                   "error": getattr(made, name) / getattr(real, name) - 1} for name in ("ttft", "tpot", "latency")
                  if getattr(real, name)]
    for row in found:
        if not 0.01 < row["measured"] / row["predicted"] < 100:
            note(f"{row['file']}: {row['metric']} is far from the prediction: times are seconds, or ms in columns that "
                 "say so (ttft_ms)")
    return found
