"""Timings of kernels that a user measured: CSV or JSON rows to kernels and times."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from astrarium.compute.kernels.fused import BACKENDS
from astrarium.compute.kernels.machine import BYTES
from astrarium.compute.kernels.tiles import LAYOUTS
from astrarium.errors import InputError, nearest
from astrarium.vocab import Kernel

__all__ = ["COLUMNS", "Timing", "read_timings", "written", "written_csv"]

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "grouped_gemm": ("groups", "m", "n", "k"),
    "attention": ("batch", "heads", "queries", "keys", "head_length"),      # or key_length, value_length
    "attention_backward": ("batch", "heads", "queries", "keys", "head_length"),
    "mla": ("batch", "heads", "queries", "keys", "key_length", "value_length"),
    "stream": ("bytes",),
}
"""Kind -> columns that a row must have, in addition to `kind` and one of `ns`, `us`, `ms`."""
ATTENTION = ("batch", "heads", "kv_heads", "queries", "keys", "key_length", "value_length")
WHOLE = ("groups", "m", "n", "k", "second", "share", "skew")
"""Of a whole layer of experts."""
OPTIONAL = ("precision", "batch", "kv_heads", "key_length", "value_length", "causal", "repeats", *WHOLE[4:])
APART = ("launch", "host")
"""Kinds of rows other than those of kernels."""
SUSTAINED = "sustained"
"""`op` of products at the clock of a long run."""
SIDES = ("m", "n")
"""Of a stream: its rows and columns, on which the time of some operators depends."""
BESIDE = ("elements", "vocab", "clock", "watt")
"""Columns that are read and not used."""
WORDS: Mapping[str, tuple[str, ...]] = {"layout": ("NT", "dgrad", "wgrad", "cudnn", "flash"),
                                        "op": ("short", "tensor", "row", "decode")}
"""Columns that say how PyTorch ran a kernel, and their values; `op` of a stream is any operator's name."""
LARGEST = 2.0**53
TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6}


class Timing(NamedTuple):
    """A kernel and what it took. `backend`: how PyTorch ran it ("flash", "row"); "": unknown,
    or the only one."""

    kernel: Kernel
    ns: float
    backend: str = ""


def read_timings(path: str) -> list[Timing]:
    """The rows of kernels of a CSV file with a header, or of a JSON list of objects; rows of sustained clocks and of
    hosts are left out. Raises InputError with the row's number."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(path, f"byte {error.start} is not UTF-8", expected="CSV or JSON in UTF-8") from None
    rows: Sequence[Any]
    try:
        rows = json.loads(text) if text.lstrip()[:1] == "[" else _table(text, path)
    except (ValueError, RecursionError, csv.Error) as error:
        raise InputError(path, f"is no JSON or CSV: {str(error)[:80]}") from None
    found = [_timing(row, f"{path}: row {number}") for number, row in enumerate(rows, 1)
             if not isinstance(row, Mapping) or (row.get("kind") not in APART and row.get("op") != SUSTAINED)]
    if not found:
        raise InputError(path, "has no rows", expected="a header and one row a kernel")
    return found


def _table(text: str, path: str) -> list[dict[str, str]]:
    """The rows of CSV. Raises InputError for a column that is there twice and for cells without a column."""
    table = csv.DictReader(line for line in text.splitlines() if line and line[0] != "#")
    names = [name.strip() for name in table.fieldnames or ()]
    for name in names:
        if name and names.count(name) > 1:
            raise InputError(path, f"column {name[:60]!r} is there twice", expected="one column of a name")
    rows = list(table)
    for number, row in enumerate(rows, 1):
        if None in row:
            raise InputError(f"{path}: row {number}", f"has more than {len(names)} cells",
                             expected="one for every column")
    return rows


def _timing(row: Any, where: str) -> Timing:
    if not isinstance(row, Mapping):
        raise InputError(where, "is no object", expected="names and values")
    given = {str(name).strip(): value for name, value in row.items() if value not in (None, "") and name not in BESIDE}
    kind, words = str(given.pop("kind", "")).strip(), {name: str(given.pop(name, "")).strip() for name in WORDS}
    if kind not in COLUMNS:
        raise InputError(where, f"kind {kind[:60]!r} is not known", expected="one of " + ", ".join(COLUMNS),
                         did_you_mean=nearest(kind, COLUMNS))
    times = [name for name in TIMES if name in given]
    if len(times) != 1:
        raise InputError(where, f"has {len(times)} of the columns ns, us and ms", expected="one")
    legal = (*COLUMNS[kind], *OPTIONAL, *TIMES, *(SIDES if kind == "stream" else ()))
    for name in given:
        if name not in legal:
            raise InputError(where, f"column {name[:60]!r} is not known for {kind}",
                             expected="one of " + ", ".join(legal), did_you_mean=nearest(name, legal))
    precision = str(given.pop("precision", "bf16")).strip()
    if precision not in BYTES:
        raise InputError(where, f"precision {precision[:60]!r} is not known", expected="one of " + ", ".join(BYTES),
                         did_you_mean=nearest(precision, BYTES))
    numbers = {name: _number(value, f"{where}: {name}", name) for name, value in given.items()}
    if numbers.get("causal") and numbers.get("queries", 0) > numbers.get("keys", 0):
        raise InputError(f"{where}: causal", "more queries than keys", expected="at least as many keys")
    for name in COLUMNS[kind]:
        if name not in numbers and not (name == "head_length" and {"key_length", "value_length"} <= set(numbers)):
            raise InputError(where, f"has no {name}", expected=", ".join(COLUMNS[kind]))
    for name, word in words.items():
        if word and word not in WORDS[name] and not (kind == "stream" and name == "op"):
            raise InputError(f"{where}: {name}", f"{word[:60]!r} is not known",
                             expected="one of " + ", ".join(WORDS[name]), did_you_mean=nearest(word, WORDS[name]))
    kernel, backend = _named(_kernel(kind, precision, numbers), words["layout"], words["op"])
    return Timing(kernel, numbers[times[0]] * TIMES[times[0]], backend)


def _named(kernel: Kernel, layout: str, op: str) -> tuple[Kernel, str]:
    """A kernel with PyTorch's name of its pass or operator, and its backend. The result of a weight's gradient is
    stated with the weight's outputs first; in a kernel its inputs come first."""
    if kernel.kind == "pointwise":
        return kernel._replace(op=op), ""
    if layout == "wgrad":
        batch, m, n, k = kernel.shape
        kernel = kernel._replace(shape=(batch, n, m, k))
    if layout in LAYOUTS:
        return kernel._replace(op=layout), ""
    return kernel, layout if layout in BACKENDS else op if op in ("tensor", "row") else ""


