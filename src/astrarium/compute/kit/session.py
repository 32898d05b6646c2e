"""A run of the kit: within its time, row by row into a file that a later run goes on with."""

from __future__ import annotations

import csv
import io
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from msgspec import Struct

from astrarium.compute.kit.cases import COLUMNS, Case
from astrarium.compute.kit.run import Skipped, Took
from astrarium.errors import InputError

__all__ = ["Progress", "Session", "measure", "rows_of"]

DEVICE, SKIPPED = "# device: ", "# not measured: "
DEFAULTS = Case._field_defaults
USED = 0.98         # of the budget, after which no case starts: the rest is for the calibration


class Progress(NamedTuple):
    """`done` of `total` cases have a row or a reason, after `used` of `budget` seconds."""

    done: int
    total: int
    seconds: float
    budget: float


class Session(Struct, frozen=True):
    """`measured`: cases of this run; `before`: of earlier ones; `left`: without a row, as time ran out; `skipped`: why
    -> cases without a row."""

    measured: int
    before: int
    left: int
    skipped: dict[str, int]


def measure(cases: Sequence[Case], path: str, device: str, run: Callable[[Case], Took], budget: float,
            progress: Callable[[Progress], None], clock: Callable[[], float] = time.monotonic) -> Session:
    """Measure cases in their order until the budget (seconds) ends, and append each to the file at once.

    Args:
        device: The device and versions, a line; a file of another is refused.
        run: The time of a case; raises Skipped.
        progress: Is told after every case.
    """
    start, known, reasons = clock(), _known(path, device), Counter[str]()
    before = sum(case.key in known for case in cases)
    reasons.update(filter(None, (known.get(case.key) for case in cases)))
    open_cases, measured = [case for case in cases if case.key not in known], 0
    with open(path, "a", encoding="utf-8", newline="") as file:
        for place, case in enumerate(open_cases):
            if clock() - start > USED * budget:
                return Session(measured, before, len(open_cases) - place, dict(reasons))
            try:
                file.write(_row(case, run(case)))
                measured += 1
            except Skipped as why:
                reasons[str(why)] += 1
                file.write(f"{SKIPPED}{case.key}: {why}\n")
            file.flush()
            progress(Progress(before + place + 1, len(cases), clock() - start, budget))
    return Session(measured, before, 0, dict(reasons))


def _row(case: Case, took: Took) -> str:
    """A line of the file."""
    case = case._replace(layout=took.layout or case.layout)
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([*case.cells, f"{took.ns / 1e3:.6g}", *(
        f"{each:.5g}" if each else "" for each in (took.clock, took.watts))])
    return line.getvalue()


def _known(path: str, device: str) -> dict[str, str]:
    """Key of a case -> why it has no row; "": it has one. Writes the head of a file that does not exist, and cuts the
    line that an interrupt left half-written."""
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{DEVICE}{device}\n{','.join(COLUMNS)}\n")
        return {}
    text = _text(path)
    whole = text[:text.rfind("\n") + 1]
    if not whole.startswith(DEVICE) or whole.splitlines()[1:2] != [",".join(COLUMNS)]:
        raise InputError(path, "is no file of rows that `calibrate --measure` wrote", expected="a name that is free")
    first = whole.split("\n", 1)[0].removeprefix(DEVICE).rstrip()
    if first != device:
        raise InputError(path, f"has rows of {first}", expected=f"rows of {device}, or a name that is free")
    if whole != text:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(whole)
    skipped = (line.removeprefix(SKIPPED).partition(": ") for line in whole.splitlines() if line.startswith(SKIPPED))
    return {**{key: why for key, _, why in skipped}, **{case.key: "" for case, *_ in rows_of(path)}}


def rows_of(path: str) -> list[tuple[Case, float, float, float]]:
    """(case, ns, MHz, W) of every row."""
    table = csv.DictReader(line for line in _text(path).splitlines() if line and line[0] != "#")
    found = list[tuple[Case, float, float, float]]()
    try:
        for row in table:
            sizes = {name: int(row[name] or 0) if value == 0 else row[name] for name, value in DEFAULTS.items()}
            case = Case(row["kind"], **cast("dict[str, Any]", sizes))
            found.append((case, float(row["us"]) * 1e3, float(row["clock"] or 0), float(row["watt"] or 0)))
    except (KeyError, TypeError, ValueError, csv.Error):
        raise InputError(path, f"row {len(found) + 1} is none that `calibrate --measure` wrote",
                         expected="the file as it was, or a name that is free") from None
    return found


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, f"cannot be read ({error})", expected="a file of rows, or a name that is free") from None
