"""A trace's graph as a picture: Graphviz's dot text, GraphML; large graphs by scope."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.errors import InputError
from astrarium.report.svg.graph import Shape, svg_text
from astrarium.report.trace.scopes import Path, opened
from astrarium.trace import Columns, index_of
from astrarium.units import format_time
from astrarium.vocab import NodeKind

__all__ = ["Picture", "dot_text", "graphml_text", "own_svg", "picture", "rendered"]

Edge = Literal["data", "control"]
COLOURS = {NodeKind.COMP: "#cfe2f3", NodeKind.COMM_COLL: "#f9cb9c", NodeKind.COMM_SEND: "#ffe599",
           NodeKind.COMM_RECV: "#ffe599", NodeKind.MEM_LOAD: "#d9ead3", NodeKind.MEM_STORE: "#d9ead3"}
HOST_COLOUR, OTHER = "#eeeeee", "#ffffff"
MEANING = {"#cfe2f3": "compute", HOST_COLOUR: "host", "#f9cb9c": "collective", "#ffe599": "send or receive",
           "#d9ead3": "memory access", OTHER: "other kinds"}
DIGITS = re.compile(r"#?\d+")
RENDERED = ("svg", "pdf", "png")
SPLIT = re.compile(r"[./]|::")
NS_PER_US, DEEPEST, SECONDS = 1000, 12, 300
LIMIT, CLEAR = 60, 2       # scopes; dependencies into one that are drawn


class Box(Struct, frozen=True):
    """A node, or all nodes of a scope."""

    label: str
    colour: str
    nodes: int
    recorded_us: int


class Picture(Struct, frozen=True):
    """Boxes and the dependencies between them: (from, to, kind) -> how many. `depth` of scopes, None: node by node."""

    boxes: tuple[Box, ...]
    edges: dict[tuple[int, int, Edge], int]
    depth: int | None


def picture(columns: Columns, *, limit: int = LIMIT, depth: int | None = None) -> Picture:
    """The graph of a trace, node by node where it has at most `limit` nodes, else by scope.

    A scope is the part of the name before a `.`, `/` or `::`; of profiled traces the names of the callers. `depth`
    parts of it count; left out: the scope that takes most time is opened, again and again, until there are `limit`.
    Numbers in names do not count if more scopes can be told apart without them; of a scope that has many, the smallest
    are one.
    """
    if depth is None and columns.nodes <= limit:
        return _drawn(columns, [_label(columns, node) for node in range(columns.nodes)], None)
    paths = _paths(columns)
    if depth is not None:
        return _drawn(columns, _most([path[:depth] for path in paths], limit), depth)
    weight = _weights(columns)
    plain = {path: tuple(DIGITS.sub("#", part) for part in path) for path in dict.fromkeys(paths)}
    keys = max(opened(paths, weight, limit, whole=True), opened([plain[path] for path in paths], weight, limit),
               key=lambda scopes: len(set(scopes)))
    return _drawn(columns, keys, max(map(len, keys)))


def _weights(columns: Columns) -> list[float]:
    """[nodes] what counts when scopes are opened: recorded time of devices, where there is none that of the host,
    else nodes."""
    time = columns.duration.astype(np.float64)
    device = np.where(_host(columns), 0.0, time)
    found: list[float] = ((device if device.any() else time) + 1e-9).tolist()
    return found


def _host(columns: Columns) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (columns.type == NodeKind.COMP) & (columns.is_cpu_op != 0)
    return found


def _most(keys: list[Path], limit: int) -> list[Path]:
    """[nodes] the scopes, the smallest of too many as one."""
    count = Counter(keys)
    if len(count) <= max(limit, 1):
        return keys
    kept = {key for key, _ in count.most_common(max(limit, 1) - 1)}
    rest = (f"{len(count) - len(kept):,} other scopes",)
    return [key if key in kept else rest for key in keys]


def _label(columns: Columns, node: int) -> Path:
    return (f"{int(columns.node_id[node])} {columns.name(node)}",)


def _paths(columns: Columns) -> list[Path]:
    """[nodes] the scope of every node: callers and itself where most have control dependencies, else its name's
    parts."""
    names = columns.names()
    if 2 * np.count_nonzero(np.diff(columns.ctrl_ptr)) < columns.nodes:
        return [tuple(SPLIT.split(name)) for name in names]
    parent = np.full(columns.nodes, -1, np.int64)
    called = np.flatnonzero(np.diff(columns.ctrl_ptr) > 0)
    parent[called] = index_of(columns, columns.ctrl_dep[columns.ctrl_ptr[called]])
    above, found = parent.tolist(), list[Path]()
    for node, name in enumerate(names):
        path, at = [name], above[node]
        while at >= 0 and len(path) < DEEPEST:
            path.append(names[at])
            at = above[at]
        found.append(tuple(reversed(path)))
    return found


def _drawn(columns: Columns, keys: list[Path], depth: int | None) -> Picture:
    place: dict[Path, int] = {}
    of = np.array([place.setdefault(key, len(place)) for key in keys], np.int64)
    count = np.bincount(of, minlength=len(place))
    time = np.bincount(of, weights=columns.duration.astype(np.float64), minlength=len(place))
    colour = _colours(columns, of, len(place))
    boxes = tuple(Box(" / ".join(key[-2:]), colour[number], int(count[number]), int(time[number]))
                  for key, number in place.items())
    edges: Counter[tuple[int, int, Edge]] = Counter()
    kinds: tuple[tuple[Edge, object, object], ...] = (("data", columns.data_ptr, columns.data_dep),
                                                      ("control", columns.ctrl_ptr, columns.ctrl_dep))
    for kind, ptr, ids in kinds:
        child = np.repeat(np.arange(columns.nodes), np.diff(np.asarray(ptr)))
        source = index_of(columns, np.asarray(ids, np.uint64))
        known = source >= 0
        pairs, times = np.unique(np.stack([of[source[known]], of[child[known]]], axis=1), axis=0, return_counts=True)
        edges.update({(a, b, kind): number for (a, b), number in zip(pairs.tolist(), times.tolist(), strict=True)
                      if a != b or depth is None})
    return Picture(boxes, dict(edges), depth)


def _colours(columns: Columns, of: npt.NDArray[np.int64], boxes: int) -> list[str]:
    """[boxes] the colour of the kind of node that takes most time, or where none does of the most frequent one. The
    host counts only where nothing else runs: its operators enclose what they launch."""
    colours = list(MEANING)
    by_kind = np.full(256, colours.index(OTHER), np.int64)
    for kind, colour in COLOURS.items():
        by_kind[kind] = colours.index(colour)
    host = _host(columns)
    number = np.where(host, colours.index(HOST_COLOUR), by_kind[columns.type])
    weight = (columns.duration.astype(np.float64) + 1e-9) * np.where(host, 1e-9, 1.0)
    share = np.bincount(of * len(colours) + number, weights=weight, minlength=boxes * len(colours))
    return [colours[at] for at in share.reshape(boxes, len(colours)).argmax(axis=1).tolist()]


def _strongest(drawn: Picture) -> tuple[dict[tuple[int, int, Edge], int], int]:
    """Of scopes the `CLEAR` most frequent dependencies into each, of data before control; how many are left out."""
    if drawn.depth is None:
        return drawn.edges, 0
    into: Counter[int] = Counter()
    kept: dict[tuple[int, int, Edge], int] = {}
    for key, count in sorted(drawn.edges.items(), key=lambda edge: (-edge[1], edge[0][2] == "control", edge[0])):
        if into[key[1]] < CLEAR and not {(key[0], key[1], kind) for kind in ("data", "control")} & kept.keys():
            into[key[1]] += 1
            kept[key] = count
    return kept, len(drawn.edges) - len(kept)


def dot_text(drawn: Picture) -> Iterator[str]:
    """Graphviz's language, line by line: control dependencies with a tee, as Chakra's visualizer draws them."""
    yield "digraph trace {"
    yield '  node [shape=box, style="rounded,filled", fontname="Helvetica"];'
    for number, box in enumerate(drawn.boxes):
        text = _quoted("\n".join(_lines(drawn, box)))
        yield f'  n{number} [label="{text}", fillcolor="{box.colour}"];'
    for (a, b, kind), count in drawn.edges.items():
        head = "normal" if kind == "data" else "tee"
        yield f'  n{a} -> n{b} [arrowhead={head}{f", label={count}" if count > 1 else ""}];'
    yield "}"


def _lines(drawn: Picture, box: Box) -> tuple[str, ...]:
    count = () if box.nodes == 1 and drawn.depth is None else (f"{box.nodes:,} nodes",)
    return (box.label, *count, *((format_time(box.recorded_us * NS_PER_US),) if box.recorded_us else ()))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def graphml_text(drawn: Picture) -> Iterator[str]:
    """GraphML, line by line, with the attribute `dependency` (data, control) of edges."""
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    for key, of, kind in (("label", "node", "string"), ("nodes", "node", "long"), ("recorded_us", "node", "long"),
                          ("dependency", "edge", "string"), ("count", "edge", "long")):
        yield f'  <key id="{key}" for="{of}" attr.name="{key}" attr.type="{kind}"/>'
    yield '  <graph edgedefault="directed">'
    for number, box in enumerate(drawn.boxes):
        yield (f'    <node id="n{number}"><data key="label">{_xml(box.label)}</data><data key="nodes">{box.nodes}'
               f'</data><data key="recorded_us">{box.recorded_us}</data></node>')
    for (a, b, kind), count in drawn.edges.items():
        yield (f"    <edge source={quoteattr(f'n{a}')} target={quoteattr(f'n{b}')}><data key=\"dependency\">{kind}"
               f'</data><data key="count">{count}</data></edge>')
    yield "  </graph>"
    yield "</graphml>"


def _xml(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return escape("".join(c if c >= " " or c in "\t\n" else "?" for c in text).encode("utf-8", "replace").decode())


def own_svg(drawn: Picture) -> str:
    """The picture as SVG without Graphviz; of scopes only the most frequent dependencies."""
    shapes = [Shape(tuple("\n".join(_lines(drawn, box)).split("\n")), box.colour) for box in drawn.boxes]
    used = {box.colour for box in drawn.boxes}
    edges, left = _strongest(drawn)
    legend = {colour: word for colour, word in MEANING.items() if colour in used}
    legend |= {OTHER: f"{left:,} rarer dependencies are not drawn"} if left else {}
    return "".join(f"{line}\n" for line in svg_text(shapes, edges, legend))


def rendered(drawn: Picture, form: str) -> bytes:
    """The picture as svg, pdf or png, drawn by Graphviz's `dot`; without it svg is drawn here, more plainly.

    InputError where `dot` is missing for the others, or fails.
    """
    if form not in RENDERED:
        raise InputError("form", f"{form!r}", expected="one of " + ", ".join(RENDERED))
    program = shutil.which("dot")
    if program is None and form == "svg":
        return own_svg(drawn).encode("utf-8", "replace")
    if program is None:
        raise InputError("graphviz", f"its program `dot` draws {form}, and is not installed",
                         expected="apt install graphviz (or brew, dnf, conda); or the name of a .svg or .dot file")
    text = "\n".join(dot_text(drawn)).encode("utf-8", "replace")
    try:
        done = subprocess.run([program, f"-T{form}"], input=text, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise InputError("graphviz", f"took more than {SECONDS} s for {len(drawn.boxes):,} boxes",
                         expected="a smaller --limit") from None
    if done.returncode:
        raise InputError("graphviz", done.stderr.decode("utf-8", "replace").strip()[:200] or "failed")
    return done.stdout
