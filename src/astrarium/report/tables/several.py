"""Several runs as one table, a column each, and as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Any, TypeVar

from msgspec import Struct

from astrarium.cost import FIGURES, figures
from astrarium.design import Design
from astrarium.network.config import Network
from astrarium.report.tables.alike import alike
from astrarium.report.tables.collectives import collective_kinds, collectives_side_by_side
from astrarium.report.tables.summary import PARTS, makespan_words
from astrarium.report.tables.table import Table
from astrarium.result import Result
from astrarium.units import format_bytes, format_rate, format_time

__all__ = ["Run", "several_plain", "several_sentence", "several_tables", "sum_per_npu"]

T = TypeVar("T")


class Run(Struct, frozen=True, dict=True):
    """A design and its run, what it is called, and figures that are asked for beyond the usual ones."""

    name: str
    design: Design
    result: Result
    more: Sequence[str] = ()

    @cached_property
    def parts(self) -> dict[str, int]:
        """ps of the rank that finishes last, by `PARTS`."""
        return self.result.spent

    @cached_property
    def figures(self) -> dict[str, float]:
        """Figures of cost and training."""
        return figures(self.design, self.result, self.more)


def several_tables(runs: Sequence[Run]) -> Iterator[Table]:
    """Makespans, what the time of the last rank goes into, memory, figures; then the collectives of each run."""
    first = runs[0].result.at_least_ps
    rows = [["makespan", *(makespan_words(run.result) for run in runs)],
            ["of the first", *(_of_first(run.result.at_least_ps, first) for run in runs[:1]),
             *("equal" if alike(run.result.at_least_ps, first) else _of_first(run.result.at_least_ps, first)
               for run in runs[1:])]]
    rows += [[f"  {words}", *(format_time(run.parts[name] / 1000) for run in runs)] for name, words in PARTS
             if name in ("compute", "exposed_comm", "bubble") or any(run.parts[name] for run in runs)]
    rows.append(["peak memory", *("unknown" if run.result.peak_memory is None else
                                  format_bytes(float(run.result.peak_memory)) for run in runs)])
    names = [name for name in FIGURES if any(name in run.figures for run in runs)]
    rows += [[FIGURES[name].label or name, *(FIGURES[name].shown(run.figures[name]) if name in run.figures else ""
                                             for run in runs)] for name in names]
    rows += _dims([run.design.network for run in runs])
    links = [run.result.busiest_link() for run in runs]
    if any(links):
        rows.append(["busiest link", *("" if link is None else f"{100 * link[1]:.1f} %" for link in links)])
    yield Table("runs (parts: of the rank that finishes last)", "<" + ">" * len(runs), rows,
                ["", *(run.name for run in runs)])
    collectives = collectives_side_by_side({run.name: run.result for run in runs})
    if collectives is not None:
        yield collectives


def _dims(networks: Sequence[Network]) -> Iterator[list[str]]:
    """The dims in which networks differ, each with the sum over an NPU's links: `bandwidth` of a design is that of one
    link."""
    dims = [[f"{dim.tag} {dim.npus:,}: {format_rate(dim.npu_bandwidth)}" for dim in each.flat]
            if each.fabric is None else [f"fabric of {each.npus:,} NPUs"] for each in networks]
    return sum_per_npu(dims, lambda column: len(set(column)) > 1, str)


def sum_per_npu(columns: Sequence[Sequence[T]], differ: Callable[[Sequence[T | None]], bool],
                cell: Callable[[T], str]) -> Iterator[list[str]]:
    """A row for each dim of several networks that `differ` chooses: a cell each, empty where a network has no such
    dim (None)."""
    for place, column in enumerate(zip_longest(*columns)):
        if differ(column):
            yield [f"dim {place}, sum per NPU", *("" if each is None else cell(each) for each in column)]


def _of_first(ps: int, first: int) -> str:
    return f"{ps / first:.3f}x" if first else ""


def several_sentence(runs: Sequence[Run]) -> str:
    """Which design is the fastest, and by how much."""
    first, *others = sorted(runs, key=lambda run: run.result.at_least_ps)
    ties = [run for run in others if alike(run.result.at_least_ps, first.result.at_least_ps)]
    took = makespan_words(first.result)
    if len(ties) == len(others):
        return f"All take {took}, equal within rounding."
    ratio = others[-1].result.at_least_ps / first.result.at_least_ps if first.result.at_least_ps else math.inf
    longer = f"{100 * (ratio - 1):.3g} % longer" if ratio < 2 else f"{ratio:,.3g} times as long"
    slow, fast = (run.result.at_least_ps > run.result.makespan_ps for run in (others[-1], first))
    longer = "at least " * (slow and not fast) + longer
    said = f"{' and '.join(run.name for run in (first, *ties))}: {took}"
    return (f"The fastest is {said}" if not ties else f"The fastest are {said}, equal within rounding") + \
        f"; the slowest, {others[-1].name}, takes {longer}."


def several_plain(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """What `--json` prints: a row per design."""
    return [{"design": run.name, "makespan_ns": run.result.makespan_ps / 1000,
             "at_least_ns": run.result.at_least_ps / 1000,
             "parts_ns": {name: ps / 1000 for name, ps in run.parts.items()},
             "peak_memory_bytes": run.result.peak_memory, "figures": run.figures,
             "collectives": [{"op": each.op, "ranks": each.ranks, "payload_bytes": each.payload, "count": each.count,
                              "mean_ns": each.mean_ns, "how": each.how} for each in collective_kinds(run.result)]}
            for run in runs]
