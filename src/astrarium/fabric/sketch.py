"""A fabric small enough to draw: equal nodes as one box, links between boxes, layers by role.

Boxes are classes of nodes (`classes`). The finest of these starts that gives few enough boxes counts:

1. every node is a box;
2. nodes of one instance and one place inside their device start equal (so the eight rails of DGX hosts stay apart);
3. nodes of one instance and one component start equal;
4. nodes of one device and one component start equal;
5. nodes of one kind start equal, and classes split only while they are few enough (`Sketch.exact` is False).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from astrarium.arrays import I64, Bool
from astrarium.engine.connected import connected
from astrarium.fabric.classes import refined
from astrarium.fabric.expand import PORT, XPU, Expanded
from astrarium.fabric.schema import COMPONENTS

__all__ = ["Box", "Line", "Sketch", "sketch"]

EVERY, MOST = 32, 60        # nodes that are drawn one by one; boxes of a picture


class Box(Struct, frozen=True):
    """`count` equal nodes. `frame`: the number of the host that they are in, -1 outside; `row`: its layer, in a frame
    that of the host (0: XPUs), outside the distance from the hosts (from 1 on)."""

    title: str
    kind: str
    count: int
    frame: int
    row: int


class Line(Struct, frozen=True):
    """Links of one name between boxes: how many, and how many each node of `one` and of `two` has (least, most).
    `shape`: of a box with itself, such as `4 rings of 8`."""

    one: int
    two: int
    link: int
    count: int
    of_one: tuple[int, int]
    of_two: tuple[int, int]
    shape: str = ""


class Sketch(Struct, frozen=True):
    """Boxes, lines, frames (title, hosts) and the nodes that lie on no way between XPUs, by kind."""

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    frames: tuple[tuple[str, int], ...]
    left_out: dict[str, int]
    exact: bool


class _Drawn(Struct, frozen=True, eq=False):
    """What is drawn: nodes of the file (ascending), edges between them by their place there, whose copy each is."""

    found: Expanded
    node: I64           # [drawn]
    source: I64         # [edges] places in `node`
    target: I64
    link: I64
    instance: I64       # [drawn]
    copy: I64           # [drawn] number of the copy, over all instances
    inside: I64         # [drawn] node of the template
    host: Bool         # [drawn] in a copy that has an XPU


def sketch(found: Expanded, npus: I64, on_ways: Bool, plain: Bool) -> Sketch:
    """The picture of a fabric.

    Args:
        found: its nodes and edges.
        npus: nodes that are NPUs.
        on_ways: [edges] on ways between NPUs; others are left out.
        plain: [links] that take no time or of which nothing is known: over these, ports are part of their device.
    """
    drawn = _drawn(found, npus, on_ways, plain)
    colour, exact = _classes(drawn)
    count = int(colour.max()) + 1
    heads = np.array([int(np.flatnonzero(colour == each)[0]) for each in range(count)])
    lines = tuple(_lines(drawn, colour))
    frames, frame_of = _frames(drawn, colour, heads)
    rows = _rows(drawn, heads, lines, frame_of)
    boxes = tuple([Box(_title(drawn, np.flatnonzero(colour == each), frame_of[each] >= 0),
                       COMPONENTS[found.kinds[drawn.node[heads[each]]]], int((colour == each).sum()), frame_of[each],
                       rows[each]) for each in range(count)])
    gone = np.ones(found.nodes, np.bool_)
    gone[drawn.node] = False
    gone &= found.kinds != PORT
    kinds, counts = np.unique(found.kinds[gone], return_counts=True)
    return Sketch(boxes, lines, frames, {COMPONENTS[kind]: int(n) for kind, n in zip(kinds, counts)}, exact)


def _drawn(found: Expanded, npus: I64, on_ways: Bool, plain: Bool) -> _Drawn:
    where = np.arange(found.nodes)
    inner = np.flatnonzero(plain[found.link[:found.own]])
    for port, other in ((found.source[inner], found.target[inner]), (found.target[inner], found.source[inner])):
        of_port = (found.kinds[port] == PORT) & (found.kinds[other] != PORT)
        where[port[of_port]] = other[of_port]
    source, target, link = where[found.source[on_ways]], where[found.target[on_ways]], found.link[on_ways]
    kept = source != target
    node = np.unique(np.concatenate([source[kept], target[kept], npus]))
    firsts = np.array([at.first for at in found.placed])
    instance = np.searchsorted(firsts, node, "right") - 1
    size = np.array([at.template.size for at in found.placed])[instance]
    first_copy = np.cumsum([0, *(at.count for at in found.placed)])[instance]
    copy = first_copy + (node - firsts[instance]) // size
    host = np.isin(copy, copy[np.isin(node, npus)])
    return _Drawn(found, node, np.searchsorted(node, source[kept]), np.searchsorted(node, target[kept]),
                  link[kept].astype(np.int64), instance, copy, (node - firsts[instance]) % size, host)


def _classes(drawn: _Drawn) -> tuple[I64, bool]:
    if drawn.node.size <= EVERY:
        return np.arange(drawn.node.size), True
    for start in _starts(drawn):
        colour, exact = refined(start, drawn.source, drawn.target, drawn.link, MOST)
        if exact and colour.max() < MOST:
            return colour, True
    return colour, False


def _starts(drawn: _Drawn) -> Iterator[I64]:
    found = drawn.found
    most = max(at.template.size for at in found.placed)
    yield drawn.instance * most + drawn.inside
    names: dict[str, int] = {}
    slots = [[names.setdefault(re.sub(r"\.\d+", "", found.inside(at.template, node)), len(names))
              for node in range(at.template.size)] for at in found.placed]
    slot = np.array([slots[at][inside] for at, inside in zip(drawn.instance.tolist(), drawn.inside.tolist())])
    yield drawn.instance * len(names) + slot
    devices = sorted({at.template.name for at in found.placed})
    device = np.array([devices.index(at.template.name) for at in found.placed])
    yield device[drawn.instance] * len(names) + slot
    yield found.kinds[drawn.node].astype(np.int64)


def _lines(drawn: _Drawn, colour: I64) -> Iterator[Line]:
    if not drawn.source.size:
        return
    one, two = colour[drawn.source], colour[drawn.target]
    swap = one > two
    source, target = np.where(swap, drawn.target, drawn.source), np.where(swap, drawn.source, drawn.target)
    low, high = np.minimum(one, two), np.maximum(one, two)
    order = np.lexsort((drawn.link, high, low))
    key = np.stack([low, high, drawn.link])[:, order]
    heads = np.flatnonzero(np.r_[True, (key[:, 1:] != key[:, :-1]).any(axis=0)])
    sizes = np.bincount(colour)
    groups: dict[int, I64] = {}     # of a box: the parts that its first links make, where they are several
    for first, last in zip(heads, [*heads[1:], order.size], strict=True):
        a, b, link = (int(each) for each in key[:, first])
        begin, end = source[order[first:last]], target[order[first:last]]
        if a == b:
            degree = _degree(np.concatenate([begin, end]), int(sizes[a]))
            shape = _shape(begin, end, degree)
            if a in groups:
                shape = _between_groups(groups[a][begin], groups[a][end]) or shape
            elif " x " in shape:
                groups[a] = connected(colour.size, begin, end)
            yield Line(a, b, link, int(last - first), degree, degree, shape)
        else:
            yield Line(a, b, link, int(last - first), _degree(begin, int(sizes[a])), _degree(end, int(sizes[b])))


def _degree(ends: I64, nodes: int) -> tuple[int, int]:
    counts = np.unique(ends, return_counts=True)[1]
    return int(counts.min()) if counts.size == nodes else 0, int(counts.max())


def _shape(source: I64, target: I64, degree: tuple[int, int]) -> str:
    """What links among equal nodes are: rings, lines, pairs, all to all; else how many each has."""
    node, ends = np.unique(np.concatenate([source, target]), return_inverse=True)
    one, two = ends[:source.size], ends[source.size:]
    where = connected(node.size, one, two)
    parts, size = np.unique(where, return_counts=True)
    edges = np.bincount(np.searchsorted(parts, where[one]), minlength=parts.size)
    n, e = int(size[0]), int(edges[0])
    each = f"{degree[0]} to {degree[1]} each" if degree[0] != degree[1] else f"{degree[0]} each"
    if not degree[0] or (size != n).any() or (edges != e).any():
        return each
    form = ("pair" if n == 2 else "all-to-all" if e == n * (n - 1) // 2 and n > 3 else "ring" if degree == (2, 2)
            else "line" if e == n - 1 and degree == (1, 2) else "")
    if not form:
        return each if parts.size == 1 else f"{each}, in {parts.size:,} groups of {n:,}"
    if form == "pair":
        return f"{parts.size:,} pairs"
    return f"{form} of {n:,}" if parts.size == 1 else f"{parts.size:,} x {form} of {n:,}"


def _between_groups(one: I64, two: I64) -> str:
    """What links between groups of equal nodes are, where they join every two groups as often; else nothing."""
    apart = one != two
    if not apart.all():
        return ""
    count = np.unique(np.concatenate([one, two])).size
    pairs, times = np.unique(np.sort(np.stack([one, two]), axis=0), axis=1, return_counts=True)
    if pairs.shape[1] != count * (count - 1) // 2 or count < 3 or (times != times[0]).any():
        return ""
    return f"all-to-all of {count:,} groups" + (f", {int(times[0])} links each" if times[0] > 1 else "")


def _frames(drawn: _Drawn, colour: I64, heads: I64) -> tuple[tuple[tuple[str, int], ...], list[int]]:
    """Hosts of several boxes: (title, how many), and the frame of each box, -1 without one."""
    copies = [np.unique(drawn.copy[colour == each]) for each in range(heads.size)]
    keys = [tuple(each.tolist()) if drawn.host[head] else () for each, head in zip(copies, heads)]
    known: dict[tuple[int, ...], int] = {}
    titles = []
    for key, head in zip(keys, heads):
        if key and keys.count(key) > 1 and key not in known:
            known[key] = len(known)
            at = drawn.found.placed[int(drawn.instance[head])]
            first = sum(each.count for each in drawn.found.placed[:int(drawn.instance[head])])
            same = at.first + at.count * at.template.size > drawn.node[np.isin(drawn.copy, key)].max()
            name = at.name if same else at.template.name
            titles.append((f"{name}.{key[0] - first}" if len(key) == 1 and at.count > 1 else name, len(key)))
    return tuple(titles), [known.get(key, -1) for key in keys]


def _rows(drawn: _Drawn, heads: I64, lines: Sequence[Line], frame_of: Sequence[int]) -> list[int]:
    near: list[set[int]] = [set() for _ in range(heads.size)]
    for line in lines:
        if line.one != line.two:
            near[line.one].add(line.two)
            near[line.two].add(line.one)
    host = drawn.host[heads]
    row: dict[int, int] = {}
    here = [each for each in range(heads.size) if host[each] and drawn.found.kinds[drawn.node[heads[each]]] == XPU]
    step = 0
    while here:     # inside hosts: from the XPUs
        row.update(dict.fromkeys(here, step))
        step += 1
        here = sorted({b for a in here for b in near[a] if b not in row and frame_of[b] == frame_of[a] >= 0})
    for each in range(heads.size):
        if host[each] and row.get(each, 1) == 1 and near[each] and all(row.get(other) == 0 for other in near[each]) \
                and frame_of[each] >= 0 and row.get(each) != 0:
            row[each] = -1
    for each in range(heads.size):      # links out of a host are on top
        if host[each] and row.get(each, 0) > 0 and any(not host[other] for other in near[each]):
            row[each] = max(row[other] for other in row if frame_of[other] == frame_of[each])
    here = sorted({b for a in range(heads.size) if host[a] for b in near[a] if not host[b]})
    step = 1
    while here:     # outside: from the hosts
        row.update(dict.fromkeys(here, step))
        step += 1
        here = sorted({b for a in here for b in near[a] if b not in row and not host[b]})
    return [row.get(each, 0) for each in range(heads.size)]


def _title(drawn: _Drawn, members: I64, framed: bool) -> str:
    """What the nodes of a box have in common in their names."""
    found = drawn.found
    at = found.placed[int(drawn.instance[members[0]])]
    if members.size == 1:
        name = found.name(int(drawn.node[members[0]]))
        rest = found.inside(at.template, int(drawn.inside[members[0]]))
        if framed:
            return rest
        copy = at.name if at.count == 1 else name.removesuffix(f".{rest}")
        return copy if (drawn.copy == drawn.copy[members[0]]).sum() == 1 else f"{copy}.{rest}"
    inside = np.unique(drawn.inside[members])
    name = found.inside(at.template, int(inside[0]))
    if inside.size > 1:
        name = re.sub(r"\.\d+", "", name)
    if framed:
        return name
    same = (drawn.instance[members] == drawn.instance[members[0]]).all()
    owner = at.name if same else at.template.name
    alone = members.size == np.unique(drawn.copy[members]).size and not (
        np.isin(drawn.copy, drawn.copy[members]).sum() > members.size)
    return owner if alone else f"{owner} {name}"
