"""Fit the few constants of software stacks on one half of measured rows, and judge them on the other half.

usage: fit_stacks.py ROWS.csv [STACK...] [--apart SOURCE] [--leave-out] [--step N]

Constants are fields of a design (PARAMETERS), one set per stack. Within every source the 1st, 3rd, ... row is fitted,
the 2nd, 4th, ... judges (astrarium.validate.record). Gauss-Newton on log(predicted / measured) with robust weights,
every source with equal weight, and a weak prior around the start; the same rows give the same constants. `--apart`
leaves a source out of the fit altogether; `--leave-out` does so with every source in turn (a stack that has no other
source is taken at the start of its constants).
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from astrarium import config
from astrarium.errors import AstrariumError
from astrarium.lower.kept import Kept
from astrarium.simulate import simulate
from astrarium.validate.designs import Candidate, candidates, stack_of
from astrarium.validate.record import halves
from astrarium.validate.rows import Row, read_rows

F64 = npt.NDArray[np.float64]
SCALE = 0.04        # log error beyond which a row counts less
ROUNDS = 4


@dataclass(frozen=True)
class Parameter:
    """A field of a design: where the fit starts, how far (in log) it goes without good reason, its unit."""

    path: str
    start: float
    spread: float
    unit: str = ""

    def value(self, log: float) -> float | str:
        """The field's value `log` away from the start."""
        found = float(f"{self.start * np.exp(log):.4g}")
        if self.path in SHARES:
            return min(1.0, found)
        return f"{found} {self.unit}" if self.unit else found


SHARES = ("workload.software.tp_overlap",)
GEMM = Parameter("compute.in_situ.gemm", 1.05, 0.1)
CLOCKED = Parameter("compute.in_situ.gemm", 1.0, 0.01)     # under sustained clocks: these explain products
VECTOR = Parameter("compute.in_situ.vector", 1.2, 0.3)
LAUNCH = Parameter("compute.launch_gap", 2.0, 0.7, "us")
OVERLAP = Parameter("workload.software.tp_overlap", 0.7, 0.3)
BACKWARD = Parameter("compute.in_situ.attention_backward", 1.1, 0.1)
HOST = Parameter("workload.software.host", 2.5, 0.7, "ms")
HOST_TP = Parameter("workload.software.host_tp", 1.0, 0.7, "ms")
PARAMETERS: Mapping[str, Sequence[Parameter]] = {
    "megatron-lm": (GEMM, VECTOR, LAUNCH, HOST),
    "megatron-lm-3": (GEMM, VECTOR),
    "nemo": (VECTOR, LAUNCH, OVERLAP),
    "nemo-24": (CLOCKED, VECTOR),
    "nanotron": (GEMM, VECTOR, LAUNCH, HOST, HOST_TP),
    "megascale": (GEMM, VECTOR),
    "fsdp": (GEMM, BACKWARD),
    "fsdp-1": (GEMM, BACKWARD),
}
SEVERAL = frozenset({"workload.software.host_tp"})      # fields that apply where a job spans hosts


def seconds(meant: Sequence[Candidate], changes: Mapping[str, object], kept: Kept) -> float:
    """What the fastest candidate takes with these fields changed."""
    return min(simulate(config.replace_all(each.design, fitting(each, changes)), record=False, kept=kept).makespan / 1e9
               for each in meant)


def fitting(each: Candidate, changes: Mapping[str, object]) -> dict[str, object]:
    """Fields that apply only to several hosts stay as they are on one."""
    several = len(each.design.network.dims) > 1
    return {path: value for path, value in changes.items() if several or path not in SEVERAL}


def measured(row: Row, meant: Candidate) -> float:
    """Seconds of the row's step."""
    if found := row.number("step_s"):
        return found
    work = meant.design.workload
    seq = work.seq or work.model.seq        # type: ignore[attr-defined]
    return work.global_batch * seq / (row.number("tok_s_gpu") or np.nan) / work.ranks    # type: ignore[attr-defined]


def known(rows: Sequence[Row]) -> list[tuple[Row, list[Candidate]]]:
    """Rows with a prediction."""
    found = []
    for row in rows:
        try:
            meant = candidates(row)
            seconds(meant[:1], {}, Kept())
            found.append((row, meant))
        except AstrariumError as error:
            print(f"  {row.case}: {error}", file=sys.stderr)
    return [each for each in found if each[1][0].stated]


def logs(rows: Sequence[tuple[Row, list[Candidate]]], parameters: Sequence[Parameter], at: F64, kept: Kept) -> F64:
    """log(predicted / measured) of every row."""
    changes = {each.path: each.value(log) for each, log in zip(parameters, at.tolist(), strict=True)}
    return np.array([np.log(seconds(meant, changes, kept) / measured(row, meant[0])) for row, meant in rows])


