"""Errors of measured collectives: fitted, and with each fabric left out, beside the targets and a simple rival.

    python benchmarks/measured_collectives.py TABLES [SHARED.csv]      (arguments as of tools/fit_collectives.py)

A fabric that is left out is predicted from its data sheet's link rate and the lines of the other fabrics: those of the
same link technology (H100 for H200), else all of the same medium (NVLink, PCIe, network). "technology left out" forbids
the first as well. The rival: 80 % of the link rate and the median latency of the other fabrics.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]

from collective_fabrics import HOSTS  # noqa: E402
from fit_collectives import Row, host_rows, hosts_rows, ns_of  # noqa: E402

import astrarium as ar  # noqa: E402
from astrarium import catalog  # noqa: E402
from astrarium.collective.bandwidth import bus_factor  # noqa: E402
from astrarium.collective.fabrics import Fabric, read  # noqa: E402
from astrarium.collective.measured import Layout, measured_ns  # noqa: E402
from astrarium.vocab import CommOp  # noqa: E402

Rows = Mapping[str, Mapping[str, Any]]
Times = list[tuple[float, float]]      # (predicted, measured) ns
LARGE = 256 << 20
MEDIUM = {"nvlink3": "nvlink", "nvlink4": "nvlink", "nvlink5": "nvlink", "pcie4": "pcie", "pcie5": "pcie",
          "infinity_fabric": "nvlink"}


def stand_ins(name: str, rows: Rows, technology_too: bool) -> tuple[str, ...]:
    """Fabrics with rows that predict `name`."""
    row = rows[name]
    others = [other for other, each in rows.items() if other != name and each["kind"] == row["kind"]
              and "like" not in each and each["technology"] != "infinity_fabric"]  # groups of eight alone
    same = [other for other in others if rows[other]["technology"] == row["technology"]]
    if same and not technology_too:
        return tuple(same)
    near = [other for other in others if medium(rows[other]) == medium(row) and other not in same]
    return tuple(near or [other for other in others if other not in same])


def medium(row: Mapping[str, Any]) -> str:
    """NVLink, PCIe or network."""
    return MEDIUM.get(row["technology"], "network")


def left_out(name: str, rows: Rows, technology_too: bool) -> Fabric:
    """`name` as if it had no rows."""
    row = {key: value for key, value in rows[name].items() if key not in ("ops", "lines", "exchange")}
    others = {other: _without(each, rows[name]) if each.get("borrows") == name else each
              for other, each in rows.items() if other != name}
    return read(name, {**others, name: {**row, "like": stand_ins(name, rows, technology_too)}})


def _without(row: Mapping[str, Any], owner: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row less the lines that it has from `owner`."""
    ops = {op: {n: lines for n, lines in by_ranks.items() if lines != owner["ops"][op].get(n)}
           for op, by_ranks in row.get("ops", {}).items()}
    return {**row, "ops": ops, "lines": [each for each in row.get("lines", ()) if each not in owner.get("lines", ())]}


def one_host(where: Path, of: Callable[[str], Fabric]) -> dict[str, Times]:
    """Per fabric."""
    found: dict[str, Times] = {}
    for host in HOSTS:
        fabric = of(host.name)
        for row in host_rows(host, where):
            found.setdefault(host.name, []).append((measured_ns(row.op, row.size, Layout(row.ranks), fabric), row.ns))
    return found


def one_host_rival(where: Path) -> dict[str, Times]:
    """80 % of the link, and the median latency of the smallest payload of the other fabrics."""
    all_rows = {host.name: host_rows(host, where) for host in HOSTS}
    found: dict[str, Times] = {}
    for host in HOSTS:
        latency = float(np.median([row.ns for other, rows in all_rows.items() if other != host.name
                                   for row in rows if row.size <= 1024]))
        for row in all_rows[host.name]:
            time = latency + row.size * bus_factor(row.op, row.ranks) / (0.8 * host.gbps)
            found.setdefault(host.name, []).append((time, row.ns))
    return found


