"""What came of a stream of requests, as the tables that `astrarium serve` prints."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from astrarium.cost.interval import Interval
from astrarium.report.tables.serving_fleet import fleet_lines
from astrarium.report.tables.table import Table, count_text
from astrarium.serving import LONGER, Objective, Policy, Served
from astrarium.serving.outcome import PERCENTILES, PS, mean_of, percentiles
from astrarium.units import format_time

__all__ = ["interval_note", "interval_plain", "serving_notes", "serving_plain", "serving_tables", "written_requests"]

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
    user = f", {count_text(PS / tpot)} for each user" if tpot else ""
    lines = [("requests", f"{len(served.finish):,}", f"in {served.span:,.4g} s"),
             ("steady state" if window else "whole run", f"{chosen:,}", _when(served) if window else _unsteady(served)),
             ("requests", f"{rates['requests_per_s']:,.4g}", "per s"),
             ("output tokens", f"{rates['output_tokens_per_s']:,.5g}",
              f"per s; {count_text(rates['output_tokens_per_s_per_npu'])} for each of {served.npus:,} NPUs"
              + user),
             ("steps", f"{served.steps:,}", f"{served.tokens / max(1, served.steps):,.4g} tokens each; busy "
              f"{100 * served.busy_share:.1f} % of the time"),
             ("step times", "", served.how), ("preemptions", f"{served.preemptions:,}", ""), *fleet_lines(served)]
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
    rows = [(format_time(until), f"{waiting:,.4g}", f"{running:,.4g}", f"{100 * used:.1f} %")
            for until, waiting, running, used in _slices(served)]
    if rows:
        yield Table("over time (means)", "<>>>", rows, ("until", "waiting", "running", "cache used"))


def serving_plain(served: Served, slower: Served | None, objective: Objective, notes: Sequence[str]
                  ) -> dict[str, object]:
    """All that the tables and notes say, and the figures of the whole run, as plain values with units in the keys.
    `slower`: the run with longer steps, where there was one."""
    chosen = served.within(served.window)
    found: dict[str, object] = {
        **served.summary(objective), "saturated": served.saturated, "steady": served.window is not None,
        "tokens_per_step": served.tokens / max(1, served.steps), "step_times": served.how, "servers": served.servers,
        "npus": served.npus, "groups": served.hits(), "whole_run": served.summary(objective, whole=True),
        "over_time": [dict(zip(("until_ns", "waiting_mean", "running_mean", "cache_use_mean"), row, strict=True))
                      for row in _slices(served)], "notes": list(notes)}
    if objective != Objective():
        found["good_requests"] = int((served.good(objective) & chosen).sum())
    if slower is not None:
        found["saturated_with_longer_steps"] = slower.saturated
    return found


def _unsteady(served: Served) -> str:
    if served.saturated:
        return "saturated, so there is no steady state: figures hold warm-up and drain"
    return "too short for a steady state: figures hold warm-up and drain"


def _when(served: Served) -> str:
    assert served.window is not None
    start = int(served.arrival.min())
    return (f"that arrived from {(served.window.start - start) / PS:,.4g} s to {(served.window.end - start) / PS:,.4g}"
            " s: figures are of these (warm-up and drain cut)")


def _slices(served: Served) -> Iterator[tuple[float, float, float, float]]:
    """ns until which, requests waiting, running, and share of the cache in use: means over time in equal parts of
    the span (a sample holds until the next); nothing of a run with few samples."""
    samples = served.samples
    if samples is None or len(samples) < LEAST:
        return
    edges = np.linspace(int(samples[0, 0]), int(samples[-1, 0]), SLICES + 1)
    for low, high in itertools.pairwise(edges):
        lasts = np.minimum(samples[1:, 0], high) - np.maximum(samples[:-1, 0], low)
        if (lasts > 0).any():
            means = np.average(samples[:-1], axis=0, weights=np.maximum(lasts, 0))
            yield ((high - float(served.arrival.min())) / 1000, float(means[1]), float(means[2]),
                   float(means[3]) / max(1, served.blocks))


def serving_notes(served: Served, slower: Served | None, policy: Policy, stack: str | None) -> Iterator[str]:
    """What a reader has to know of the figures: saturation, and what was assumed."""
    yield from served.notes
    if stack is not None:
        yield f"policy: defaults of stack {stack}"
    if not served.saturated and served.window is None:
        more = f"; such a stream needs at least {served.fewest:,} requests, this one has {len(served.finish):,}"
        yield ("too short for a steady state: warm-up and drain are in all figures"
               + (more if served.fewest > len(served.finish) else ""))
    if served.saturated:
        yield ("saturated: requests come faster than they are answered; latencies grow with the length of the stream, "
               "and have no effect without it")
    elif slower is not None and slower.saturated:
        yield (f"near saturation: with steps {100 * (LONGER - 1):.0f} % longer requests pile up, so latencies are no "
               "better known than step times to that share")
    free = [name for name, value in (("overhead (host time a step)", policy.overhead),
                                     ("sequence_overhead (host time a sequence)", policy.sequence_overhead),
                                     ("stream_offset (to and from the client)", policy.stream_offset)) if not value]
    if stack is None and not policy.graphs and policy.launch is None:
        free.append("launch (host time to launch a kernel outside CUDA graphs)")
    if free:
        yield f"assumed to be 0: policy's {', '.join(free)}"


def interval_note(served: Served, within: Interval) -> str:
    """Where measured TPOT of such designs lies, and on what that rests."""
    around = _around(served, within)
    if around is None:
        return f"TPOT is {within.words}"
    return f"mean TPOT, expected if measured: {format_time(around[0])} to {format_time(around[1])}, {within.words}"


def interval_plain(served: Served, within: Interval) -> dict[str, object]:
    """As JSON."""
    low, high = _around(served, within) or (None, None)
    return {"interval": {"tpot_mean_low_ns": low,
                         "tpot_mean_high_ns": high, "validated": within.validated,
                         "words": within.words}}


def _around(served: Served, within: Interval) -> tuple[float, float] | None:
    """ns, of the mean TPOT."""
    tpot = served.latencies(served.window).get("tpot")
    return None if tpot is None else within.around(mean_of(*tpot) / 1000)


def written_requests(served: Served) -> str:
    """CSV: a line for each request."""
    cached = np.zeros(len(served.prompt), np.int64) if served.cached is None else served.cached
    head = "request,arrival_s,prompt,output,cached,preempted,ttft_ms,tpot_ms,latency_ms,group"
    fleet = [] if len(served.parts) < 2 or served.instance is None or served.retried is None else [
        ("instance", served.instance.tolist()), ("retried", served.retried.tolist())]
    head = ",".join([head, *(name for name, _ in fleet)]) + "\n"
    groups = [""] * len(cached) if served.group is None else [served.groups[each] if each >= 0 else ""
                                                              for each in served.group.tolist()]
    columns = ((served.arrival - served.arrival.min()).tolist(), served.prompt.tolist(), served.output.tolist(),
               cached.tolist(), served.preempted.tolist(), served.ttft.tolist(), served.tpot.tolist(),
               served.latency.tolist(), groups, *(values for _, values in fleet))
    text = io.StringIO(head)
    text.seek(0, io.SEEK_END)
    writer = csv.writer(text, lineterminator="\n")
    for number, row in enumerate(zip(*columns, strict=True)):
        (arrival, *counts, ttft, tpot, latency, group), rest = row[:9], row[9:]
        per_token = "" if math.isnan(tpot) else f"{tpot / 1e9:.6f}"
        writer.writerow((number, f"{arrival / PS:.9f}", *counts, f"{ttft / 1e9:.6f}", per_token,
                         f"{latency / 1e9:.6f}", group, *rest))
    return text.getvalue()


def _row(name: str, values: npt.NDArray[np.generic], counts: npt.NDArray[np.int32] | None) -> tuple[str, ...]:
    """Mean and percentiles of times in ps, each of them `counts` times."""
    each = (mean_of(values, counts), *percentiles(values, PERCENTILES, counts))
    return (name, *(format_time(value / 1000) for value in each))
