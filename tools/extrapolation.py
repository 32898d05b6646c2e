"""Measure how far intervals have to go for regimes that no row has: writes catalog/extrapolation.toml.

usage: extrapolation.py ROWS.csv... [--steps FILE]

A regime is a part of a stack's rows: one format of products, one stage of ZeRO, one kind of recomputation, no pipeline,
the half with the fewest hosts, ... . The stack's constants are fitted again on the regime's fitted rows (Gauss-Newton
as in fit_stacks.py, with log step times linear in the logs of the constants, around the catalog's). The interval is
made of the regime's unseen rows, and all rows outside the regime judge it: on one axis, or on two or three at once.
Unseen rows of devices on which nothing was fitted are judged by those of the stack's other devices. `further`: the
least share, in whole percent, by which both ends go further out so that 80 % of the rows lie within in 80 % of the
regimes; every stack has the same weight, and within it every regime. There is one for regimes that only ranges (hosts,
tokens) or a device tell apart, and one for those that a setting does.

`--steps FILE`: where step times and slopes are kept, to go on from (they take most of the time).
"""

from __future__ import annotations

import argparse
import itertools
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from fit_stacks import PARAMETERS, Parameter, gauss_newton, known, logs

from astrarium import catalog
from astrarium.cost.interval import FEWEST, SHARE, device_of
from astrarium.cost.support import FEW, SETTINGS, SPLITS, Support, support_of
from astrarium.lower.kept import Kept
from astrarium.validate.designs import stack_of
from astrarium.validate.intervals import conformal
from astrarium.validate.record import fitted_on
from astrarium.validate.rows import Row, read_rows

F64 = npt.NDArray[np.float64]
TABLE = Path(__file__).resolve().parent.parent / "src/astrarium/catalog/extrapolation.toml"
LEAST = 5           # rows that are fitted, and rows that judge
MOST_AXES = 3
STEP, LONGEST = 0.01, 1.0
HEAD = """\
# By which share both ends of an interval go further out for a design outside the support of its rows on 1 to `axes`
# axes, and how the intervals of regimes of rows held for the rows outside them (tools/extrapolation.py). ranges: hosts,
# tokens, device; settings: one of the others among them. plain, held: share of rows within, without and with it (the
# mean over regimes; every stack has the same weight); apart: with what the other stacks' regimes ask for.
"""


@dataclass(frozen=True)
class Step:
    """A row: log of predicted over measured time at the catalog's constants, and its slopes by their logs."""

    source: str
    device: str
    fitted: bool
    support: Support
    log: float
    slopes: F64


@dataclass(frozen=True)
class Judged:
    """A regime of a stack: in words, axes that the judging rows are outside on; measured over predicted, in logs, of
    the rows that the interval is made of and of those that judge it."""

    stack: str
    regime: str
    axes: tuple[str, ...]
    inside: F64
    outside: F64

    @property
    def settings(self) -> bool:
        """Whether one of the axes is a setting."""
        return any(axis in (*SPLITS, *SETTINGS) for axis in self.axes)

    def within(self, beyond: float) -> float:
        """Share of the judging rows within the interval, its ends further out by a share."""
        low, high = conformal(np.exp(self.inside))
        ratios = np.exp(self.outside)
        return float(np.mean((low / (1 + beyond) <= ratios) & (ratios <= high * (1 + beyond))))


def constants(stack: str, parameters: Sequence[Parameter]) -> F64:
    """The catalog's constants, as logs from where the fit starts."""
    row = catalog.load("stacks")[stack]
    found = []
    for each in parameters:
        values: object = None
        for table in (row, row.get("several_hosts", {})):
            at: object = table
            for name in each.path.split("."):
                at = at.get(name) if hasattr(at, "get") else None
            values = values if at is None else at
        found.append(np.log(float(str(values).split()[0]) / each.start))
    return np.array(found)


def steps_of(stack: str, rows: Sequence[Row], fitted: Sequence[bool]) -> list[Step]:
    """Every row of a stack on a device with measured kernels."""
    parameters, seen = PARAMETERS[stack], {id(row): one for row, one in zip(rows, fitted, strict=True)}
    at, found = constants(stack, parameters), []
    timed = [row for row in rows if stack_of(row) == stack and (row.number("step_s") or row.number("tok_s_gpu"))]
    for row, meant in known(timed):
        device, kept = device_of(meant[0].design), Kept()
        if device:
            here = float(logs([(row, meant)], parameters, at, kept)[0])
            slopes = [(float(logs([(row, meant)], parameters, at + 0.1 * one, kept)[0]) - here) / 0.1
                      for one in np.eye(len(parameters))]
            found.append(Step(row.source, device, seen[id(row)], support_of(meant[0].design), here, np.array(slopes)))
    return found


def again(stack: str, learn: Sequence[Step]) -> F64:
    """The constants fitted on some rows, as logs from the catalog's."""
    parameters = PARAMETERS[stack]
    start = constants(stack, parameters)
    here, slopes = np.array([each.log for each in learn]), np.stack([each.slopes for each in learn])
    return gauss_newton(lambda at: (here + slopes @ (at - start), slopes), [each.source for each in learn], parameters,
                        start) - start


