"""What a run wrote as JSON or Parquet, read back."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.errors import InputError, install_line
from astrarium.units import Bytes, Time

__all__ = ["ABOUT", "Stored", "load"]

Column = npt.NDArray[Any]
ABOUT = ("summary", "figures", "training", "interval")      # what is no table
FLOATS = ("_ns", "utilisation", "_gb_per_s", "peak_memory_bytes", "slowdown")    # ends of names of columns of floats
WRITTEN = "what `astrarium run --json` or `--parquet` writes"


class Stored(Struct, frozen=True, eq=False):
    """A run that was written. `tables`: name -> column -> array, as `tables` gives them of a Result; `figures`,
    `training` and `interval` are as `run` prints them (empty where they were not written). Times have ps up to 2.5
    hours."""

    about: Mapping[str, Any]
    tables: Mapping[str, Mapping[str, Column]]
    figures: Mapping[str, float]
    training: Mapping[str, Any]
    interval: Mapping[str, Any]

    def summary(self) -> dict[str, Any]:
        """As of a Result."""
        return dict(self.about)

    @property
    def makespan_ps(self) -> int:
        """The last rank's finish, ps."""
        return round(float(self.about["makespan_ns"]) * 1000)

    @property
    def makespan(self) -> Time:
        """The last rank's finish."""
        return Time.of(float(self.about["makespan_ns"]))

    @property
    def compute(self) -> Time:
        """Compute time of the rank that finishes last."""
        return Time.of(float(self._recorded("compute_ns")))

    @property
    def exposed_comm(self) -> Time:
        """Exposed communication of the rank that finishes last."""
        return Time.of(float(self._recorded("exposed_comm_ns")))

    @property
    def peak_memory(self) -> Bytes | None:
        """The highest use of local memory on any rank; None where it was not known."""
        peak = self._recorded("peak_memory_bytes")
        return None if peak is None else Bytes.of(float(peak))

    @property
    def out_of_memory(self) -> bool | None:
        """Whether some rank needs more memory than its NPU has; None where nothing could be said."""
        found: bool | None = self._recorded("out_of_memory")
        return found

    def _recorded(self, name: str) -> Any:
        if name not in self.about:
            raise InputError(name, "was not written: node times were not recorded", expected="a run with record=True")
        return self.about[name]


def load(path: str | os.PathLike[str]) -> Stored:
    """A JSON file, or a folder of Parquet files (extra: parquet). Raises InputError for anything else."""
    source = Path(path)
    if source.is_dir():
        return _of_parquet(source)
    try:
        found = msgspec.json.decode(source.read_bytes())
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error.strerror})", expected=WRITTEN) from error
    except msgspec.DecodeError as error:
        raise InputError(str(path), f"is no JSON ({error})", expected=WRITTEN) from error
    if not isinstance(found, dict) or not isinstance(found.get("summary"), dict) \
            or "makespan_ns" not in found["summary"]:
        raise InputError(str(path), "is no result: it has no summary with a makespan", expected=WRITTEN)
    tables = {name: _columns(str(path), name, rows) for name, rows in found.items() if isinstance(rows, list)}
    return _stored(found, tables)


def _stored(about: Mapping[str, Any], tables: Mapping[str, Mapping[str, Column]]) -> Stored:
    summary, *more = (MappingProxyType(about.get(name, {})) for name in ABOUT)
    return Stored(summary, MappingProxyType(dict(tables)), *more)


def _columns(path: str, table: str, rows: Any) -> dict[str, Column]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
        raise InputError(f"{path}: {table}", "is no list of records of equal fields", expected=WRITTEN)
    return {name: _column(name, [row[name] for row in rows]) for name in (rows[0] if rows else ())}


def _column(name: str, values: Sequence[Any]) -> Column:
    """The array that was written: floats by their names, else whole numbers or text."""
    if name.endswith(FLOATS):
        return np.array([np.nan if value is None else value for value in values], np.float64)
    if values and isinstance(values[0], str):
        return np.array(values)
    if max(values, default=0) < 2**63:
        return np.array(values, np.int64)
    return np.array(values, np.uint64 if min(values) >= 0 else object)


def _of_parquet(folder: Path) -> Stored:
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise InputError("parquet", "pyarrow is not installed", expected=install_line("parquet")) from error
    files = sorted(folder.glob("*.parquet"))
    read = {file.stem: parquet.read_table(file) for file in files}
    about = (read["ranks"].schema.metadata or {}).get(b"astrarium") if "ranks" in read else None
    if about is None:
        raise InputError(str(folder), "has no ranks.parquet with the run's summary", expected=WRITTEN)
    tables = {name: {column: _column(column, values) for column, values in table.to_pydict().items()}
              for name, table in read.items()}
    return _stored(msgspec.json.decode(about), tables)
