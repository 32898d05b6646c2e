"""Write docs/background/validation.md, validation_worst.md and catalog/intervals.toml from measured rows.

usage: validation_page.py ROWS.csv... [--left-out LOG] [--intervals]

LOG is what `fit_stacks.py ROWS.csv --leave-out` printed; it goes to catalog/left_out.toml. Without `--intervals` the
catalog's intervals stay as they are.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from astrarium.catalog import load
from astrarium.cost.interval import ANYWHERE, FEWEST, interval_of
from astrarium.report.tables.validation import interval_table
from astrarium.validate.intervals import intervals
from astrarium.validate.predict import NotPredictable, Prediction
from astrarium.validate.rows import Row, read_rows
from astrarium.validate.score import Score, scores
from astrarium.validate.verdict import Validation, rivals, verdict

ROOT = Path(__file__).resolve().parent.parent
PAGE, TABLE = ROOT / "docs/background/validation.md", ROOT / "src/astrarium/catalog/intervals.toml"
WORST_PAGE = PAGE.with_name("validation_worst.md")
RECORD = ROOT / "src/astrarium/catalog/left_out.toml"
WORST = 14
LEFT_OUT = r"^(?:stack (\S+)|  (left out|start  ) (.{44}) +(\d+) rows: median +([0-9.]+) % p90 +([0-9.]+).*)$"
CAUSES = (
    (r"hf-(821|1003|1130|781)$", "a degraded link: the row's note has that run's all-reduce far below others'"),
    (r"hf-(1158|1295|1219|668|403)$", "data parallelism over many hosts: in that cluster the rate of all-reduces fell "
                                      "with the number of GPUs (12 GB/s at 512 by the row's note)"),
    (r"hf-1543$", "four times its neighbours; cause unknown"),
    (r"mpt-.*-h100$", "FSDP's own work (flattening, casts of weights) where a micro-batch has few tokens"),
    (r"vt-15$", "64 samples a micro-batch fill the memory: allocation is probably retried"),
    (r"vt-21$", "tensor parallelism over two hosts; the source does not say how many ports a host has"),
    (r"vt-(41|43|46|47|48|80|45|82)$", "39.1B on tp 2 or 4: 45 GB of states leave little memory; allocation is "
                                       "probably retried"),
)
MORE = "## More\n\n- [Validation: the largest errors](validation_worst.md)\n"
WORST_HEAD = """# Validation: the largest errors

Written by `tools/validation_page.py`, as [validation](validation.md) is.
"""
HEAD = """# Validation: measured rows and what Astrarium predicts for them

Written by `tools/validation_page.py`. `astrarium validate FILE.csv` says the same of any rows with these columns.

