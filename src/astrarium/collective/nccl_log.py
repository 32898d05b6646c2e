"""Logs of nccl-tests and rccl-tests to the lines of a fabric inside one host (`collective.fabrics`).

The log names its columns in a comment ("#  size  count  type  redop  root  time  algbw ..."), its ranks one a line
("#  Rank  0 Group  0 Pid 417 on host-1 device  0 [0x0f] NVIDIA ...") and its test in its name ("all_reduce_perf", which
newer versions print).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.collective.bandwidth import bus_factor
from astrarium.collective.lines import fit_lines, least
from astrarium.errors import InputError
from astrarium.vocab import CommOp

__all__ = ["TESTS", "Log", "fabric_text", "fitted", "medians", "read_log"]

TESTS = {"all_reduce": CommOp.ALL_REDUCE, "all_gather": CommOp.ALL_GATHER, "reduce_scatter": CommOp.REDUCE_SCATTER,
         "alltoall": CommOp.ALL_TO_ALL}
SPARSE = 4      # rows that a line needs
PASSES = 2      # times its link that a bus may have: trees of two hosts and switches that reduce have more than one
RANK = re.compile(r"^#\s+Rank\s+(\d+)(?:\s+Group\s+(\d+))?\b.*?\bon\s+(\S+)\s+(device\s+\d+\s+\[[^\]]*\])",
                  re.MULTILINE)


class Log(Struct, frozen=True, eq=False):
    """One test: `size` bytes (nccl-tests' S) and `ns`, out of place, [rows]."""

    op: CommOp
    ranks: int
    size: F64
    ns: F64
    hosts: int = 1


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
    ranks, hosts = _ranks(text, path)
    at, wrong = (headers[0][1:].split().index(name) if name in headers[0] else 99 for name in ("time", "#wrong"))
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d+\s", line)]
    if bad := next((row for row in rows if len(row) > wrong and row[wrong].isdecimal() and int(row[wrong])), None):
        raise InputError(path, f"has {bad[wrong]} wrong results of {bad[0]} bytes", expected="a run without any")
    found = [(float(row[0]), float(row[at]) * 1e3) for row in rows if len(row) > at and float(row[0]) > 0]
    if len(found) < SPARSE:
        raise InputError(path, f"has {len(found)} rows", expected=f"{SPARSE} sizes or more")
    size, ns = np.array(sorted(found)).T
    return Log(TESTS[names[0]], ranks, size, ns, hosts)


def _ranks(text: str, path: str) -> tuple[int, int]:
    """(ranks, hosts), every host with as many ranks. Raises InputError where the log does not say."""
    ranks = len(set(re.findall(r"^#\s+Rank\s+(\d+)", text, re.MULTILINE)))
    if ranks < 2:
        raise InputError(path, f"names {ranks} ranks", expected='two or more lines "#  Rank  N"')
    placed = set(RANK.findall(text))
    where = {(host, device) for _, _, host, device in placed}
    if len(placed) != ranks or len(where) != ranks:
        why = f"each of its {ranks} ranks was" if len(placed) != ranks else "two ranks of one host name and device were"
        raise InputError(path, f"does not say on which host {why}",
                         expected='a line "#  Rank  N ... on HOST device D [BUS]" for each; hosts with different names')
    if groups := len({group for _, group, _, _ in placed}) - 1:
        raise InputError(path, f"ran in {groups + 1} groups at once", expected="one group (no NCCL_TESTS_SPLIT)")
    counts = Counter(host for host, _ in where)
    if len(set(counts.values())) > 1:
        raise InputError(path, "has hosts with " + " and ".join(map(str, sorted(set(counts.values())))) + " ranks",
                         expected="as many in each")
    return ranks, len(counts)


def medians(logs: Sequence[Log]) -> dict[tuple[CommOp, int, int], tuple[F64, F64]]:
    """(operation, hosts, ranks) -> (sizes, ascending, median ns of each over the logs)."""
    times: dict[tuple[CommOp, int, int], dict[float, list[float]]] = {}
    for log in logs:
        of_size = times.setdefault((log.op, log.hosts, log.ranks), {})
        for size, ns in zip(log.size.tolist(), log.ns.tolist()):
            of_size.setdefault(size, []).append(ns)
    return {key: (np.array(sorted(of_size)), np.array([np.median(of_size[size]) for size in sorted(of_size)]))
            for key, of_size in times.items()}


def fitted(moved: F64, ns: F64, rate: float) -> tuple[list[list[float]], float]:
    """(lines [latency, share of `rate`] of bytes on the bus [rows], their median error). Raises InputError where times
    do not grow with the bytes, or the bus passes PASSES times the rate."""
    found = [line for line in fit_lines(moved, ns, sparse=SPARSE) if line[1] > 0]
    if not found:
        raise InputError("calibrate --fabric", "times do not grow with sizes", expected="logs up to large payloads")
    if (most := 1 / (min(slope for _, slope in found) * rate)) > PASSES:
        raise InputError("--link-bandwidth", f"the logs have {most:.3g} times this bandwidth",
                         expected="the rate of the data sheet, and logs up to large payloads")
    lines = [[round(latency, 1), round(1 / (slope * rate), 6)] for latency, slope in found]
    return lines, float(np.median(np.abs(least(found, moved) / ns - 1)))


def fabric_text(name: str, link: str, link_rate: float, logs: Sequence[Log]) -> tuple[str, Mapping[str, float]]:
    """(a row of the catalog's collectives as TOML, median error of each "op of n ranks"). `link_rate`: bytes/ns."""
    ops: dict[str, dict[int, Any]] = {}
    errors = {}
    for (of, _, ranks), (size, ns) in medians(logs).items():
        found, error = fitted(size * bus_factor(of, ranks), ns, link_rate)
        ops.setdefault(of.name.lower(), {})[ranks] = found
        errors[f"{of.name.lower()} of {ranks} ranks"] = error
    text = [f"[collectives.{name}]", f'title = "{name}"', 'kind = "host"', f'link = "{link}"',
            'source = "your own nccl-tests, by astrarium calibrate"',
            f'error = "fit: median {100 * float(np.median(list(errors.values()))):.1f} %"']
    for op, by_ranks in ops.items():
        text.append(f"[collectives.{name}.ops.{op}]")
        text += [f"{ranks} = {by_ranks[ranks]}" for ranks in sorted(by_ranks)]
    return "\n".join(text) + "\n", errors
