#!/usr/bin/env python3
"""Fit the lines of `catalog/collectives.toml`: `tools/fit_collectives.py TABLES [SHARED.csv] > collectives.toml`.

TABLES: the wheel of aiconfigurator-core, or its folder `systems/data`. SHARED.csv: the shared rows of several hosts
(`validation_collectives.csv`); of each source with a fabric here the rows with an even number in the file are fitted.
Other rows of several hosts are in `benchmarks/data/nccl_hosts.csv` (all fitted: a fabric left out judges them).

Per fabric, operation and number of ranks the least of up to three lines (latency + bytes on the bus / bandwidth) is
fitted to the 16-bit rows: every cut of the sizes into segments, least squares of relative errors in each, three rounds
in which a row goes to the line that is least there; the smallest mean absolute log error wins. No random numbers.
"""

from __future__ import annotations

import csv
import io
import sys
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from astrarium.collective.bandwidth import bus_factor  # noqa: E402
from astrarium.collective.fabrics import Fabric, read  # noqa: E402
from astrarium.collective.lines import fit_lines  # noqa: E402
from astrarium.collective.measured import Layout, best_busbw, measured_ns, wire_ns  # noqa: E402
from astrarium.collective.nccl_log import TESTS  # noqa: E402
from astrarium.vocab import CommOp  # noqa: E402

sys.path.insert(0, str(ROOT / "tools"))
from collective_fabrics import HOSTS, NETWORKS, STAND_INS, HostFabric, NetworkFabric  # noqa: E402
from exchange_rows import rows_of  # noqa: E402

IN_NETWORK = ("nvlink4", "nvlink5")     # NVLink SHARP: the switch reduces
SPARSE = 3          # of rows of exchanges every third is fitted where there are more than DENSE, all are judged
DENSE = 60
ROWS_A_LINE = 4     # of several hosts: a line needs so many
Table = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Row:
    """A measurement of several hosts."""

    fabric: str
    host: str
    ranks: int
    hosts: int
    op: CommOp
    size: float
    ns: float


def tables(where: Path, folder: str, table: str = "nccl_perf") -> list[dict[str, Any]]:
    """The rows of one table."""
    import pyarrow.parquet as pq

    inner = f"aiconfigurator_core/systems/data/{folder}/{table}.parquet"
    if where.is_dir():
        source: Any = where / folder / f"{table}.parquet"
    else:
        with zipfile.ZipFile(where) as wheel:
            source = io.BytesIO(wheel.read(inner))
    return list(pq.read_table(source).to_pylist())


def host_rows(fabric: HostFabric, where: Path) -> list[Row]:
    """The rows of a fabric inside a host: 16-bit ones of its table, NCCL's of engines, or those of the repository."""
    if fabric.engines:
        return [Row("", fabric.name, row["num_gpus"], 1, CommOp.ALL_REDUCE, 2.0 * row["message_size"],
                    row["latency"] * 1e6) for engine in fabric.engines for row in tables(
                        where, f"{fabric.folder}/{engine}", "custom_allreduce_perf")
                if not row["kernel_source"].endswith("_eager")]
    if fabric.rows:
        return [row for row in own_rows() if row.host == fabric.name and row.hosts == 1]
    return [Row("", fabric.name, row["num_gpus"], 1, TESTS[row["op_name"]], 2.0 * row["message_size"],
                row["latency"] * 1e6) for row in tables(where, fabric.folder) if row["nccl_dtype"] == "half"]