def _number(value: Any, where: str, name: str) -> float:
    if name == "causal" and str(value).strip().lower() in ("true", "false"):
        return float(str(value).strip().lower() == "true")
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (number < LARGEST and (number > 0 or (name == "causal" and number == 0))):
        raise InputError(where, f"{str(value)[:60]!r} is no time or size", expected="a number above 0")
    return number


def _kernel(kind: str, precision: str, row: Mapping[str, float]) -> Kernel:
    if kind == "stream":
        sides = tuple(int(row[name]) for name in SIDES) if set(SIDES) <= set(row) else ()
        return Kernel("pointwise", precision, sides, 1.0, 0.0, int(row["bytes"]))
    if kind in ("gemm", "grouped_gemm"):
        if row.get("second", 0) > 0:
            whole = tuple(int(row.get(name, float(name == "share"))) for name in WHOLE)
            return Kernel(kind, precision, whole, 1.0, 2.0 * row["m"] * row["k"] * (row["n"] + row["second"]), 0)
        first = row.get("batch", 1.0) if kind == "gemm" else row["groups"]
        flops = 2.0 * row["m"] * row["n"] * row["k"] * (first if kind == "gemm" else 1.0)
        return Kernel(kind, precision, tuple(int(x) for x in (first, row["m"], row["n"], row["k"])), 1.0, flops, 0)
    long = row.get("key_length", row.get("head_length", 0.0))
    value = row.get("value_length", row.get("head_length", 0.0))
    shape = (row["batch"], row["heads"], row.get("kv_heads", row["heads"]), row["queries"], row["keys"], long, value)
    work = (2 * row["keys"] - row["queries"] + 1) / (2 * row["keys"]) if row.get("causal") else 1.0
    flops = 2.0 * row["batch"] * row["heads"] * row["queries"] * row["keys"] * (long + value) * work
    return Kernel(kind, precision, tuple(int(x) for x in shape), work,
                  flops * (2.5 if kind == "attention_backward" else 1.0), 0)


def written(timings: Iterable[Timing]) -> str:
    """Timings as the JSON that `read_timings` takes."""
    return json.dumps(_rows(timings), indent=1) + "\n"


def written_csv(timings: Iterable[Timing], repeats: Iterable[int]) -> str:
    """Timings as the CSV that `read_timings` takes, with how many times each was measured."""
    rows = [row | {"repeats": count} for row, count in zip(_rows(timings), repeats, strict=True)]
    names = {name: None for row in rows for name in row if name not in ("ns", "repeats")}
    text = io.StringIO()
    writer = csv.DictWriter(text, [*names, "repeats", "ns"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _rows(timings: Iterable[Timing]) -> list[dict[str, Any]]:
    rows = []
    for kernel, ns, backend in timings:
        row: dict[str, Any] = {"kind": kernel.kind, "precision": kernel.precision, "ns": round(ns, 1)}
        if kernel.kind == "gemm":
            batch, m, n, k = kernel.shape
            row |= {"batch": batch, "m": m, "n": n, "k": k, **({"op": backend} if backend else {})}
            if kernel.op:
                row |= {"layout": kernel.op, **({"m": n, "n": m} if kernel.op == "wgrad" else {})}
        elif kernel.kind == "grouped_gemm":
            row |= {name: size for name, size in zip(WHOLE, kernel.shape) if size}
        elif kernel.kind in COLUMNS:
            row |= dict(zip(ATTENTION, kernel.shape))
            row |= {"causal": int(kernel.work < 1), **({"layout": backend} if backend else {})}
        else:
            sides = zip(SIDES, kernel.shape) if len(kernel.shape) == len(SIDES) else ()
            row |= {"kind": "stream", "bytes": kernel.bytes, **dict(sides), **({"op": kernel.op} if kernel.op else {})}
        rows.append(row)
    return rows
