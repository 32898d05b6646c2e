"""Topology files of ns-3's HPCC code, as ASTRA-sim and SimAI read them.

ASTRA-sim: a line `nodes switches links`; SimAI: `nodes gpus_per_server nvswitches switches links gpu_type`. Then the
numbers of all switches, then a line per link: `from to 100Gbps 0.0005ms 0` (rate, delay, share of packets lost). Nodes
that are no switches are XPUs, in the order of their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from astrarium.errors import InputError
from astrarium.fabric.make import between, component, device, document, instance, link
from astrarium.fabric.schema import Document
from astrarium.units import Bandwidth, Time

__all__ = ["is_topology", "topology"]

MOST = 1 << 22
_HEAD = re.compile(r"\s*\d+(?:[ \t]+\d+){2}\s*\n|\s*\d+(?:[ \t]+\d+){4}[ \t]+\w+\s*\n")
_RATE = re.compile(r"(\d+(?:\.\d+)?)([kMGT]?)(b/s|bps|B/s|Bps)")


def is_topology(text: str) -> bool:
    """Whether text begins as such a file does."""
    return _HEAD.match(text) is not None


def topology(text: str, where: str) -> Document:
    """The file as a document: links of equal rate and delay have one name. Raises InputError with the line."""
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.split()]
    head = lines[0][1]
    nodes, count = int(head[0]), int(head[2] if len(head) == 3 else head[4])
    inner, switches = (0, int(head[1])) if len(head) == 3 else (int(head[2]), int(head[3]))
    if not 0 < nodes <= MOST or inner + switches > nodes:
        raise InputError(f"{where}:1", f"{nodes} nodes with {inner + switches} switches",
                         expected=f"1 to {MOST:,} nodes")
    numbers, at = _numbers(lines, inner + switches, nodes, where)
    if len(lines) - at != count:
        raise InputError(f"{where}:1", f"says {count} links, and {len(lines) - at} lines follow",
                         expected="as many lines")
    is_switch = [False] * nodes
    for number in numbers:
        is_switch[number] = True
    place, seen = [0] * nodes, [0, 0]
    for node in range(nodes):
        place[node] = seen[is_switch[node]]
        seen[is_switch[node]] += 1
    known: dict[tuple[float, float], str] = {}
    edges = []
    for number, words in lines[at:]:
        ends, key = _link(words, nodes, f"{where}:{number}")
        name = known.setdefault(key, f"link{len(known)}")
        one, two = [("switch" if is_switch[end] else "xpu", place[end]) for end in ends]
        edges.append(between(f"{one[0]}[{one[1]}]", one[0], f"{two[0]}[{two[1]}]", two[0], name))
    kinds = [kind for kind, some in (("xpu", seen[0]), ("switch", seen[1])) if some]
    return document("topology", [device(kind, [component(kind, kind, 1)]) for kind in kinds],
                    [link(name, *key) for key, name in known.items()],
                    [instance(kind, seen[kind == "switch"]) for kind in kinds], edges)


def _numbers(lines: Sequence[tuple[int, Sequence[str]]], count: int, nodes: int, where: str) -> tuple[list[int], int]:
    """The numbers of the switches, and the line after them."""
    found: list[int] = []
    at = 1
    while len(found) < count and at < len(lines):
        line, words = lines[at]
        for word in words:
            if not word.isdigit() or int(word) >= nodes or int(word) in found:
                raise InputError(f"{where}:{line}", f"{word[:20]!r} is no number of another switch",
                                 expected=f"0 to {nodes - 1}, each once")
            found.append(int(word))
        at += 1
    if len(found) != count:
        raise InputError(f"{where}:2", f"{len(found)} numbers of switches", expected=f"{count}")
    return found, at


def _link(words: Sequence[str], nodes: int, where: str) -> tuple[tuple[int, int], tuple[float, float]]:
    """(ends, (byte/ns, ns)) of a line."""
    rate = _RATE.fullmatch(words[2]) if len(words) == 5 else None
    if rate is None or not all(word.isdigit() and int(word) < nodes for word in words[:2]):
        raise InputError(where, f"{' '.join(words)[:60]!r} is no link",
                         expected=f"two nodes (0 to {nodes - 1}), rate, delay, loss: 0 8 100Gbps 0.0005ms 0")
    try:
        unit = "b/s" if rate[3][0] == "b" else "B/s"
        bandwidth, latency = float(Bandwidth(f"{rate[1]} {rate[2]}{unit}")), float(Time(words[3]))
        lost = float(words[4])
    except (InputError, ValueError) as error:
        raise InputError(where, str(error), expected="rate, delay, loss: 100Gbps 0.0005ms 0") from None
    if lost != 0 or bandwidth <= 0:
        raise InputError(where, f"{lost:g} of packets are lost" if lost else "a rate of 0",
                         expected="a link that loses nothing, and a rate above 0")
    return (int(words[0]), int(words[1])), (bandwidth, latency)