def fit(rows: Sequence[tuple[Row, list[Candidate]]], parameters: Sequence[Parameter], kept: Kept) -> F64:
    """Where the fit ends, in log from the start."""
    def errors(at: F64) -> tuple[F64, F64]:
        here = logs(rows, parameters, at, kept)
        now = " ".join(f"{each.path.rpartition('.')[2]} {each.value(log)}"
                       for each, log in zip(parameters, at.tolist(), strict=True))
        print(f"  median {np.median(np.abs(here)):.3f} at {now}", flush=True)
        return here, np.stack([(logs(rows, parameters, at + step, kept) - here) / 0.1
                               for step in 0.1 * np.eye(len(parameters))], axis=1)

    return gauss_newton(errors, [row.source for row, _ in rows], parameters, np.zeros(len(parameters)))


def gauss_newton(errors: Callable[[F64], tuple[F64, F64]], sources: Sequence[str], parameters: Sequence[Parameter],
                 at: F64) -> F64:
    """Where the fit ends that begins `at`; `errors` gives log(predicted / measured) and slopes [rows, parameters]."""
    share = np.array([1.0 / sources.count(source) for source in sources])
    prior = np.diag([1.0 / each.spread for each in parameters]) * 0.1
    for _ in range(ROUNDS):
        here, slope = errors(at)
        weight = np.sqrt(share / SCALE**2 / np.maximum(1.0, np.abs(here) / SCALE))
        matrix, right = np.vstack([slope * weight[:, None], prior]), np.concatenate([-here * weight, -prior @ at])
        at = at + np.clip(np.linalg.lstsq(matrix, right, rcond=None)[0], -0.5, 0.5)
    return at


def judged(name: str, rows: Sequence[tuple[Row, list[Candidate]]], errors: F64) -> None:
    """Median, p90 and bias per source."""
    for source in dict.fromkeys(row.source for row, _ in rows):
        mine = np.expm1(errors[[row.source == source for row, _ in rows]])
        print(f"  {name:7} {source[:44]:44} {mine.size:4} rows: median {100 * np.median(np.abs(mine)):5.1f} % "
              f"p90 {100 * np.quantile(np.abs(mine), 0.9):5.1f} % bias {100 * mine.mean():+5.1f} %")


def cases(learn: Sequence[Row]) -> str:
    """The fitted rows as a catalog file: stack -> source -> names."""
    lines = ["# Rows on which stacks were fitted (tools/fit_stacks.py --cases): validate scores them apart."]
    for stack in dict.fromkeys(stack_of(row) for row in learn):
        lines.append(f"\n[{stack}]")
        mine = [row for row in learn if stack_of(row) == stack]
        for source in dict.fromkeys(row.source for row in mine):
            names = ", ".join(f'"{row.case}"' for row in mine if row.source == source)
            lines += textwrap.wrap(f'"{source}" = [{names}]', 118, break_long_words=False, break_on_hyphens=False,
                                   subsequent_indent="    ")
    return "\n".join(lines) + "\n"


def leave_out(learn: Sequence[Row], judge: Sequence[Row], stacks: Sequence[str], step: int) -> None:
    """Errors of every source under constants that were fitted on its stack's other sources alone."""
    for stack in stacks:
        print(f"stack {stack}", flush=True)
        mine = known([row for row in (*learn, *judge) if stack_of(row) == stack])
        for source in dict.fromkeys(row.source for row, _ in mine):
            kept, parameters = Kept(), PARAMETERS[stack]
            others = known([row for row in learn if stack_of(row) == stack and row.source != source])[::step]
            at = fit(others, parameters, kept) if others else np.zeros(len(parameters))
            rows = [each for each in mine if each[0].source == source]
            judged("left out" if others else "start", rows, logs(rows, parameters, at, kept))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("stacks", nargs="*")
    parser.add_argument("--apart", default="")
    parser.add_argument("--step", type=int, default=1, help="of the rows to fit, every Nth")
    parser.add_argument("--leave-out", action="store_true", help="every source in turn")
    parser.add_argument("--cases", metavar="FILE", help="write the fitted rows' names there (catalog/fitted.toml)")
    parser.add_argument("--device", default="", help="only rows whose device matches")
    options = parser.parse_args()
    learn, judge = halves([row for row in read_rows(options.file) if re.search(options.device, row.text("gpu"))])
    if options.cases:
        Path(options.cases).write_text(cases(learn), encoding="utf-8")
        return
    if options.leave_out:
        leave_out(learn, judge, options.stacks or list(PARAMETERS), options.step)
        return
    for stack in options.stacks or PARAMETERS:
        kept, parameters = Kept(), PARAMETERS[stack]
        mine = known([row for row in learn if stack_of(row) == stack and row.source != options.apart])[::options.step]
        other = known([row for row in judge if stack_of(row) == stack])
        print(f"{stack}: {len(mine)} rows to fit, {len(other)} that judge", flush=True)
        at = fit(mine, parameters, kept)
        judged("fitted", mine, logs(mine, parameters, at, kept))
        judged("unseen", other, logs(other, parameters, at, kept))
        for parameter, log in zip(parameters, at.tolist(), strict=True):
            print(f"  {parameter.path} = {parameter.value(log)}")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
    main()
