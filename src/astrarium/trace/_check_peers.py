"""Doctor: sends and receives, each on its own and against each other."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.trace.columns import Attr, Columns, Traces
from astrarium.trace.finding import Findings
from astrarium.trace.write import node_name
from astrarium.vocab import NodeKind

__all__ = ["check"]


class _Messages(Struct, frozen=True, eq=False):
    """Point-to-point nodes of one class; [ranks of the class, messages], flattened. `usable`: can be matched."""

    rank: I64
    node: I64            # index in the class
    number: I64          # of the class
    sends: npt.NDArray[np.bool_]
    peer: I64
    own: I64             # the side that must be the rank itself, -1 where not given
    tag: I64
    size: I64
    has_peer: npt.NDArray[np.bool_]
    has_tag: npt.NDArray[np.bool_]
    has_size: npt.NDArray[np.bool_]


def check(traces: Traces, found: Findings) -> None:
    """Missing and impossible peers, self-sends, and messages that only one side knows of."""
    parts = [_messages(traces, number) for number in range(len(traces.classes))]
    parts = [part for part in parts if len(part.rank)]
    if not parts:
        return
    m = _Messages(*(np.concatenate([getattr(part, name) for part in parts]) for name in _Messages.__struct_fields__))
    usable = _each(traces, m, found)
    _match(traces, m, usable, found)


def _messages(traces: Traces, number: int) -> _Messages:
    columns = traces.classes[number]
    kind = columns.type[columns.comm_node]
    slots = np.flatnonzero(kind != NodeKind.COMM_COLL)
    nodes = columns.comm_node[slots].astype(np.int64)
    ranks = traces.members(number).astype(np.int64)
    count = (len(ranks), len(slots))
    sends = np.broadcast_to(kind[slots] == NodeKind.COMM_SEND, count).ravel()
    source, destination = columns.source[:, slots].ravel(), columns.destination[:, slots].ravel()
    has_source = _has(columns, Attr.COMM_SRC, nodes, count)
    has_destination = _has(columns, Attr.COMM_DST, nodes, count)
    return _Messages(
        rank=np.repeat(ranks, len(slots)), node=np.broadcast_to(nodes, count).ravel(),
        number=np.full(len(ranks) * len(slots), number, np.int64), sends=sends,
        peer=np.where(sends, destination, source), own=np.where(sends, source, destination),
        tag=columns.tag[:, slots].ravel(), size=np.broadcast_to(columns.comm_size[nodes], count).ravel(),
        has_peer=np.where(sends, has_destination, has_source), has_tag=_has(columns, Attr.COMM_TAG, nodes, count),
        has_size=_has(columns, Attr.COMM_SIZE, nodes, count))


def _has(columns: Columns, attr: Attr, nodes: I64, count: tuple[int, int]) -> npt.NDArray[np.bool_]:
    return np.broadcast_to(columns.has(attr)[nodes], count).ravel()


def _each(traces: Traces, m: _Messages, found: Findings) -> npt.NDArray[np.bool_]:
    """Reports what a node shows on its own; says which ones can be matched."""
    columns = traces.classes

    def wrong(index: int, attr: Attr) -> bool:
        return bool(int(columns[m.number[index]].wrong[m.node[index]]) >> attr & 1)

    peer_attr = np.where(m.sends, int(Attr.COMM_DST), int(Attr.COMM_SRC))
    for index in np.flatnonzero(~m.has_peer).tolist():
        attr = Attr(int(peer_attr[index]))
        if not wrong(index, attr):
            word = attr.name.lower()
            _add(traces, m, index, found, f"missing_{word}", f"{_verb(m, index)} without {word}",
                 f"set {word} to the other rank")
    for index in np.flatnonzero(~m.has_tag).tolist():
        if not wrong(index, Attr.COMM_TAG):
            _add(traces, m, index, found, "missing_comm_tag", f"{_verb(m, index)} without comm_tag",
                 "set comm_tag, the same on both sides")
    outside = m.has_peer & ((m.peer < 0) | (m.peer >= traces.ranks))
    for index in np.flatnonzero(outside).tolist():
        _add(traces, m, index, found, "peer_outside", f"{_verb(m, index)} with rank {int(m.peer[index])}, but "
             f"there are ranks 0-{traces.ranks - 1}", "name a rank that has a trace")
    self_send = m.has_peer & (m.peer == m.rank)
    for index in np.flatnonzero(self_send).tolist():
        _add(traces, m, index, found, "self_send", f"{_verb(m, index)} with itself",
             "remove the message or name another rank")
    for index in np.flatnonzero((m.own != -1) & (m.own != m.rank)).tolist():
        side = "comm_src" if m.sends[index] else "comm_dst"
        _add(traces, m, index, found, "wrong_owner", f"{_verb(m, index)} whose {side} is rank {int(m.own[index])}",
             f"leave {side} out, or move the node to that rank's trace")
    return np.asarray(m.has_peer & m.has_tag & m.has_size & ~outside & ~self_send)


def _verb(m: _Messages, index: int) -> str:
    return "send" if m.sends[index] else "receive"


def _add(traces: Traces, m: _Messages, index: int, found: Findings, code: str, message: str, fix: str) -> None:
    if found.full(code):
        found.more("error", code, 1)
        return
    rank, node = int(m.rank[index]), int(m.node[index])
    found.add("error", code, (rank,), message, fix, int(traces.of(rank)[0].node_id[node]),
              node_name(traces, rank, node))


def _match(traces: Traces, m: _Messages, usable: npt.NDArray[np.bool_], found: Findings) -> None:
    """Sends against receives of the same source, destination, tag and size; as many of one as of the other."""
    at = np.flatnonzero(usable)
    source, destination = np.where(m.sends, m.rank, m.peer)[at], np.where(m.sends, m.peer, m.rank)[at]
    tag, size = m.tag[at], m.size[at]
    order = np.lexsort((size, tag, destination, source))
    keys = (source[order], destination[order], tag[order], size[order])
    new = np.ones(len(order), np.bool_)
    new[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys]) if len(order) else new[1:]
    bunch = np.cumsum(new) - 1
    sends = m.sends[at][order]
    surplus = np.bincount(bunch, np.where(sends, 1, -1)).astype(np.int64) if len(order) else np.empty(0, np.int64)
    if not surplus.any():
        return
    lonely: list[int] = []
    bounds = np.append(np.flatnonzero(new), len(order))
    for number in np.flatnonzero(surplus).tolist():
        bunch_at = slice(bounds[number], bounds[number + 1])
        alike = at[order[bunch_at][sends[bunch_at] == (surplus[number] > 0)]]
        lonely += alike[-abs(int(surplus[number])):].tolist()
    _explain(traces, m, sorted(lonely), found)


def _ends(m: _Messages, index: int) -> tuple[int, int]:
    ends = (int(m.rank[index]), int(m.peer[index]))
    return ends if m.sends[index] else ends[::-1]


def _explain(traces: Traces, m: _Messages, lonely: list[int], found: Findings) -> None:
    """Says of each lonely message what on the other side comes closest."""
    by_tag: dict[tuple[bool, tuple[int, int], int], Counter[int]] = {}
    by_size: dict[tuple[bool, tuple[int, int], int], Counter[int]] = {}
    for index in lonely:
        side, ends, tag, size = bool(m.sends[index]), _ends(m, index), int(m.tag[index]), int(m.size[index])
        by_tag.setdefault((side, ends, tag), Counter())[size] += 1
        by_size.setdefault((side, ends, size), Counter())[tag] += 1
    for index in lonely:
        side, ends, tag, size = bool(m.sends[index]), _ends(m, index), int(m.tag[index]), int(m.size[index])
        verb, other, way = ("send", "receive", "to") if side else ("receive", "send", "from")
        what = f"{verb} {way} rank {int(m.peer[index])} with tag {tag} and {size} bytes"
        if (not side, ends, tag) in by_tag:
            sizes = ", ".join(map(str, sorted(by_tag[not side, ends, tag])[:3]))
            text, fix = f"{what}, but the {other} there has {sizes} bytes", "give both sides the same comm_size"
        elif (not side, ends, size) in by_size:
            tags = ", ".join(map(str, sorted(by_size[not side, ends, size])[:3]))
            text, fix = f"{what}, but the {other} there has tag {tags}", "give both sides the same comm_tag"
        else:
            text = f"{what} has no {other} there"
            fix = f"add the {other} to rank {int(m.peer[index])}, or remove the {verb}"
        _add(traces, m, index, found, f"unmatched_{verb}", text, fix)
