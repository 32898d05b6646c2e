"""From a measured collective (nccl-tests, rccl-tests) to the design that predicts it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from astrarium import catalog, config
from astrarium.collective.bandwidth import bus_factor
from astrarium.collective.fabrics import fabric
from astrarium.design import Design
from astrarium.errors import InputError, nearest
from astrarium.simulate import simulate
from astrarium.validate.designs import Candidate
from astrarium.validate.rows import Row
from astrarium.validate.systems import EFA, system_of
from astrarium.vocab import CommOp

__all__ = ["busbw_of", "collective_ns", "design_of", "fitted_collectives"]

NETWORKS = ((r"a3.?mega|tcpxo", "gcp_a3_mega"), (r"\ba4\b", "gcp_a4"), (r"p4de?\b", "efa_p4de"), (r"\boci\b|oracle",
            "oci_a100_roce"), (r"roce|ethernet", "ethernet_400g"))
OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
TABLES = "aiconfigurator"       # the tables whose rows were fitted, all of them
HALVED = {"H100 8/node": "gcp_a3_mega", "B200 EFA 50GB/s/GPU": "efa_b200"}      # every second row was fitted


def design_of(row: Row) -> Candidate:
    """The design of a row: its fabric, hosts and one collective of all. Raises InputError where there is none."""
    op, ranks = row.text("op"), row.count("n_gpus") or 0
    if op not in OPS:
        raise InputError("op", f"{op[:60]!r} is not one of the measured collectives",
                         expected="one of " + ", ".join(OPS), did_you_mean=nearest(op, OPS))
    size = _bytes(row)
    if ranks < 2:
        raise InputError("n_gpus", f"{ranks} are no group", expected="two or more")
    assumed: list[str] = []
    system = system_of(row)
    fabric(system.inner, "hw")      # refused here where nothing was measured
    hosts = row.count("nodes") or max(1, ranks // system.hosted)
    if row.count("nodes") is None:
        assumed.append(f"nodes: {hosts}")
    if ranks % hosts:
        raise InputError("n_gpus", f"{ranks} do not fill {hosts} hosts")
    dims: list[dict[str, Any]] = [{"like": system.inner, "npus": ranks // hosts, "latency": "0 ns"}]
    if hosts > 1:
        dims.append({"like": _network(row, system.device, system.outer, assumed), "npus": hosts, "latency": "0 ns"})
    if row.text("algo").lower() == "ring" and fabric(system.inner).in_network:
        assumed.append("algo: the library's choice, which may not be the row's ring")
    design = config.decode(Design, {"workload": {"source": "collective", "op": op, "payload": f"{size:.0f} B"},
                                    "network": {"dims": dims}, "collective": {"model": "measured"}})
    return Candidate(design, "nccl", system.device, tuple(assumed), not assumed)


def _bytes(row: Row) -> float:
    try:
        size = float(row.text("size_B"))
    except ValueError:
        size = -1.0
    if not 0 < size < 2.0**53:
        raise InputError("size_B", f"{row.text('size_B')[:60]!r} is no number of bytes", expected="bytes, more than 0")
    return size


def _network(row: Row, device: str, otherwise: str, assumed: list[str]) -> str:
    """What joins the hosts, from the words of the row."""
    words = f"{row.text('hw')} {row.source}".lower()
    for pattern, name in NETWORKS:
        if re.search(pattern, words):
            return name
    if "efa" in words and device in EFA:
        return EFA[device]
    if not re.search(r"infiniband|\bndr\b|\bhdr\b", words):
        assumed.append(f"network: {otherwise}")
    return otherwise


def collective_ns(meant: Candidate) -> float:
    """ns of the collective."""
    return float(simulate(meant.design, record=False).makespan)


def busbw_of(row: Row, time_ns: float) -> float:
    """Bus bandwidth in GB/s of the row's collective in `time_ns`."""
    op = CommOp[row.text("op").upper()]
    return _bytes(row) * bus_factor(op, row.count("n_gpus") or 1) / time_ns


def fitted_collectives(rows: Sequence[Row]) -> list[bool]:
    """Whether each row is one on which lines of a fabric were fitted (tools/fit_collectives.py)."""
    seen: dict[str, int] = {}
    found = []
    for row in rows:
        halved = row.kind == "collective" and HALVED.get(row.text("hw")) in catalog.load("collectives") and (
            row.count("nodes") or 1) > 1
        if halved:
            seen[row.text("hw")] = seen.get(row.text("hw"), -1) + 1
        found.append(row.kind == "collective" and (row.source.startswith(TABLES)
                                                   or (halved and seen[row.text("hw")] % 2 == 0)))
    return found
