"""The requests of a log in any of its forms, one mapping of columns each."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct

from astrarium.errors import InputError

__all__ = ["FAILED", "Sent", "rows_of"]

Row = Mapping[str, Any]
FAILED: Row = MappingProxyType({})
LISTS: Mapping[str, Sequence[str]] = MappingProxyType({
    "arrival": ("start_times", "request_timestamps"), "prompt": ("input_lens",), "output": ("output_lens",),
    "ttft": ("ttfts",)})
"""What the lists are that vLLM's and SGLang's bench_serving write with details; `itls` are their gaps."""
AIPERF: Mapping[str, str] = MappingProxyType({
    "prompt": "input_sequence_length", "output": "output_sequence_length", "ttft": "time_to_first_token",
    "tpot": "inter_token_latency", "latency": "request_latency"})
"""What the metrics of a record of AIPerf's profile_export.jsonl are."""
UNITS: Mapping[str, float] = MappingProxyType({"tokens": 1, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1, "s": 1})
SEED = 0
LEAST, MOST = 1e-9, 1e9     # of a rate and of burstiness


class Sent(Struct, frozen=True):
    """How requests were sent where a log has no times of that: the number at once (None: as `arrival` says), in
    words."""

    concurrency: int | None = None
    said: str = ""


def rows_of(name: str, text: str) -> tuple[list[Row], Sent]:
    """Requests, FAILED where there is no answer. Raises InputError for a text in none of the formats."""
    if not text.lstrip().startswith(("{", "[")):
        return list(_table(name, text)), Sent()
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    try:
        if isinstance(whole, dict) and all(isinstance(whole.get(each), list) for each in ("input_lens", "ttfts")):
            return _of_lists(name, whole)
        rows = [whole] if isinstance(whole, dict) else whole if isinstance(whole, list) else [
            json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise InputError(name, f"is not JSON ({str(error)[:80]})", expected="one request a line") from None
    if not all(isinstance(row, dict) for row in rows):
        raise InputError(name, "has an entry that is not an object", expected="{...} for each request")
    if any(row.keys() >= {"request_rate", "completed"} for row in rows):
        raise InputError(name, "has several results of bench_serving" if len(rows) > 1 else
                         "has totals of bench_serving, but no lists of its requests", expected="one result, written by "
                         "vllm bench serve --save-result --save-detailed, or SGLang's bench_serving --output-details")
    return [_flat(f"{name}, request {number}", row) for number, row in enumerate(rows, start=1)], Sent()


def _table(name: str, text: str) -> Iterator[Row]:
    """Rows of a CSV file."""
    reader = csv.reader(text.splitlines())
    try:
        header = [each.strip() for each in next(reader, [])]
        for place, each in enumerate(header):
            if each in header[:place]:
                raise InputError(f"{name}, line 1", f"column {each[:40]!r} is there twice",
                                 expected="one column of a name")
        for row in reader:
            if row and len(row) != len(header):
                raise InputError(f"{name}, line {reader.line_num}", f"{len(row)} values",
                                 expected=f"{len(header)}, as the header has")
            if row:
                yield dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise InputError(f"{name}, line {reader.line_num}", f"is not CSV ({error})",
                         expected="values with commas") from None


def _flat(where: str, row: Row) -> Row:
    """A record of AIPerf or inference-perf as columns; others are columns already."""
    try:
        if isinstance(row.get("metadata"), dict) and "metrics" in row:
            return _aiperf(row)
        if isinstance(row.get("info"), dict) and "start_time" in row:
            return _inference_perf(row)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        wrong = f"has no {str(error)[:60]} where its format has it" if isinstance(error, KeyError) else \
            f"has another type of value than its format ({str(error)[:60]})"
        raise InputError(where, wrong, expected="a record of AIPerf's profile_export.jsonl or inference-perf's "
                                                "per_request_lifecycle_metrics.json") from None
    return row


def _aiperf(row: Row) -> Row:
    metrics = row["metrics"]
    if row.get("error") or not metrics or row["metadata"].get("was_cancelled"):
        return FAILED
    found = {column: metrics[name]["value"] * UNITS[metrics[name]["unit"]] if name in metrics else None
             for column, name in AIPERF.items()}
    return {"arrival": row["metadata"]["request_start_ns"] * 1e-9, **found} if found.get("output") else FAILED


def _inference_perf(row: Row) -> Row:
    """The tokens that the server counts, where the client asked for them; the client's own are of the text, tokenized
    again."""
    info = row["info"]
    answer = info.get("response_metrics") or info
    usage, times, start = answer.get("server_usage") or {}, answer.get("output_token_times") or [], row["start_time"]
    output = usage.get("completion_tokens") or answer.get("output_tokens")
    if row.get("error") or not output:
        return FAILED
    later = {"ttft": times[0] - start, "latency": times[-1] - start} if times else {"latency": row["end_time"] - start}
    return {"arrival": start, "prompt": info["input_tokens"], "output": output, **later}


def _of_lists(name: str, whole: Row) -> tuple[list[Row], Sent]:
    """The requests of a result with lists, one of a kind for each."""
    lists = {field: next((each for each in columns if isinstance(whole.get(each), list)), None)
             for field, columns in LISTS.items()}
    known = {field: whole[column] for field, column in lists.items() if column}
    gaps = whole.get("itls")
    if not isinstance(gaps, list) or not all(isinstance(each, list) for each in gaps):
        raise InputError(f"{name}: itls", "is missing or no list of lists", expected="the gaps of each request")
    if "output" not in known:
        raise InputError(f"{name}: output_lens", "is missing", expected="the tokens of each answer")
    sizes = {**{column: len(whole[column]) for column in lists.values() if column}, "itls": len(gaps)}
    if len(set(sizes.values())) > 1:
        raise InputError(name, "lists of " + ", ".join(f"{size} {each}" for each, size in sizes.items()),
                         expected="as many of each")
    sent = Sent()
    if "arrival" not in known:
        known["arrival"], sent = _sent(name, whole, len(gaps))
    try:        # a gap may be of several tokens
        known["tpot"] = [math.fsum(each) / max(1, answer - 1) if each else math.nan
                         for each, answer in zip(gaps, known["output"], strict=True)]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name}: itls", "has a gap that is not a number", expected="seconds") from None
    rows = [dict(zip(known, values, strict=True)) for values in zip(*known.values(), strict=True)]
    return [row if row["output"] else FAILED for row in rows], sent


