"""Read files of measured rows: training steps, collectives, serving figures, kernels (CSV), steps of one GPU (JSON);
faults with file, line, column."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from astrarium.errors import InputError, nearest
from astrarium.validate.columns import check_columns
from astrarium.validate.kernel_rows import COUNTS as KERNEL_COUNTS
from astrarium.validate.kernel_rows import NEEDED as KERNEL
from astrarium.validate.kernel_rows import NUMBERS as KERNEL_NUMBERS
from astrarium.validate.kernel_rows import stated
from astrarium.validate.measured_steps import read_steps
from astrarium.validate.micro_rows import COPIES
from astrarium.validate.micro_rows import NEEDED as MICRO
from astrarium.validate.micro_rows import NUMBERS as MICRO_NUMBERS
from astrarium.validate.micro_rows import stated as micro_stated

__all__ = ["KINDS", "Row", "read_rows", "with_stack"]

Value = int | float | str
NOTHING = frozenset({"", "-", "n/a", "na", "nan", "null"})
COUNTS = frozenset({"n_gpus", "nodes", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq", "tp", "pp", "dp",
                    "cp", "ep", "vp", "mbs", "gbs", "isl", "osl", "batch_size", "max_num_batched_tokens", "concurrency",
                    "prefill_batch_size", "prefill_num_workers", "decode_batch_size", "decode_num_workers"})
NUMBERS = frozenset({"params_B", "step_s", "model_tflops_gpu", "tok_s_gpu", "mem_GiB", "time_us", "busbw_GBs",
                     "value", "silicon_ttft_ms", "silicon_tpot_ms", "actual_ms_or_unit", "gpu_mem_util"})
KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "collective": ("source", "hw", "n_gpus", "op", "size_B"),
    "inference": ("source", "model", "gpu", "isl", "osl", "metric", "value"),
    "kernel": KERNEL,
    "micro": MICRO,
    "mlperf": ("div", "org", "system", "acc", "n", "model", "scen", "tps"),
    "silicon": ("id", "silicon_data_source", "backend", "model_path", "system", "isl", "osl", "silicon_tpot_ms"),
    "training": ("source", "case", "gpu", "n_gpus", "model"),
    "vllm": ("experiment", "model", "hardware", "tp", "workload", "stage", "metric", "actual_ms_or_unit"),
})
"""Kind of row -> columns without which a file is not one of it."""
SOURCES: Mapping[str, str] = MappingProxyType({
    "mlperf": "MLPerf Inference", "silicon": "silicon table of aiconfigurator-core",
    "vllm": "vLLM runs of sim-to-real-accuracy-validation"})
"""Sources of kinds whose rows do not name one."""
MEASURED_ON = "# device: "      # first line of the rows of `calibrate --measure`
MOST = ("concurrency", "max")       # as many requests as there may be
TRUTH: Mapping[str, int] = MappingProxyType({"false": 0, "true": 1})
LARGEST, WIDEST, LONGEST = 2**53, 256, 1 << 16


class Row(Struct, frozen=True):
    """One measured row: its place, its kind, and what it states (columns left empty are absent)."""

    file: str
    line: int
    kind: str
    values: Mapping[str, Value]

    @property
    def source(self) -> str:
        """Who measured it."""
        return str(self.values.get("source", SOURCES.get(self.kind, "unnamed")))

    @property
    def case(self) -> str:
        """Which of the source's rows it is."""
        named = self.values.get("case") or self.values.get("id") or self.values.get("experiment")
        return str(named or f"line {self.line}")

    def count(self, column: str) -> int | None:
        """A whole number, or None where the row does not state it."""
        found = self.values.get(column)
        return found if isinstance(found, int) else None

    def number(self, column: str) -> float | None:
        """A number, or None where the row does not state it."""
        found = self.values.get(column)
        return float(found) if isinstance(found, (int, float)) else None

    def text(self, column: str) -> str:
        """Text, or nothing."""
        return str(self.values.get(column, ""))


