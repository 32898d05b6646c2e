"""Per-request logs of one engine: when each request came, its tokens, its first token and its last."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import F64, I64
from astrarium.errors import InputError, nearest
from astrarium.serving.requests.files import seconds
from astrarium.validate.serving.log_formats import FAILED, Sent, rows_of

__all__ = ["Log", "log_notes", "read_log"]

NAMES: Mapping[str, Sequence[str]] = MappingProxyType({
    "arrival": ("queued_ts", "arrival", "arrival_s", "arrival_time", "start_time", "request_start_time", "timestamp"),
    "prompt": ("prompt", "prompt_tokens", "input_tokens", "input_len", "prompt_len", "prompt_toks", "input_toks"),
    "output": ("output", "output_tokens", "output_len", "generated_tokens", "completion_tokens", "output_toks"),
    "ttft": ("ttft", "ttft_s"), "ttft_ms": ("ttft_ms",), "tpot": ("tpot", "tpot_s"), "tpot_ms": ("tpot_ms",),
    "latency": ("latency", "latency_s", "e2e", "e2e_latency", "e2el"), "latency_ms": ("latency_ms", "e2e_ms"),
    "cached": ("cached", "cached_tokens", "num_cached_tokens"),
    "first": ("first_token_ts",), "last": ("last_token_ts",)})
"""What a column is -> its names in logs, in seconds unless they say ms; `first` and `last`: when these tokens
came, by the clock of `arrival` (vLLM's RequestStateStats: that of its engine, which queues requests at `queued_ts`)."""
LARGEST = 1 << 28
LONGEST = 4e6       # seconds of a run: times are whole picoseconds of 64 bits


class Log(Struct, frozen=True, eq=False):
    """Requests in order of arrival [requests]: seconds of arrival from the first, tokens, seconds to the first token,
    per token after it (NaN of answers of one token), and to the last. A time that the log does not have is NaN.
    `failed`: requests without an answer, which are left out. `cached`: share of the prompts' tokens that were in the
    prefix cache. `sent`: how requests were sent, where the log has no times of that."""

    arrival: F64
    prompt: I64
    output: I64
    ttft: F64
    tpot: F64
    latency: F64
    failed: int = 0
    cached: float = 0.0
    sent: Sent = Sent()

    def count(self, name: str) -> int:
        """How many requests have a time (`ttft`, `tpot`, `latency`)."""
        return int(np.isfinite(getattr(self, name)).sum())


def log_notes(path: str, log: Log) -> Iterator[str]:
    """What a comparison with a log leaves out."""
    if log.failed:
        yield f"{path}: {log.failed:,} requests have no answer (0 tokens), and are left out"
    if log.sent.said:
        yield f"{path}: has no start_times; {log.sent.said}"
    if log.cached:
        yield (f"{path}: {100 * log.cached:.1f} % of the prompts' tokens were cached; a log does not say which prompts "
               "are alike, so all of them are computed in the prediction")


def read_log(path: str | os.PathLike[str]) -> Log:
    """A log: CSV with a header, JSON or JSON Lines with a record for each request, or the JSON of bench_serving with
    details. Raises InputError with the file, and the columns that it would need."""
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
    rows, sent = rows_of(name, text)
    answered = [row for row in rows if row is not FAILED]
    if not answered:
        raise InputError(name, f"none of its {len(rows):,} requests has an answer" if rows else "has no requests",
                         expected="one a line")
    return replace(_log(name, answered, len(rows) - len(answered)), sent=sent)


class _Columns(Struct, frozen=True):
    """The columns of a log by what they are."""

    name: str
    rows: Sequence[Mapping[str, Any]]

    def of(self, field: str) -> F64 | None:
        """Numbers of one, in its own unit [requests]; a time that a request does not have is NaN."""
        names = [each for each in NAMES[field] if each in self.rows[0]]
        if not names:
            return None
        found = next((each for each in names if _number(self.rows[0][each]) is not None), names[0])
        read = _number if field != "arrival" else partial(_moment, f"{self.name}: {found}")
        values = [read(row.get(found)) for row in self.rows]
        for number, value in enumerate(values, start=1):
            if value is None:
                given = self.rows[number - 1].get(found)
                raise InputError(f"{self.name}, request {number}: {found}", f"{str(given)[:40]!r} is no number",
                                 expected=f"a number ({field})")
        return np.array(values, np.float64)

    def seconds(self, field: str) -> F64 | None:
        """Times of one in seconds."""
        found, more = self.of(field), self.of(f"{field}_ms")
        if found is not None and more is not None:
            raise InputError(f"{self.name}: {field}", "is there in seconds and in ms", expected="one of the two")
        return found if found is not None else None if more is None else more / 1e3

    def needed(self, field: str) -> F64:
        """Numbers without which there is no log. Raises InputError where there are none, or none that count."""
        found = self.of(field)
        if found is None:
            names = NAMES[field]
            raise InputError(f"{self.name}: {field}", f"is not among the columns ({', '.join(self.rows[0])[:80]})",
                             expected="one of " + ", ".join(names),
                             did_you_mean=next((guess for guess in (nearest(each, names) for each in self.rows[0])
                                                if guess), None))
        least, most = (0.0, 1e12) if field == "arrival" else (1.0, 1e7)
        wrong = np.flatnonzero(~((found >= least) & (found < most)) | ((found % 1 != 0) & (field != "arrival")))
        if wrong.size:
            raise InputError(f"{self.name}, request {int(wrong[0]) + 1}: {field}", f"{found[wrong[0]]:g} is impossible",
                             expected="seconds from 0" if field == "arrival" else "a whole number of at least 1 token")
        return found


def _number(value: object) -> float | None:
    """A number, NaN where nothing is written, or None."""
    if isinstance(value, bool) or not (value is None or isinstance(value, (int, float, str))):
        return None
    try:
        return float("nan") if value is None or value == "" else float(value)
    except (ValueError, OverflowError):
        return None


def _moment(where: str, value: object) -> float | None:
    """Seconds, as a number or a date and time."""
    return found if (found := _number(value)) is not None or not isinstance(value, str) else seconds(value, where)


def _log(name: str, rows: Sequence[Mapping[str, Any]], failed: int) -> Log:
    columns = _Columns(name, rows)
    prompt, output, arrival = columns.needed("prompt"), columns.needed("output"), columns.needed("arrival")

    def since(field: str, moment: str) -> F64 | None:
        at = columns.of(moment)
        return columns.seconds(field) if at is None else at - arrival

    ttft, tpot, latency = since("ttft", "first"), columns.seconds("tpot"), since("latency", "last")
    if ttft is None and tpot is None and latency is None:
        raise InputError(name, "has no measured time", expected="one of the columns " + "; ".join(
            ", ".join((*NAMES[each], *NAMES[f"{each}_ms"])) for each in ("ttft", "tpot", "latency")))
    nothing = np.full(len(rows), np.nan)
    ttft, latency = (nothing if each is None else each for each in (ttft, latency))
    _possible(name, ttft, tpot, latency)
    spread = (latency - ttft) / np.maximum(output - 1, 1)
    tpot = np.where(output > 1, spread if tpot is None else np.where(np.isnan(tpot), spread, tpot), np.nan)
    if not any(np.isfinite(each).any() for each in (ttft, tpot, latency)):
        raise InputError(name, "has no time that can be compared", expected="ttft or latency in some request, or tpot "
                         "of an answer of two and more tokens")
    cached = columns.of("cached")
    order = np.argsort(arrival, kind="stable")
    if (span := float(np.ptp(arrival))) >= LONGEST:
        raise InputError(f"{name}: arrival", f"first and last are {span:g} s apart",
                         expected=f"less than {LONGEST:g} s")
    return Log((arrival - arrival.min())[order], prompt.astype(np.int64)[order], output.astype(np.int64)[order],
               ttft[order], tpot[order], latency[order], failed,
               0.0 if cached is None else float(np.nansum(cached) / prompt.sum()))


def _possible(name: str, ttft: F64, tpot: F64 | None, latency: F64) -> None:
    """Raise InputError for times that nothing can take."""
    for field, values in (("ttft", ttft), ("tpot", tpot), ("latency", latency)):
        if values is None:
            continue
        wrong = np.flatnonzero((values < 0) | (values >= 1e9))
        if wrong.size:
            raise InputError(f"{name}, request {int(wrong[0]) + 1}: {field}", f"{values[wrong[0]]:g} s is impossible",
                             expected="0 or more")
        if values.size and not np.nan_to_num(values, nan=1.0).any():
            raise InputError(f"{name}: {field}", "is 0 in all requests",
                             expected="what was measured, or no such column")
    wrong = np.flatnonzero(latency < ttft)
    if wrong.size:
        place = int(wrong[0])
        raise InputError(f"{name}, request {place + 1}: latency", f"{latency[place]:g} s is less than its ttft, "
                         f"{ttft[place]:g} s", expected="from arrival to the last token")
