"""Logs of nccl-tests and rccl-tests to the lines of a fabric inside one host (`collective.fabrics`).

The log names its columns in a comment ("#  size  count  type  redop  root  time  algbw ..."), its ranks one a line
("#  Rank  0 ...") and its test in its name ("all_reduce_perf", which newer versions print).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from astrarium.collective.bandwidth import bus_factor
from astrarium.collective.lines import fit_lines, least
from astrarium.errors import InputError
from astrarium.vocab import CommOp

__all__ = ["TESTS", "Log", "fabric_text", "read_log"]

TESTS = {"all_reduce": CommOp.ALL_REDUCE, "all_gather": CommOp.ALL_GATHER, "reduce_scatter": CommOp.REDUCE_SCATTER,
         "alltoall": CommOp.ALL_TO_ALL}
SPARSE = 4      # rows that a line needs
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Log:
    """One test: `size` bytes (nccl-tests' S) and `ns`, out of place, [rows]."""

    op: CommOp
    ranks: int
    size: F64
    ns: F64


def read_log(path: str) -> Log:
    """A log's rows. Raises InputError where it is no log, or the test, the ranks or the rows are not to be found."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from None
    headers = [line for line in text.splitlines() if re.match(r"#.*\bsize\b.*\btime\b.*\bbusbw\b", line)]
    if not headers:
        raise InputError(path, "is no log of nccl-tests", expected='a line "# size count type ... time algbw busbw"')
    names = [name for name in TESTS if f"{name}_perf" in text or name in Path(path).name]
    if len(names) != 1:
        raise InputError(path, "does not say which test it is of", expected="one of " + ", ".join(
            f"{name}_perf" for name in TESTS) + " in the log or in the file's name")
    ranks = len(set(re.findall(r"^#\s+Rank\s+(\d+)", text, re.MULTILINE)))
    if ranks < 2:
        raise InputError(path, f"names {ranks} ranks", expected='two or more lines "#  Rank  N"')
    at = headers[0][1:].split().index("time")
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d+\s", line)]
    found = [(float(row[0]), float(row[at]) * 1e3) for row in rows if len(row) > at and float(row[0]) > 0]
    if len(found) < SPARSE:
        raise InputError(path, f"has {len(found)} rows", expected=f"{SPARSE} sizes or more")
    size, ns = np.array(sorted(found)).T
    return Log(TESTS[names[0]], ranks, size, ns)


def fabric_text(name: str, link: str, link_rate: float, logs: Sequence[Log]) -> tuple[str, Mapping[str, float]]:
    """(a row of the catalog's collectives as TOML, median error of each "op of n ranks"). `link_rate`: bytes/ns."""
    ops: dict[str, dict[int, Any]] = {}
    errors = {}
    for log in logs:
        moved = log.size * bus_factor(log.op, log.ranks)
        found = [line for line in fit_lines(moved, log.ns, sparse=SPARSE) if line[1] > 0]
        error = float(np.median(np.abs(least(found, moved) / log.ns - 1)))
        ops.setdefault(log.op.name.lower(), {})[log.ranks] = [
            [round(latency, 1), round(1 / (slope * link_rate), 4)] for latency, slope in found]
        errors[f"{log.op.name.lower()} of {log.ranks} ranks"] = error
    text = [f"[collectives.{name}]", f'title = "{name}"', 'kind = "host"', f'link = "{link}"',
            'source = "your own nccl-tests, by astrarium calibrate"',
            f'error = "fit: median {100 * float(np.median(list(errors.values()))):.1f} %"']
    for op, by_ranks in ops.items():
        text.append(f"[collectives.{name}.ops.{op}]")
        text += [f"{ranks} = {by_ranks[ranks]}" for ranks in sorted(by_ranks)]
    return "\n".join(text) + "\n", errors