def read_rows(path: str | os.PathLike[str]) -> list[Row]:
    """The rows of a CSV file with a line of headings, or of a JSON file of steps (then the line is the step's number),
    in order. Raises InputError with file, line and column."""
    name = os.fspath(path)
    try:
        text = Path(name).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(name, f"cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError as error:
        raise InputError(name, f"byte {error.start} is not UTF-8", expected="a file in UTF-8") from None
    if name.endswith(".json"):
        return [Row(name, number, kind, MappingProxyType(values))
                for number, (kind, values) in enumerate(read_steps(name, text), start=1)]
    lines = _lines(name, text)
    line, head = next((each for each in lines if any(each[1])), (1, []))
    columns = [each.strip() for each in head]
    kind = _kind(name, line, columns)
    check_columns(f"{name}:{line}", kind, columns, KINDS[kind])
    if kind == "kernel":
        device = text.partition(";")[0].removeprefix(MEASURED_ON) if text.startswith(MEASURED_ON) else ""
        found = [Row(name, line, kind, stated(_values(name, line, columns, cells, KERNEL_COUNTS, KERNEL_NUMBERS), name,
                                              device)) for line, cells in lines if any(cells)]
    elif kind == "micro":
        found = [Row(name, line, kind, micro_stated(_values(
            name, line, columns + [COPIES] * (len(cells) > len(columns)), cells, (), MICRO_NUMBERS), name))
            for line, cells in lines if any(cells)]
    else:
        found = [Row(name, line, kind, _values(name, line, columns, cells)) for line, cells in lines if any(cells)]
    if not found:
        raise InputError(name, "has no rows", expected="measured rows under the headings")
    return found


def with_stack(rows: Iterable[Row], stack: str | None) -> list[Row]:
    """Rows whose training steps state this stack; None: they are left as they are."""
    return [row if stack is None or row.kind != "training" else
            replace(row, values=MappingProxyType({**row.values, "stack": stack})) for row in rows]


def _lines(name: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """(number of its last line, cells) of every record; none of lines that begin with "# "."""
    reader = csv.reader(("\n" if line.startswith("# ") else line for line in text.splitlines(keepends=True)),
                        strict=True)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"{name}:{max(1, reader.line_num)}", f"is not CSV ({error})",
                             expected="cells between commas, quotes closed") from None
        yield reader.line_num, cells


def _kind(name: str, line: int, columns: list[str]) -> str:
    """Which kind of rows a file with these headings has."""
    where = f"{name}:{line}"
    if len(columns) > WIDEST:
        raise InputError(where, f"{len(columns)} columns", expected=f"at most {WIDEST}")
    for number, column in enumerate(columns, start=1):
        if not column:
            raise InputError(f"{where}: column {number}", "has no name", expected="a heading for every column")
        if column in columns[:number - 1]:
            raise InputError(f"{where}: {column[:60]}", "is there twice", expected="one column of a name")
    for kind, needed in KINDS.items():
        if set(needed) <= set(columns):
            return kind
    closest = max(KINDS, key=lambda kind: len(set(KINDS[kind]) & set(columns)))
    missing = next(each for each in KINDS[closest] if each not in columns)
    raise InputError(f"{where}: {missing}", "is not among the columns", expected=_expected(),
                     did_you_mean=nearest(missing, columns))


def _expected() -> str:
    return "; or ".join(f"{', '.join(columns)} ({kind})" for kind, columns in KINDS.items()) + (
        "; or, with --serving, a log of requests")


def _values(name: str, line: int, columns: list[str], cells: list[str], counts: Collection[str] = COUNTS,
            numbers: Collection[str] = NUMBERS) -> Mapping[str, Value]:
    if len(cells) != len(columns):
        raise InputError(f"{name}:{line}", f"{len(cells)} cells", expected=f"{len(columns)}, one for every column")
    found: dict[str, Value] = {}
    for column, cell in zip(columns, cells, strict=True):
        text = cell.strip()
        if len(text) > LONGEST or not text.isprintable():
            raise InputError(f"{name}:{line}: {column}", "is not readable text", expected="printable characters")
        if (column, text.lower()) == MOST:
            found[column] = "max"
        elif column == "causal" and text.lower() in TRUTH:
            found[column] = TRUTH[text.lower()]
        elif column in counts or column in numbers:
            if text.lower() not in NOTHING:
                found[column] = _number(f"{name}:{line}: {column}", text, column in counts)
        elif text:
            found[column] = text
    return MappingProxyType(found)


def _number(where: str, text: str, whole: bool) -> int | float:
    expected = "a whole number above 0, or nothing" if whole else "a number, not negative, or nothing"
    try:
        value = float(text)
    except ValueError:
        raise InputError(where, f"{text[:60]!r} is not a number", expected=expected) from None
    if not (math.isfinite(value) and 0 <= value <= LARGEST) or (whole and (value != int(value) or not value)):
        raise InputError(where, f"{text[:60]} is impossible", expected=expected)
    return int(value) if whole else value
