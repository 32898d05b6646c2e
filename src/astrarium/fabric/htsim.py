"""Topology files of htsim (`.topo`): fat trees and leaf-spine networks of two or three tiers of equal switches.

A header `Nodes`, `Tiers`, `Podsize`, then a section `Tier 0` (switches of hosts) to `Tier 2` (core switches) each; a
key and a whole number per line. As htsim reads them (https://github.com/Broadcom/csg-htsim, commit 841d9e7b,
sim/datacenter/fat_tree_topology.cpp): with a aggregation switches per pod, number p of a pod has links to the core
switches p, p + a, p + 2a and so on. A `Bundle`, several links between the same two switches, is one link of their sum
here. A switch has a latency there; here each link at a switch has half of it, so that a way takes as long. Queues are
not part of a fabric.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from astrarium.errors import InputError, nearest
from astrarium.fabric.make import between, component, device, document, instance, link
from astrarium.fabric.schema import Document, Edge

__all__ = ["fat_tree", "is_fat_tree"]

MOST = 1 << 22
HEAD = ("nodes", "tiers", "podsize")
_NEEDED = ("downlink_speed_gbps", "radix_down", "downlink_latency_ns")
_KEYS = (*_NEEDED, "radix_up", "bundle", "oversubscribed", "switch_latency_ns", "queue_up", "queue_down")
_FIRST = re.compile(r"(?:\s*#[^\n]*\n|\s*\n)*[ \t]*(?:nodes|tiers|podsize)[ \t]+\d", re.IGNORECASE)
LINKS, SWITCHES = ("access", "spine", "core"), ("tor", "agg", "core")

Values = dict[str, int]


class _Tree(Struct, frozen=True):
    """Hosts, switches and links, counted. `tors`, `aggs`: of a pod; `cores`: of an aggregation switch."""

    hosts: int
    pods: int
    tors: int
    aggs: int
    cores: int
    bundles: tuple[int, int]        # links between two switches of tiers 0 and 1, 1 and 2


def is_fat_tree(text: str) -> bool:
    """Whether text begins as such a file does."""
    return _FIRST.match(text) is not None


def fat_tree(text: str, where: str) -> Document:
    """The file as a document: links `access`, `spine` and, with three tiers, `core`; hosts are XPUs. Raises InputError
    with the line, or with the tier whose numbers do not fit."""
    head, tiers = _read(text, where)
    tree = _counted(head, tiers, where)
    levels = range(len(tiers))
    counts = (tree.pods * tree.tors, tree.pods * tree.aggs, tree.aggs * tree.cores)
    latency = [tiers[level]["downlink_latency_ns"] + sum(tiers[each].get("switch_latency_ns", 0) / 2
                                                         for each in (level - 1, level) if each >= 0)
               for level in levels]
    devices = [device("host", [component("xpu", "xpu", 1)]), device("switch", [component("asic", "switch", 1)])]
    return document("fat_tree", devices,
                    [link(LINKS[level], bundle * tiers[level]["downlink_speed_gbps"] / 8, latency[level],
                          f"{bundle} links" if bundle > 1 else "")
                     for level, bundle in zip(levels, (1, *tree.bundles), strict=False)],
                    [instance("host", tree.hosts), *(instance(SWITCHES[level], counts[level], "switch")
                                                     for level in levels)],
                    _edges(tree, tiers[0]["radix_down"]), {LINKS[level]: "scale_out" for level in levels})


def _read(text: str, where: str) -> tuple[Values, list[Values]]:
    """The header, and a mapping per tier."""
    head: Values = {}
    tiers: dict[int, Values] = {}
    into = head
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        key, at = words[0].lower(), f"{where}:{number}"
        if len(words) != 2 or not (words[1].isascii() and words[1].isdigit() and len(words[1]) < 10):
            raise InputError(at, f"{line.strip()[:60]!r}", expected="a key and a whole number")
        known = ("tier", *(HEAD if into is head else _KEYS))
        if key not in known:
            raise InputError(at, f"unknown key {words[0][:60]!r}", expected="one of " + ", ".join(known),
                             did_you_mean=nearest(key, known))
        if key == "tier":
            into = tiers.setdefault(int(words[1]), {})
        if key in into or (key == "tier" and into):
            raise InputError(at, f"{words[0]} is there twice", expected="once")
        if key != "tier":
            into[key] = int(words[1])
    for key in HEAD:
        if not head.get(key):
            raise InputError(where, f"has no {key}", expected=f"{key.capitalize()} and a number above 0")
    count = head["tiers"]
    if count not in (2, 3) or sorted(tiers) != list(range(count)):
        raise InputError(where, f"Tiers {count}, and sections of {sorted(tiers)}",
                         expected="2 or 3 tiers, and a section for each, from Tier 0 on")
    for level, tier in sorted(tiers.items()):
        for key in (*_NEEDED, "radix_up") if level < count - 1 else _NEEDED:
            if not tier.get(key):
                raise InputError(f"{where}: tier {level}", f"has no {key}", expected="a number above 0")
    return head, [tiers[level] for level in range(count)]


def _counted(head: Mapping[str, int], tiers: list[Values], where: str) -> _Tree:
    """How many switches there are. Raises InputError where ports and links do not fit."""
    def fits(level: int, holds: bool, message: str, expected: str) -> None:
        if not holds:
            raise InputError(f"{where}: tier {level}", message, expected=expected)

    hosts, pod, down = head["nodes"], head["podsize"], tiers[0]["radix_down"]
    bundles = (tiers[1].get("bundle", 1), tiers[2].get("bundle", 1) if len(tiers) == 3 else 1)
    fits(0, hosts <= MOST and hosts % pod == 0 and pod % down == 0 and (len(tiers) == 3 or hosts == pod),
         f"{hosts} nodes in pods of {pod}, {down} at a switch", f"at most {MOST:,}, whole pods of whole switches, and "
         "one pod with two tiers")
    fits(0, tiers[0].get("bundle", 1) == 1, "a bundle", "one link to each node")
    pods, tors, above = hosts // pod, pod // down, list[int]()
    each = zip(tiers, tiers[1:], bundles, (tors, pods), strict=False)
    for level, (lower, upper, bundle, below) in enumerate(each, 1):
        up, ports = lower["radix_up"], upper["radix_down"]
        fits(level, bundle > 0 and up % bundle == 0, f"bundles of {bundle}", f"a part of the {up} ports up of tier "
             f"{level - 1}")
        fits(level, ports == below * bundle, f"Radix_Down {ports}", f"{below * bundle}: {below} "
             f"{'pods' if level == 2 else 'switches of a pod'}, {bundle} links each")
        speeds = lower["downlink_speed_gbps"] * lower["radix_down"], upper["downlink_speed_gbps"] * up
        fits(level - 1, speeds[0] == speeds[1] * lower.get("oversubscribed", 1),
             f"{speeds[0]} Gb/s down and {speeds[1]} up", f"{lower.get('oversubscribed', 1)} times (Oversubscribed)")
        above.append(up // bundle)
    return _Tree(hosts, pods, tors, above[0], above[1] if len(above) == 2 else 0, bundles)


def _edges(tree: _Tree, down: int) -> Iterator[Edge]:
    """Hosts to their switches; these to all aggregation switches of their pod; those to core switches."""
    for tor in range(tree.pods * tree.tors):
        yield between(f"host[{tor * down}:{(tor + 1) * down}]", "xpu", f"tor[{tor}]", "asic", "access", "many2many")
    for pod in range(tree.pods):
        yield between(f"tor[{pod * tree.tors}:{(pod + 1) * tree.tors}]", "asic",
                      f"agg[{pod * tree.aggs}:{(pod + 1) * tree.aggs}]", "asic", "spine", "many2many")
    for place in range(tree.aggs if tree.cores else 0):
        yield between(f"agg[{place}:{tree.pods * tree.aggs}:{tree.aggs}]", "asic",
                      f"core[{place}:{tree.aggs * tree.cores}:{tree.aggs}]", "asic", "core", "many2many")