def regimes(steps: Sequence[Step]) -> Iterator[tuple[str, str, Callable[[Step], bool]]]:
    """(axis, words, whether a row is in it): of the axes of Support on which these rows differ."""
    def value(axis: str, step: Step) -> Any:
        return getattr(step.support, axis)

    def has(axis: str, one: object, step: Step) -> bool:
        return bool(value(axis, step) == one)

    for axis in ("model", "precision", "zero", "recompute"):
        for one in sorted({value(axis, step) for step in steps}):
            yield axis, f"{axis} {one[0] if one else 'none'}", partial(has, axis, one)
    for axis in SPLITS:
        yield axis, f"no {axis}", lambda step, axis=axis: axis not in step.support.split
    for axis in ("hosts", "tokens"):
        middle = float(np.median([value(axis, step)[0] for step in steps]))
        yield axis, f"at most {middle:,.0f} {axis}", lambda step, axis=axis, most=middle: value(axis, step)[0] <= most
        yield axis, f"at least {middle:,.0f} {axis}", lambda step, axis=axis, least=middle: \
            value(axis, step)[0] >= least


def judged(stack: str, steps: Sequence[Step]) -> Iterator[Judged]:
    """Every regime of a stack with rows enough inside and outside it, and its devices without a fit."""
    homes = {each.device for each in steps if each.fitted}
    mine = [each for each in steps if each.device in homes]
    for axes in range(1, MOST_AXES + 1):
        for chosen in itertools.combinations(regimes(mine), axes):
            inside = [each for each in mine if all(holds(each) for _, _, holds in chosen)]
            outside = [each for each in mine if not any(holds(each) for _, _, holds in chosen)]
            learn, judge = [each for each in inside if each.fitted], [each for each in inside if not each.fitted]
            if len({axis for axis, _, _ in chosen}) == axes and len(judge) >= FEWEST and \
                    min(len(learn), len(outside)) >= LEAST:
                at = again(stack, learn)
                yield Judged(stack, " and ".join(words for _, words, _ in chosen), tuple(axis for axis, _, _ in chosen),
                             ratios(judge, at), ratios(outside, at))
    for device in sorted({each.device for each in steps} - homes):
        unseen = [each for each in steps if not each.fitted]
        here = [each for each in unseen if each.device == device]
        others = [each for each in unseen if each.device != device]
        if len(others) >= FEWEST and len(here) >= FEW:
            at = np.zeros(len(PARAMETERS[stack]))
            yield Judged(stack, f"devices but {device}", ("device",), ratios(others, at), ratios(here, at))


def ratios(steps: Sequence[Step], at: F64) -> F64:
    """Logs of measured over predicted time under other constants."""
    return -np.array([each.log + each.slopes @ at for each in steps])


def mean(found: Sequence[Judged], figure: Callable[[Judged], float]) -> float:
    """The mean over stacks of the means over their regimes."""
    stacks = dict.fromkeys(each.stack for each in found)
    return float(np.mean([np.mean([figure(each) for each in found if each.stack == stack]) for stack in stacks]))


def least(found: Sequence[Judged]) -> float:
    """The least share with which `SHARE` of the rows lie within in `SHARE` of the regimes."""
    def holds(each: Judged, beyond: float) -> bool:
        return each.within(beyond) >= SHARE

    return next(float(beyond) for beyond in np.arange(0.0, LONGEST, STEP)
                if mean(found, partial(holds, beyond=beyond)) >= SHARE)


def _line(each: Judged, beyond: float) -> str:
    return (f'    {{ stack = "{each.stack}", regime = "{each.regime}", inside = {each.inside.size}, outside = '
            f"{each.outside.size}, plain = {each.within(0.0):.3f}, held = {each.within(beyond):.3f} }},\n")


def record(found: Sequence[Judged]) -> str:
    """All of it as a catalog file."""
    text = HEAD
    for name, settings in (("ranges", False), ("settings", True)):
        mine = [each for each in found if each.settings is settings]
        stacks, beyond = sorted({each.stack for each in mine}), least(mine)
        others = {stack: least([each for each in mine if each.stack != stack]) for stack in stacks}
        plain, held = mean(mine, lambda each: each.within(0.0)), mean(mine, partial(Judged.within, beyond=beyond))
        apart = float(np.mean([mean([each for each in mine if each.stack == stack],
                                    partial(Judged.within, beyond=others[stack])) for stack in stacks]))
        text += (f"\n[{name}]\nfurther = {beyond:.2f}\naxes = {max(len(each.axes) for each in mine)}\n"
                 f"stacks = {len(stacks)}\nplain = {plain:.3f}\nheld = {held:.3f}\napart = {apart:.3f}\nregimes = [\n")
        text += "".join(map(_line, mine, [beyond] * len(mine)))
        text += "]\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--steps", metavar="FILE", type=Path)
    options = parser.parse_args()
    if options.steps is not None and options.steps.exists():
        steps = pickle.loads(options.steps.read_bytes())
    else:
        rows = [row for file in options.files for row in read_rows(file)]
        fitted = fitted_on(rows)
        steps = {stack: steps_of(stack, rows, fitted) for stack in PARAMETERS}
        if options.steps is not None:
            options.steps.write_bytes(pickle.dumps(steps))
    found = [each for stack, mine in steps.items() for each in judged(stack, mine)]
    for each in found:
        print(f"{each.stack:12} {each.regime:64} {each.inside.size:4} {each.outside.size:4} "
              f"{100 * each.within(0.0):5.1f} %")
    TABLE.write_text(record(found), encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
    main()