def several_hosts(measured: Sequence[Row], rows: Rows, of: Callable[[str], Fabric], large: bool) -> dict[str, Times]:
    """Per network and operation, payloads of 256 MiB and more, or smaller ones."""
    found: dict[str, Times] = {}
    for row in measured:
        if (row.size >= LARGE) == large:
            group = Layout(row.ranks // row.hosts, row.hosts)
            time = measured_ns(row.op, row.size, group, read(row.host, rows), of(row.fabric))
            found.setdefault(f"{row.fabric} {row.op.name.lower()}", []).append((time, row.ns))
    return found


def several_hosts_rival(measured: Sequence[Row], rows: Rows) -> dict[str, Times]:
    """80 % of the NICs' rate, bytes of a ring."""
    found: dict[str, Times] = {}
    for row in measured:
        if row.size >= LARGE:
            rate = 0.8 * read(row.fabric, rows).link * row.ranks / row.hosts
            time = row.size * bus_factor(row.op, row.ranks) / rate
            found.setdefault(f"{row.fabric} {row.op.name.lower()}", []).append((time, row.ns))
    return found


def unseen_one_host(shared: Path, rows: Rows) -> dict[str, Times]:
    """Shared rows of one host that no fit has seen, per source."""
    import csv

    hosts = {"A100 8": "dgx_a100_nvswitch", "H100 8": "dgx_h100_nvswitch", "H200": "dgx_h200_nvswitch",
             "B200": "dgx_b200_nvswitch", "B200 EFA 50GB/s/GPU": "dgx_b200_nvswitch", "HGX-H100": "dgx_h100_nvswitch"}
    found: dict[str, Times] = {}
    with shared.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["hw"] not in hosts or row["nodes"] != "1":
                continue
            op, size, ranks = CommOp[row["op"].upper()], float(row["size_B"]), int(row["n_gpus"])
            ns = ns_of(row, op, size, ranks)
            time = measured_ns(op, size, Layout(ranks), read(hosts[row["hw"]], rows))
            found.setdefault(f"{row['source'][:28]} {row['hw']}", []).append((time, ns))
    return found


def simulated(rows: Rows, measured: Sequence[Row]) -> dict[str, Times]:
    """Simulated collectives of 256 MiB and more, on dims with the rows' efficiency and latency."""
    found: dict[str, Times] = {}
    for host in HOSTS:
        value = read(host.name, rows)
        for op, by_ranks in value.ops.items():
            group = Layout(max(by_ranks))
            found.setdefault(f"{host.name} {op.name.lower()}", []).append(
                (_run(op, LARGE, [_dim(rows[host.name], group.per_host)]), measured_ns(op, LARGE, group, value)))
    for row in measured:
        if row.size in (LARGE, 1 << 30, 8 << 30):
            dims = [_dim(rows[row.host], row.ranks // row.hosts), _dim(rows[row.fabric], row.hosts)]
            found.setdefault(f"{row.fabric} {row.op.name.lower()}", []).append((_run(row.op, row.size, dims), row.ns))
    return found


def _dim(row: Mapping[str, Any], npus: int) -> ar.Switch:
    return ar.Switch(npus, bandwidth_per_npu=row["link"], latency=row["latency"], efficiency=row["efficiency"])


def _run(op: CommOp, size: float, dims: Sequence[ar.Switch]) -> float:
    return float(ar.simulate(ar.Design(workload=ar.SingleCollective(op.name.lower(), payload=f"{size:.0f} B"),
                                       network=ar.Network(dims))).makespan)


def show(title: str, found: Mapping[str, Times]) -> None:
    """A line per fabric, and all."""
    print(f"\n{title}")
    for name, times in [*found.items(), ("all", [pair for each in found.values() for pair in each])]:
        print(f"  {name:44s} {line(times)}")


def line(times: Iterable[tuple[float, float]]) -> str:
    """Errors in figures."""
    predicted, measured = np.array(list(times)).T
    errors = np.abs(predicted / measured - 1) * 100
    within = np.mean(np.abs(np.log(predicted / measured)) <= np.log(1.25)) * 100
    return (f"{len(errors):5d} rows  median {np.median(errors):5.1f} %  p90 {np.percentile(errors, 90):5.1f} %  "
            f"bias {(np.exp(np.mean(np.log(predicted / measured))) - 1) * 100:+6.1f} %  within 1.25x {within:5.1f} %")


def main(arguments: Sequence[str]) -> None:
    """Print everything."""
    if not arguments:
        print("measured_collectives.py: no tables given (the wheel of aiconfigurator-core 0.12.0); nothing to do")
        return
    where, shared = Path(arguments[0]), Path(arguments[1]) if len(arguments) > 1 else None
    rows = catalog.load("collectives")
    measured = [row for row in hosts_rows(shared) if row.fabric in rows]
    fits: tuple[tuple[str, Callable[[str], Fabric]], ...] = (
        ("fitted", lambda name: read(name, rows)), ("fabric left out", lambda name: left_out(name, rows, False)),
        ("technology left out", lambda name: left_out(name, rows, True)))
    for title, of in fits:
        found = one_host(where, of)
        show(f"One host, {title} (target, left out: median 6 %, p90 20 %)", found)
        nvlink = [pair for name, each in found.items() if "_nv" in name for pair in each]
        print(f"  {'all NVSwitch':44s} {line(nvlink)}")
    show("One host, rival", one_host_rival(where))
    if shared:
        show("One host, shared rows that no fit has seen", unseen_one_host(shared, rows))
    for title, of in fits[:2]:
        show(f"Several hosts, 256 MiB and more, {title} (target, left out: median 12 %, within 1.25x)",
             several_hosts(measured, rows, of, large=True))
    show("Several hosts, below 256 MiB, fabric left out", several_hosts(measured, rows, fits[1][1], large=False))
    show("Simulated on dims with the measured efficiency, 256 MiB and more", simulated(rows, measured))
    show("Several hosts, rival", several_hosts_rival(measured, rows))


if __name__ == "__main__":
    main(sys.argv[1:])
