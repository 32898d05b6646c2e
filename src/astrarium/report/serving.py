"""What came of a stream of requests, as the tables that `astrarium serve` prints."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from astrarium.report.tables import Table
from astrarium.serving import LONGER, Objective, Policy, Served
from astrarium.serving.outcome import PERCENTILES, PS, mean_of, percentiles
from astrarium.units import format_time

__all__ = ["serving_notes", "serving_tables", "written_requests"]

NO_WINDOW = "too short for a steady state: figures hold warm-up and drain"


NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "latency": "latency"}
SLICES = 8
LEAST = 64      # samples
GROUPS = 8


def serving_tables(served: Served, objective: Objective, title: str) -> Iterator[Table]:
    """Latencies, rates, the prefix cache, and the servers over time."""
    window = served.window
    latencies = served.latencies(window)
    rows: list[tuple[str, ...]] = [_row(NAMES[name], *each) for name, each in latencies.items()]
    yield Table(title, "<>>>>", rows, ("", "mean", *(f"p{share}" for share in PERCENTILES)))
    rates = served.rates(window, objective)
    chosen = int(served.within(window).sum())
    tpot = mean_of(*latencies["tpot"]) if "tpot" in latencies else 0.0
    lines = [("requests", f"{len(served.finish):,}", f"in {served.span:,.4g} s"),
             ("steady state" if window else "whole run", f"{chosen:,}", _when(served) if window else NO_WINDOW),
             ("requests", f"{rates['requests_per_s']:,.4g}", "per s"),
             ("output tokens", f"{rates['output_tokens_per_s']:,.5g}",
              f"per s; {rates['output_tokens_per_s_per_npu']:,.4g} for each of {served.npus:,} NPUs, "
              f"{PS / max(1, tpot):,.4g} for each user"),
             ("steps", f"{served.steps:,}", f"{served.tokens / max(1, served.steps):,.4g} tokens each; busy "
              f"{100 * served.busy_share:.1f} % of the time"),
             ("step times", "", served.how), ("preemptions", f"{served.preemptions:,}", "")]
    if objective != Objective():
        good = int((served.good(objective) & served.within(window)).sum())
        lines.append(("good requests", f"{good:,}",
                      f"{100 * rates['good_share']:.1f} %; goodput {rates['goodput_per_s']:,.4g} per s"))
    yield Table("served", "<><", lines)
    hits = served.hits()
    if hits["all"][2]:
        shown = dict(sorted(hits.items(), key=lambda each: -each[1][1])[:GROUPS + 1])
        rows = [(name, f"{count:,}", f"{prompts:,}", f"{100 * cached / max(1, prompts):.1f} %")
                for name, (count, prompts, cached) in shown.items()]
        yield Table("prefix cache", "<>>>", rows, ("group", "requests", "prompt tokens", "cached"))
    if served.samples is not None and len(served.samples) >= LEAST:
        yield Table("over time (means)", "<>>>", list(_slices(served)), ("until", "waiting", "running", "cache used"))


def _when(served: Served) -> str:
    assert served.window is not None
    start = int(served.arrival.min())
    return (f"that arrived from {(served.window.start - start) / PS:,.4g} s to {(served.window.end - start) / PS:,.4g}"
            " s: figures are of these (warm-up and drain cut)")


def _slices(served: Served) -> Iterator[tuple[str, ...]]:
    """Means over time in equal parts of the span; a sample holds until the next."""
    samples = served.samples
    assert samples is not None
    start, end = int(samples[0, 0]), int(samples[-1, 0])
    edges = np.linspace(start, end, SLICES + 1)
    for low, high in itertools.pairwise(edges):
        lasts = np.minimum(samples[1:, 0], high) - np.maximum(samples[:-1, 0], low)
        if (lasts > 0).any():
            means = np.average(samples[:-1], axis=0, weights=np.maximum(lasts, 0))
            yield (format_time((high - float(served.arrival.min())) / 1000), f"{means[1]:,.4g}", f"{means[2]:,.4g}",
                   f"{100 * means[3] / max(1, served.blocks):.1f} %")


def serving_notes(served: Served, slower: Served | None, policy: Policy, stack: str | None) -> Iterator[str]:
    """What a reader has to know of the figures: saturation, and what was assumed."""
    if stack is not None:
        yield f"policy: what the serving file leaves out is that of stack {stack}"
    if served.saturated:
        yield ("saturated: requests come faster than they are answered; latencies grow with the length of the stream, "
               "and say nothing beside it")
    elif slower is not None and slower.saturated:
        yield (f"near saturation: with steps {100 * (LONGER - 1):.0f} % longer requests pile up, so latencies are no "
               "better known than step times to that share")
    free = [name for name, value in (("overhead (host time a step)", policy.overhead),
                                     ("sequence_overhead (host time a sequence)", policy.sequence_overhead),
                                     ("stream_offset (to and from the client)", policy.stream_offset)) if not value]
    if free:
        yield f"assumed to be 0: policy's {', '.join(free)}"


def written_requests(served: Served) -> str:
    """CSV: a line for each request."""
    cached = np.zeros(len(served.prompt), np.int64) if served.cached is None else served.cached
    head = "request,arrival_s,prompt,output,cached,preempted,ttft_ms,tpot_ms,latency_ms,group\n"
    groups = [""] * len(cached) if served.group is None else [served.groups[each] if each >= 0 else ""
                                                              for each in served.group.tolist()]
    columns = ((served.arrival - served.arrival.min()).tolist(), served.prompt.tolist(), served.output.tolist(),
               cached.tolist(), served.preempted.tolist(), served.ttft.tolist(), served.tpot.tolist(),
               served.latency.tolist(), groups)
    text = io.StringIO(head)
    text.seek(0, io.SEEK_END)
    writer = csv.writer(text, lineterminator="\n")
    for number, (arrival, *counts, ttft, tpot, latency, group) in enumerate(zip(*columns, strict=True)):
        per_token = "" if math.isnan(tpot) else f"{tpot / 1e9:.6f}"
        writer.writerow((number, f"{arrival / PS:.9f}", *counts, f"{ttft / 1e9:.6f}", per_token,
                         f"{latency / 1e9:.6f}", group))
    return text.getvalue()


def _row(name: str, values: npt.NDArray[np.generic], counts: npt.NDArray[np.int32] | None) -> tuple[str, ...]:
    """Mean and percentiles of times in ps, each of them `counts` times."""
    each = (mean_of(values, counts), *percentiles(values, PERCENTILES, counts))
    return (name, *(format_time(value / 1000) for value in each))
