"""Fabrics for tests: small InfraGraph documents as plain data, and designs on them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import astrarium as ar
from astrarium.fabric.files import document_of, written
from astrarium.fabric.schema import Document

NUMBERS = {"bandwidth": "50 GB/s", "latency": "500 ns"}
SWITCH = {"name": "switch", "components": [{"name": "asic", "count": 1, "choice": "switch"},
                                           {"name": "port", "count": 4, "choice": "port"}],
          "links": [{"name": "inside"}],
          "edges": [{"ep1": {"component": "asic"}, "ep2": {"component": "port"}, "scheme": "many2many",
                     "link": "inside"}]}


def link(name: str, gigabits: float | None = None, ns: float | None = None) -> dict[str, Any]:
    """A link of the schema."""
    physical: dict[str, Any] = {}
    if gigabits is not None:
        physical["bandwidth"] = {"choice": "gigabits_per_second", "gigabits_per_second": gigabits}
    if ns is not None:
        physical["latency"] = {"choice": "ns", "ns": ns}
    return {"name": name, **({"physical": physical} if physical else {})}


def edge(one: str, two: str, over: str, scheme: str = "one2one") -> dict[str, Any]:
    """`host[0].nic` to `leaf[0].port[1]`."""
    ends = [dict(zip(("instance", "component"), end.split(".", 1), strict=True)) for end in (one, two)]
    return {"ep1": ends[0], "ep2": ends[1], "scheme": scheme, "link": over}


def two_hosts(rail: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Two hosts of two XPUs on an internal switch, each XPU with a card; two leaf switches; a spine."""
    host = {"name": "host", "components": [{"name": "xpu", "count": 2, "choice": "xpu"},
                                           {"name": "nvsw", "count": 1, "choice": "switch"},
                                           {"name": "nic", "count": 2, "choice": "nic"},
                                           {"name": "memory", "count": 1, "choice": "memory"}],
            "links": [link("nvlink", 800, 100), link("pcie"), link("bus")],
            "edges": [{"ep1": {"component": "xpu"}, "ep2": {"component": "nvsw"}, "scheme": "many2many",
                       "link": "nvlink"},
                      {"ep1": {"component": "xpu"}, "ep2": {"component": "nic"}, "scheme": "one2one", "link": "pcie"},
                      {"ep1": {"component": "xpu[0]"}, "ep2": {"component": "memory"}, "scheme": "one2one",
                       "link": "bus"}]}
    return {"name": "two hosts", "devices": [host, copy.deepcopy(SWITCH)],
            "links": [dict(rail or link("rail", 400, 500)), link("up", 400, 600)],
            "instances": [{"name": "host", "device": "host", "count": 2},
                          {"name": "leaf", "device": "switch", "count": 2},
                          {"name": "spine", "device": "switch", "count": 1}],
            "edges": [edge("host[0].nic", "leaf.port[0]", "rail"), edge("host[1].nic", "leaf.port[1]", "rail"),
                      edge("leaf[0].port[2]", "spine.port[0]", "up"), edge("leaf[1].port[2]", "spine.port[1]", "up")]}


def saved(plain: Mapping[str, Any] | Document, folder: Path, name: str = "fabric.yaml") -> str:
    """A file with this document; its path."""
    document = plain if isinstance(plain, Document) else document_of(plain, name)
    path = folder / name
    path.write_text(written(document, name))
    return str(path)


def all_reduce(network: ar.Network, payload: str = "1 MB", **more: Any) -> ar.Design:
    """One all_reduce of all NPUs."""
    return ar.Design(workload=ar.SingleCollective("all_reduce", payload), network=network, **more)
