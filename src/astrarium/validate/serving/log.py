"""Per-request logs of one engine: when each request came, its tokens, its first token and its last."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.errors import InputError

__all__ = ["Log", "read_log"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
NAMES: Mapping[str, Sequence[str]] = MappingProxyType({
    "arrival": ("queued_ts", "arrival", "arrival_time", "start_time", "request_start_time", "timestamp"),
    "prompt": ("prompt", "prompt_tokens", "input_tokens", "input_len", "prompt_len", "prompt_toks", "input_toks"),
    "output": ("output", "output_tokens", "output_len", "generated_tokens", "completion_tokens", "output_toks"),
    "ttft": ("ttft", "ttft_s"), "ttft_ms": ("ttft_ms",), "tpot": ("tpot", "tpot_s"), "tpot_ms": ("tpot_ms",),
    "latency": ("latency", "latency_s", "e2e", "e2e_latency", "e2el"), "latency_ms": ("latency_ms", "e2e_ms"),
    "first": ("first_token_ts",), "last": ("last_token_ts",)})
"""What a column is -> its names in logs, in seconds unless they say ms; `first` and `last`: when these tokens
came, by the clock of `arrival` (vLLM's RequestStateStats: that of its engine, which queues requests at `queued_ts`)."""
LISTS = {"start_times": "arrival", "input_lens": "prompt", "output_lens": "output", "ttfts": "ttft"}
"""Columns of the JSON that vLLM's and SGLang's bench_serving write with details; `itls` are their gaps."""
LARGEST = 1 << 28


class Log(Struct, frozen=True, eq=False):
    """Requests in order of arrival [requests]: seconds of arrival from the first, tokens, seconds to the first token,
    and per token after it (NaN of answers of one token)."""

    arrival: F64
    prompt: I64
    output: I64
    ttft: F64
    tpot: F64


def read_log(path: str | os.PathLike[str]) -> Log:
    """A log: CSV with a header, JSON Lines with one request a line, or the JSON of bench_serving with details. Raises
    InputError with the file, and the columns that it would need."""
    name = os.fspath(path)
    try:
        data = Path(name).read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise InputError(name, f"cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError:
        raise InputError(name, "is not UTF-8", expected="CSV, JSON Lines or JSON") from None
    if len(data) > LARGEST:
        raise InputError(name, f"is larger than {LARGEST} bytes", expected="a smaller log")
    rows = list(_rows(name, text))
    if not rows:
        raise InputError(name, "has no requests", expected="one a line")
    return _log(name, rows)


def _rows(name: str, text: str) -> Iterable[Mapping[str, Any]]:
    if not text.lstrip().startswith("{"):
        return csv.DictReader(text.splitlines())
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    try:
        if isinstance(whole, dict) and all(isinstance(whole.get(each), list) for each in ("input_lens", "ttfts")):
            return _of_lists(whole)
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise InputError(name, f"is not JSON ({str(error)[:80]})", expected="one request a line") from None


def _of_lists(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The requests of a result with lists, one of a kind for each; those without an answer are left out."""
    known = {field: whole[column] for column, field in LISTS.items() if isinstance(whole.get(column), list)}
    known["tpot"] = [float(np.mean(each)) if each else float("nan") for each in whole.get("itls", [])]
    rows = [dict(zip(known, values, strict=True)) for values in zip(*known.values(), strict=False)]
    return [row for row in rows if row["output"]]


def _log(name: str, rows: Sequence[Mapping[str, Any]]) -> Log:
    columns = {field: next((each for each in names if each in rows[0]), None) for field, names in NAMES.items()}

    def column(field: str) -> F64 | None:
        found = columns[field]
        if found is None:
            return None
        try:
            return np.array([float(row[found]) for row in rows], np.float64)
        except (TypeError, ValueError, KeyError):
            raise InputError(f"{name}: {found}", "is not a number in every request", expected="a number") from None

    def seconds(field: str) -> F64 | None:
        found, more = column(field), column(f"{field}_ms")
        return found if found is not None else None if more is None else more / 1e3

    prompt, output, arrival = column("prompt"), column("output"), column("arrival")

    def since(field: str, moment: str) -> F64 | None:
        found, at = seconds(field), column(moment)
        return found if at is None or arrival is None else at - arrival

    ttft = since("ttft", "first")
    for field, values in (("prompt", prompt), ("output", output), ("ttft", ttft), ("arrival", arrival)):
        if values is None:
            raise InputError(f"{name}: {field}", "is not among the columns",
                             expected="one of " + ", ".join(NAMES[field]))
    assert prompt is not None
    assert output is not None
    assert ttft is not None
    assert arrival is not None
    tpot, latency = seconds("tpot"), since("latency", "last")
    if tpot is None and latency is None:
        raise InputError(f"{name}: tpot", "is not among the columns", expected="tpot, or latency")
    if tpot is None:
        assert latency is not None
        tpot = np.where(output > 1, (latency - ttft) / np.maximum(output - 1, 1), np.nan)
    if not (np.isfinite(arrival).all() and (prompt >= 1).all() and (output >= 1).all()):
        raise InputError(name, "has a request without arrival or tokens", expected="seconds, and at least 1 token each")
    order = np.argsort(arrival, kind="stable")
    return Log((arrival - arrival.min())[order], prompt.astype(np.int64)[order], output.astype(np.int64)[order],
               ttft[order], tpot[order])