def _sent(name: str, whole: Row, count: int) -> tuple[list[float], Sent]:
    """Arrivals by the client's settings, without times of them (vLLM of 2025, SGLang). vLLM stretches what it draws
    so that all requests take count / rate."""
    where, times = f"{name}: start_times", "the times at which requests were sent"
    if "request_rate" not in whole or whole.get("ramp_up_strategy"):
        raise InputError(where, "is missing", expected=f"{times}, or a constant request_rate")
    rate, users, bursts = _above(name, whole, "request_rate"), whole.get("max_concurrency"), 1.0
    if users is not None and (type(users) is not int or users < 1):
        raise InputError(f"{name}: max_concurrency", f"{str(users)[:40]!r} is no number of requests",
                         expected="a whole number from 1, or null")
    if math.isinf(rate):
        how = f"a closed loop of {users:,}, in the order of the file" if users else "all at once"
        return [0.0] * count, Sent(users, f"requests are sent as its settings say: {how}")
    if whole.get("burstiness") is not None:
        bursts = min(_above(name, whole, "burstiness"), MOST)
    moments = np.cumsum(np.random.Generator(np.random.PCG64(SEED)).gamma(bursts, 1.0, count))
    arrivals: list[float] = (moments * (count / rate / (moments[-1] or 1.0))).tolist() if count else []
    capped = f"; no more than {users:,} at once is not modelled" if users else ""
    return arrivals, Sent(None, f"the times at which requests were sent are drawn ({rate:g} per second, burstiness "
                                f"{bursts:g}){capped}")


def _above(name: str, whole: Row, key: str) -> float:
    """A setting above 0 ("inf": as fast as can be)."""
    try:
        found = math.nan if isinstance(whole[key], bool) else float(whole[key])
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not (LEAST <= found <= MOST or found == math.inf):
        raise InputError(f"{name}: {key}", f"{str(whole[key])[:40]!r} is impossible",
                         expected=f"a number from {LEAST:g} to {MOST:g}, or inf")
    return found