def host_row(fabric: HostFabric, where: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Lines per operation and number of ranks, and the errors of the fit."""
    measured = host_rows(fabric, where)
    ops: dict[str, dict[str, Any]] = {}
    for op, ranks in sorted({(row.op, row.ranks) for row in measured}):
        rows = sorted((row.size, row.ns) for row in measured if (row.op, row.ranks) == (op, ranks))
        size, ns = np.array(rows).T
        kept = fit_lines(size * bus_factor(op, ranks), ns)
        ops.setdefault(op.name.lower(), {})[str(ranks)] = [[round(base, 1), round(1 / slope / fabric.gbps, 4)]
                                                           for base, slope in kept]
    if set(ops) == {"all_reduce"}:      # a ring's all_reduce is a reduce_scatter and an all_gather
        halves = {n: [[round(base / 2, 1), share] for base, share in each] for n, each in ops["all_reduce"].items()}
        ops |= {"all_gather": halves, "reduce_scatter": halves}
    for op_name, by_ranks in found[fabric.larger]["ops"].items() if fabric.larger else ():
        ops[op_name] |= {ranks: each for ranks, each in by_ranks.items() if int(ranks) > max(map(int, ops[op_name]))}
    plain = {"title": fabric.title, "kind": "host", "link": f"{fabric.gbps:g} GB/s", "technology": fabric.technology,
             "in_network": fabric.technology in IN_NETWORK, "source": fabric.source, "ops": ops}
    if fabric.larger:
        plain["borrows"] = fabric.larger
    value = read("it", {"it": plain})
    errors = [abs(measured_ns(row.op, row.size, Layout(row.ranks), value) / row.ns - 1) for row in measured]
    exchange, exchange_error = exchange_row(fabric, where)
    return {**plain, **simulated_host(value), **exchange, "error": said(errors) + exchange_error}


def exchange_row(fabric: HostFabric | NetworkFabric, where: Path) -> tuple[dict[str, Any], str]:
    """Lines of kernels that exchange tokens of experts, and the errors of the fit."""
    found: dict[str, Any] = {}
    errors: list[float] = []
    for kernel, phase, group, rows in rows_of(partial(tables, where), fabric.exchange, fabric.groups, fabric.alltoall):
        sent, ns = np.array(sorted(rows.items())).T
        kept = fit_lines(sent[::SPARSE], ns[::SPARSE], 2) if len(sent) > DENSE else fit_lines(sent, ns, 2)
        found.setdefault(kernel, {}).setdefault(phase, {})[group] = [
            [round(base, 1), round(1 / slope / fabric.gbps, 4)] for base, slope in kept]
        errors += list(abs(np.min([base + slope * sent for base, slope in kept], axis=0) / ns - 1))
    return ({"exchange": found}, "; exchange " + said(errors)) if found else ({}, "")


def simulated_host(host: Fabric) -> dict[str, Any]:
    """For simulated messages: the share of the link that rings reach among the most ranks (geometric mean of all_gather
    and reduce_scatter), and half of the latency of the smallest all_gather (through a switch it has two hops)."""
    most = max(host.ops[CommOp.ALL_GATHER])
    shares = [best_busbw(op, most, host, 1.0) for op in (CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER)]
    first = host.ops[CommOp.ALL_GATHER][most][0][0]
    return {"efficiency": round(float(np.sqrt(shares[0] * shares[1])), 3), "latency": f"{first / 2:.0f} ns"}


def said(errors: Sequence[float]) -> str:
    """Errors in a sentence."""
    middle, high = np.percentile(np.array(errors) * 100, [50, 90])
    return f"fit: median {middle:.1f} %, p90 {high:.1f} % of {len(errors)} rows"


def network_row(fabric: NetworkFabric, rows: Sequence[Row], found: dict[str, Any], where: Path) -> dict[str, Any]:
    """Lines of an all_reduce of two hosts (the fabric's rows of other hosts and operations are judged only)."""
    plain: dict[str, Any] = {"title": fabric.title, "kind": "hosts", "link": f"{fabric.gbps:g} GB/s",
                             "technology": fabric.technology, "source": fabric.source, "lines": [[1.0, 1.0]]}
    nics, points = read("it", {"it": plain}), []
    for row in rows:
        host, group = read(row.host, found), Layout(row.ranks // row.hosts, row.hosts)
        before, wire = wire_ns(row.op, row.size, group, host, nics)
        if row.op == CommOp.ALL_REDUCE:
            points.append((wire, row.ns - before))
    wire_of, ns = np.array(sorted(points)).T
    own = two_hosts(fit_lines(wire_of, ns, max(1, min(3, len(points) // ROWS_A_LINE))), rows[0].hosts)
    less = found[fabric.small]["lines"] if fabric.small else []
    if less:
        plain["borrows"] = fabric.small
    plain["lines"] = [each for each in less if each[0] < own[0][0] and each[1] < own[0][1]] + own
    nics = read("it", {"it": plain})
    errors = [abs(measured_ns(row.op, row.size, Layout(row.ranks // row.hosts, row.hosts), read(row.host, found), nics)
                  / row.ns - 1) for row in rows if row.op == CommOp.ALL_REDUCE]
    exchange, exchange_error = exchange_row(fabric, where)
    # simulated: the share of the largest payloads; a crossing is half of an all_reduce's latency, and two hops
    own_share = min(1.0, max(share for _, share in plain["lines"]))
    return {**plain, "efficiency": round(own_share, 3), "latency": f"{plain['lines'][0][0] / 4:.0f} ns",
            **exchange, "error": said(errors) + exchange_error}


def two_hosts(found: Sequence[tuple[float, float]], hosts: int) -> list[list[float]]:
    """Lines of two hosts from those of an all_reduce of `hosts`, whose latency has 2 log2(hosts) crossings."""
    more = 2 * np.log2(hosts) - 2
    crossing = found[0][0] / (2 + more)
    return [[round(base - more * crossing, 1), round(1 / slope, 4)] for base, slope in found]


def hosts_rows(shared: Path | None) -> list[Row]:
    """Rows of several hosts: of the repository, and of the shared file where a fabric here names their source."""
    found = [row for row in own_rows() if row.hosts > 1]
    if shared is None:
        return found
    with shared.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.extend(shared_row(row))
    return found


def own_rows() -> list[Row]:
    """The rows of the repository."""
    with (ROOT / "benchmarks/data/nccl_hosts.csv").open(encoding="utf-8") as file:
        return [Row(row["nic"], row["host"], int(row["n_gpus"]), int(row["nodes"]), CommOp[row["op"].upper()],
                    float(row["size_B"]), float(row["time_us"]) * 1e3) for row in csv.DictReader(file)]


def shared_row(row: dict[str, str]) -> Iterable[Row]:
    """A row of the shared file, where a fabric here takes its source and hardware and it has several hosts."""
    for fabric in NETWORKS:
        if fabric.shared and row["hw"] == fabric.shared and int(row["nodes"] or 1) > 1:
            op, ranks, size = CommOp[row["op"].upper()], int(row["n_gpus"]), float(row["size_B"])
            yield Row(fabric.name, fabric.host, ranks, int(row["nodes"]), op, size, ns_of(row, op, size, ranks))


def ns_of(row: dict[str, str], op: CommOp, size: float, ranks: int) -> float:
    """The time of a shared row, from its bus bandwidth where it states no time."""
    return float(row["time_us"]) * 1e3 if row["time_us"] else size * bus_factor(op, ranks) / float(row["busbw_GBs"])


def dump(rows: dict[str, dict[str, Any]]) -> str:
    """TOML, in the order of the rows."""
    parts = ["# Measured collectives. Written by tools/fit_collectives.py; docs/background/measured-collectives.md.\n"
             "# A line is [ns, share of the link]: time = least over lines (ns + bytes on the bus / (share x link)).\n"
             "# kind host: lines per operation and ranks. kind hosts: lines of an all_reduce of two hosts, without\n"
             "# the latency inside a host. like: fabrics whose lines are taken, because this one has no rows.\n"
             "# borrows: the fabric whose lines of more ranks, or of smaller payloads, are among these.\n"
             "# exchange: of kernels that exchange tokens of experts, by ranks or hosts x ranks in each: time = least\n"
             "# over lines (ns + bytes that a rank sends to others / (share x link)). Rows: the wheel's systems/data,\n"
             "# DEVICE/comm/sglang/0.5.12/wideep_deepep_{normal,ll}_perf.parquet (networks: h100_sxm, 0.5.6.post2),\n"
             "# gb200/comm/trtllm/1.3.0rc10/trtllm_alltoall_perf.parquet (TensorRT-LLM 1.2.0rc6; GB300 has them too).\n"
             "# efficiency, latency: for dims whose messages are simulated.\n"]
    for name, row in rows.items():
        own = [f"{key} = {_toml(value)}\n" for key, value in row.items() if not isinstance(value, dict)]
        parts.append(f"\n[{name}]\n" + "".join(own))
        for kernel, phases in row.get("exchange", {}).items():
            for phase, by_group in phases.items():
                parts.append(f"[{name}.exchange.{kernel}.{phase}]\n" +
                             "".join(f"{group} = {_toml(each)}\n" for group, each in by_group.items()))
        for op, by_ranks in row.get("ops", {}).items():
            parts.append(f"[{name}.ops.{op}]\n" + "".join(f"{n} = {_toml(each)}\n" for n, each in by_ranks.items()))
    return "".join(parts)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace('"', "'") + '"'
    return "[" + ", ".join(map(_toml, value)) + "]" if isinstance(value, list | tuple) else f"{value:g}" if \
        abs(value) < 1e5 else f"{value:.0f}"


def main(arguments: Sequence[str]) -> None:
    """Write the file to stdout."""
    where, shared = Path(arguments[0]), Path(arguments[1]) if len(arguments) > 1 else None
    found: dict[str, dict[str, Any]] = {}
    for fabric in HOSTS:
        found[fabric.name] = host_row(fabric, where, found)
    rows = hosts_rows(shared)
    for network in NETWORKS:
        own = [row for row in rows if row.fabric == network.name]
        if own:
            found[network.name] = network_row(network, own[::network.every], found, where)
    found.update(STAND_INS)
    sys.stdout.write(dump(found))


if __name__ == "__main__":
    main(sys.argv[1:])
