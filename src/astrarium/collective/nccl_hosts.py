"""Logs of nccl-tests over several hosts to a fabric between hosts (`collective.fabrics`, kind `hosts`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from astrarium.arrays import F64
from astrarium.collective.bandwidth import bus_factor
from astrarium.collective.fabrics import Fabric, Line
from astrarium.collective.lines import fit_lines
from astrarium.collective.measured import Layout, measured_ns, rule_ns, wire_ns
from astrarium.collective.nccl_log import SPARSE, Log, fitted, medians
from astrarium.errors import InputError
from astrarium.vocab import CommOp

__all__ = ["hosts_text"]

MOST = 3        # lines
Measured = Mapping[tuple[CommOp, int, int], tuple[F64, F64]]


def hosts_text(name: str, link: str, link_rate: float, logs: Sequence[Log],
               host: Fabric | None) -> tuple[str, Mapping[str, float]]:
    """(a row of the catalog's collectives as TOML, median error of each "op of hosts x ranks", of its own lines and of
    the rule that other layouts follow). `link_rate`: bytes/ns of one NPU's NIC; `host`: the fabric inside the hosts,
    needed where they have more than one rank."""
    measured = medians(logs)
    over: dict[CommOp, dict[tuple[int, int], list[list[float]]]] = {}
    for (op, hosts, ranks), (size, ns) in measured.items():
        each = ranks // hosts
        if each > 1 and host is None:
            raise InputError("--inside", "is missing",
                             expected=f"the fabric inside hosts, which have {each} ranks each")
        lines, _ = fitted(size * bus_factor(op, ranks), ns, link_rate * each)
        over.setdefault(op, {})[hosts, each] = lines
    nics = Fabric(name, "hosts", link_rate, {}, ((0.0, 1.0),), (), {}, host=host.name if host else "", over={
        op: {at: tuple((latency, share) for latency, share in lines) for at, lines in rows.items()}
        for op, rows in over.items()})
    rule = _rule(measured, host or nics, nics)
    nics = Fabric(name, "hosts", link_rate, {}, rule, (), {}, host=nics.host, over=nics.over)
    errors = _errors(measured, host or nics, nics)
    text = [f"[collectives.{name}]", f'title = "{name}"', 'kind = "hosts"', f'link = "{link}"',
            *([f'host = "{host.name}"'] if host else []),
            'source = "your own nccl-tests, by astrarium calibrate"',
            f'error = "fit: median {100 * float(np.median(list(errors.values())[::2])):.1f} %"',
            f"lines = {[list(line) for line in rule]}"]
    for op, rows in over.items():
        text.append(f"[collectives.{name}.ops.{op.name.lower()}]")
        text += [f'"{hosts}x{each}" = {rows[hosts, each]}' for hosts, each in sorted(rows)]
    return "\n".join(text) + "\n", errors


def _rule(measured: Measured, host: Fabric, nics: Fabric) -> tuple[Line, ...]:
    """Lines of an all_reduce of two hosts, without the latency inside a host, from the all_reduce of the fewest hosts
    (another operation where there is none)."""
    op, hosts, ranks = min(measured, key=lambda key: (key[0] != CommOp.ALL_REDUCE, key[1], -key[2]))
    group = Layout(ranks // hosts, hosts)
    size, ns = measured[op, hosts, ranks]
    waited = [(*wire_ns(op, each, group, host, nics), time) for each, time in zip(size.tolist(), ns.tolist())]
    points = sorted((wire, time - before) for before, wire, time in waited if time > before)
    if len(points) < SPARSE:
        raise InputError("--inside", f"the latency inside {host.name} is more than what the logs took",
                         expected="the fabric inside these hosts")
    wire, rest = np.array(points).T
    found = [line for line in fit_lines(wire, rest, min(MOST, len(points) // SPARSE)) if line[1] > 0]
    own, crossings = (2.0, 2 * np.log2(hosts)) if op == CommOp.ALL_REDUCE else (
        1.0, 1.0 if op == CommOp.ALL_TO_ALL else hosts - 1.0)
    if not found:
        raise InputError("calibrate --fabric", "times do not grow with sizes", expected="logs up to large payloads")
    crossing = found[0][0] / crossings      # of every line's latency, `own` crossings are its own, the rest the first's
    return tuple((round(float(max(0.0, base - (crossings - own) * crossing) * 2 / own), 1), round(1 / slope, 6))
                 for base, slope in found)


def _errors(measured: Measured, host: Fabric, nics: Fabric) -> dict[str, float]:
    found = {}
    for (op, hosts, ranks), (size, ns) in measured.items():
        group = Layout(ranks // hosts, hosts)
        for what, time in (("", measured_ns), (", by the rule for other layouts", rule_ns)):
            times = np.array([time(op, each, group, host, nics) for each in size.tolist()])
            name = f"{op.name.lower()} of {hosts} x {ranks // hosts} ranks{what}"
            found[name] = float(np.median(np.abs(times / ns - 1)))
    return found