What was fitted on what: devices (kernels) on microbenchmarks alone; collectives on tables of NCCL and nccl-tests;
stacks on the 1st, 3rd, 5th, ... row of each source below that ran on A100 or H100 ("fitted"). No fit has looked at
the other rows ("unseen"): they judge. Not all of the judging is blind: after a look at judging rows it was decided to
split Megatron-LM into two stacks and to set `tp_async` (Korthikanti) and `stage_balance` (nanotron), and Korthikanti's
stack has two constants from two rows, so it meets these. There is one set of constants per stack and version, none per
row, model or parallelism (`catalog/stacks.toml`, `tools/fit_stacks.py`). Rows that do not state model, parallelism,
batch and device are scored apart and are in no figure below. Errors are relative errors of the step time; bias is
their mean. "Trees" are boosted regression trees on the columns of the rows, fitted on the same half, or on all other
sources. Rows of PyTorch FSDP are in `benchmarks/data/fsdp.csv`: MosaicML's tables in bf16 less sequences over 8,192
and models below 1B (attention there is Triton's of 2023, which no table of kernels has), and what torchtitan prints for
settings that we have; which rows count, and that every second one judges, was said before any was predicted. torchtitan
is in no fit. That MosaicML's A100 rows (PyTorch 1.13) and H100 rows (2.x) have a stack each, and which constants these
have, was decided after a look at all of them. nemo, nemo-24, fsdp and fsdp-1 were fitted again when products lost the
casts that tables' rows contain and H100 and H200 got sustained clocks, on the same rows and with 3, 2, 2 and 2
constants in place of 5, 2, 5 and 5. After a look at judging rows it was decided that nemo keeps its older constants
where no clock is known, and that nemo-24's factor on products stays within 1 % of the clock.
Rows of MLPerf Training are in `benchmarks/data/mlperf.csv` ([how they were taken](../guides/validate.md)). No fit has
them. The rows, the rule for the step time and the stack of each row were fixed before any was predicted.
"""
OUTSIDE = """An interval says something of designs like the rows that it is made of. `catalog/intervals.toml` has their
settings: dense or MoE, formats of products (16 bits are bf16), stages of ZeRO (a single replica has none),
recomputation, which of tp, cp and pp are above 1; and their ranges: the least and the most hosts and tokens (per step
and NPU). A value that fewer than three rows have does not count. A design outside on one axis or more is
*extrapolated*. So is one on a device on which its stack has fewer than ten unseen rows; this counts as one axis, and
the interval is that of the stack's rows on all devices. Both ends of an extrapolated interval go further out: the lower
one is divided, the upper one multiplied by

- {ranges:.2f} outside ranges alone (hosts, tokens), or on another device,
- {settings:.2f} where a setting is among the axes.

On more than {most} axes at once there is no interval.

Where these numbers are from (`tools/extrapolation.py`): a regime is a part of a stack's rows, such as one format, one
stage of ZeRO, or the half with the fewest hosts. The stack's constants are fitted again on the regime's fitted rows,
the interval is made of its unseen ones, and all rows of the stack outside the regime judge it, on one axis or on two or
three at once. Unseen rows on devices without fitted rows are judged by those on the others. Each number is the least,
in whole percent, with which 80 % of the rows lie within in 80 % of the regimes; every stack has the same weight. No
number was chosen for a stack, a regime or a row. More axes at once did not ask for more. "By the others": the mean
share of rows within, with the number that the regimes of the other stacks ask for. Of MoE there is one row, which makes
no regime: that it is a setting like others is an assumption. The second table says which regimes stay under 80 %.
"""
INTERVALS = """Each stack on each device has an 80 % interval of measured over predicted step time (conformal, from the
unseen rows; `catalog/intervals.toml`). Designs whose gradients are reduced over 16 hosts or more have one of their own
where there are rows enough. Here each row is judged by the interval of the others. "expected": the number of rows
within in 95 of 100 sets, if 80 % is right. The score is the interval score of Gneiting and Raftery (2007) of the
logarithm of the ratio: width plus ten times the distance outside, lower is better; beside it that of one interval for
all rows, whatever their stack and device.
"""


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def percent(value: float, sign: str = "") -> str:
    return "-" if np.isnan(value) else f"{100 * value:{sign}.1f} %"


def by_source(found: Sequence[Prediction | NotPredictable]) -> dict[str, Score]:
    """Rows of one source on Blackwell are a line of their own: no stack was fitted there."""
    return {each.name: each for each in scores(found, name_of)}


def name_of(each: Prediction | NotPredictable) -> str:
    return row_name(each.row)


def row_name(row: Row) -> str:
    device = row.text("gpu")
    return f"{row.source} ({device})" if "B200" in device and "B200" not in row.source else row.source


def left_out(log: str, sources: Sequence[str]) -> str:
    """What `fit_stacks.py --leave-out` found, as a catalog file."""
    lines = ["# Errors (%) of a source's rows under constants that were fitted on the other sources of its stack",
             "# (others), or that are where the fit starts (fit_stacks.py --leave-out, validation_page.py in tools/)."]
    for stack, how, start, rows, median, p90 in re.findall(LEFT_OUT, log, re.MULTILINE):
        if stack:
            lines.append(f"\n[{stack}]")
            continue
        source = next(each for each in sources if each[:44].strip() == start.strip())
        others = "true" if how == "left out" else "false"
        lines.append(f'"{source}" = {{ rows = {rows}, median = {median}, p90 = {p90}, others = {others} }}')
    return "\n".join(lines) + "\n"


def page(made: Validation) -> str:
    """The page as Markdown."""
    unseen = [each for each, known in zip(made.found, made.fitted, strict=True) if not known]
    seen = [each for each, known in zip(made.found, made.fitted, strict=True) if known]
    first, second, out = by_source(unseen), by_source(seen), made.left_out
    rival = rivals([each.row for each in made.found], made.fitted, row_name)

    names = dict.fromkeys([*first, *second])

    def line(name: str) -> Sequence[str]:
        score, fitted = first.get(name), second.get(name)
        pair = f"{fitted.rows}: {percent(fitted.median)} / {percent(fitted.p90)}" if fitted and fitted.rows else "-"
        source = name.rpartition(" (")[0] if name.endswith("B200)") else name
        alone = out.get(name) or (out.get(source, "-") if source not in names else "-")
        if score is None:
            return name, "0", "-", "-", "-", "-", pair, alone, rival.get(name, "-")
        return (name, str(score.rows), percent(score.median), percent(score.p90), percent(score.bias, "+"),
                percent(score.coverage), pair, alone, rival.get(name, "-"))

    kept = interval_table(made.held)
    return "\n".join([HEAD, "## Per source\n", table(
        ("source", "unseen rows", "median", "p90", "bias", "coverage", "fitted: rows, median / p90",
         "source in no fit: median / p90", "trees without physics"), (line(name) for name in names)),
        "\n## Intervals\n", INTERVALS, table(kept.head, iter(kept.rows)),
        "\n### Outside the rows\n", *outside(made), MORE])


def worst_page(made: Validation) -> str:
    """The page of the largest errors as Markdown."""
    unseen = [each for each, known in zip(made.found, made.fitted, strict=True) if not known]
    return "\n".join([WORST_HEAD, "## Unseen rows with the largest errors\n", table(
        ("source", "case", "measured", "predicted", "error", "likely cause"), worst(unseen)),
        "\n## Not predictable\n", table(("source", "case", "because"), (
            (each.row.source, each.row.case, each.reason.replace("|", "/")) for each in made.found
            if isinstance(each, NotPredictable)))])


def outside(made: Validation) -> Iterator[str]:
    """What is said of designs outside the rows, and how it held for regimes of rows and for the rows outside."""
    record = load("extrapolation")
    yield OUTSIDE.format(**{name: 1 + kind["further"] for name, kind in record.items()},
                         most=max(kind["axes"] for kind in record.values()))
    yield table(("outside", "regimes", "of stacks", "rows within, as they are", "further out", "by the others"), (
        (name, str(len(kind["regimes"])), str(kind["stacks"]),
         *(percent(kind[share]) for share in ("plain", "held", "apart"))) for name, kind in record.items()))
    head = ("stack", "regime (one axis)", "rows of the interval", "rows outside", "within, as it is", "further out")
    yield table(head, (
        (each["stack"], each["regime"], str(each["inside"]), str(each["outside"]),
         percent(each["plain"]), percent(each["held"]))
        for kind in record.values() for each in kind["regimes"] if " and " not in each["regime"]))
    held = {True: list[bool](), False: list[bool]()}
    for each, fitted in zip(made.found, made.fitted, strict=True):
        if not isinstance(each, Prediction) or not each.meant.stated or each.row.kind != "training":
            continue
        within = interval_of(each.meant.design)
        around = within.around(1.0) if within is not None and within.extrapolated else None
        if around and each.values[0].metric != "mem_GiB":
            held[fitted].append(around[0] <= 1 / (1 + each.values[0].time_error) <= around[1])
    yield (f"Rows of this page whose own interval is extrapolated: {sum(held[False])} of {len(held[False])} unseen "
           f"ones and {sum(held[True])} of {len(held[True])} fitted ones are within.\n")


def worst(found: Sequence[Prediction | NotPredictable]) -> Iterator[Sequence[str]]:
    """The rows that are furthest off."""
    known = [each for each in found if isinstance(each, Prediction) and each.values and each.meant.stated]
    for each in sorted(known, key=lambda each: -abs(np.log1p(each.values[0].time_error)))[:WORST]:
        value = each.values[0]
        cause = next((text for pattern, text in CAUSES if re.match(pattern, each.row.case)), "unknown")
        yield (each.row.source, each.row.case, f"{value.measured:.4g} s", f"{value.predicted:.4g} s",
               percent(value.error, "+"), cause)


def catalog(made: Validation) -> str:
    """Intervals as a catalog file."""
    lines = ["# Measured over predicted step time: 80 % of a stack's unseen rows on a device lay between low and high",
             "# (tools/validation_page.py; conformal). Fewer than 10 rows: unvalidated. wide: of rows whose gradients",
             "# are reduced over 16 hosts or more, where there are 10 of both sorts. anywhere: a stack on all devices.",
             "# support: settings that the rows have; designs outside it have wider intervals (extrapolation.toml)."]
    for (stack, device), parts in intervals(zip(made.found, made.fitted, strict=True)).items():
        for name, each in zip(("", ".wide"), parts):
            lines.append(f"\n[{stack}.{device}{name}]\nrows = {each.rows}")
            lines.append(f"low = {each.low:.4f}\nhigh = {each.high:.4f}")
            if device == ANYWHERE:
                lines.append(f"devices = {json.dumps(each.devices)}")
            if each.rows >= FEWEST:
                settings = ", ".join(f"{axis} = {json.dumps(values)}" for axis, values in each.support.plain.items())
                lines.append(f"support = {{ {settings} }}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--left-out", metavar="LOG")
    parser.add_argument("--intervals", action="store_true")
    options = parser.parse_args()
    rows = [row for file in options.files for row in read_rows(file)]
    if options.left_out:
        log = Path(options.left_out).read_text(encoding="utf-8")
        RECORD.write_text(left_out(log, list(dict.fromkeys(row.source for row in rows))), encoding="utf-8")
    made = verdict(rows)
    PAGE.write_text(page(made), encoding="utf-8")
    WORST_PAGE.write_text(worst_page(made), encoding="utf-8")
    if options.intervals:
        TABLE.write_text(catalog(made), encoding="utf-8")


if __name__ == "__main__":
    main()
