"""Custom collectives: per position of the group a small program of sends, receives and delays.

`custom_program` packs nodes for the engine and refuses what could not run; `from_traces` takes them from Chakra
traces, one file per position, as ASTRA-sim's `*-implementation-custom` names them (`<prefix>.<position>.et`).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from astrarium.engine.plan import CustomProgram, Kind, Program
from astrarium.errors import TraceError
from astrarium.trace.columns import Attr, Columns, Traces
from astrarium.vocab import NodeKind

__all__ = ["CustomNode", "custom_program", "from_traces"]

_KINDS = {NodeKind.COMM_SEND: Kind.SEND, NodeKind.COMM_RECV: Kind.RECV, NodeKind.COMP: Kind.DELAY,
          NodeKind.METADATA: Kind.SKIP}
_US = 1_000_000  # ps
Message = tuple[int, int, int, int]  # source and destination position, tag, bytes


@dataclass(frozen=True)      # not a Struct: equality leaves a field out
class CustomNode:
    """One node: `peer` is a position of the group (sends and receives), `size` bytes, `duration` ps (delays)."""

    id: int
    kind: Kind
    parents: tuple[int, ...] = ()
    size: int = 0
    peer: int = -1
    tag: int = 0
    duration: int = 0
    name: str = field(default="", compare=False)


def custom_program(positions: Sequence[Sequence[CustomNode]], *, path: str = "custom collective",
                   sources: Sequence[str] = ()) -> CustomProgram:
    """The engine's form of one program per position; equal programs are held once.

    Raises TraceError (`sources` name the positions' files) for a repeated id, an unknown parent, a bad peer, and for a
    program that waits for itself or for a message without a sender.
    """
    names = [sources[p] if sources else f"{path}, position {p}" for p in range(len(positions))]
    ordered = [sorted(nodes, key=lambda node: node.id) for nodes in positions]
    for position, nodes in enumerate(ordered):
        _check_nodes(nodes, position, len(ordered), names[position])
    _dry_run(ordered, names)
    kinds: dict[tuple[CustomNode, ...], int] = {}
    program_of = [kinds.setdefault(tuple(nodes), len(kinds)) for nodes in ordered]
    peers = [[n for n in nodes if n.kind in (Kind.SEND, Kind.RECV)] for nodes in kinds]
    return CustomProgram(
        programs=tuple(_pack(nodes) for nodes in kinds), program_of=np.array(program_of, np.int32),
        slot_peer=tuple(np.array([n.peer for n in comm], np.int32) for comm in peers),
        slot_tag=tuple(np.array([n.tag for n in comm], np.int32) for comm in peers))


def _check_nodes(nodes: Sequence[CustomNode], position: int, n: int, source: str) -> None:
    known: set[int] = set()
    for node in nodes:
        if node.id in known:
            raise TraceError(source, "two nodes have this id", node=node.id, name=node.name)
        known.add(node.id)
    for node in nodes:
        unknown = [parent for parent in node.parents if parent not in known]
        if unknown:
            raise TraceError(source, f"depends on node {unknown[0]}, which does not exist", node=node.id,
                             name=node.name)
        if node.kind not in (Kind.SEND, Kind.RECV):
            continue
        if not 0 <= node.peer < n or node.peer == position:
            raise TraceError(source, f"peer {node.peer}", node=node.id, name=node.name,
                             expected=f"another position of 0..{n - 1}")
        if node.size < 0 or not 0 <= node.tag < 1 << 31:
            raise TraceError(source, f"{node.size} bytes with tag {node.tag}", node=node.id, name=node.name,
                             expected="a size of 0 or more and a tag below 2^31")


def _pack(nodes: Sequence[CustomNode]) -> Program:
    index = {node.id: i for i, node in enumerate(nodes)}
    edges = sorted({(index[parent], i) for i, node in enumerate(nodes) for parent in node.parents})
    comm = [node.kind in (Kind.SEND, Kind.RECV) for node in nodes]
    slots = np.cumsum(np.array(comm, np.int32)) - 1 if nodes else np.zeros(0, np.int32)
    counts = np.bincount(np.array([a for a, _ in edges], np.int64), minlength=len(nodes)) if edges else \
        np.zeros(len(nodes), np.int64)
    parents = Counter(child for _, child in edges)
    return Program(
        node_id=np.array([node.id for node in nodes], np.uint64),
        kind=np.array([node.kind for node in nodes], np.uint8),
        lane=np.full(len(nodes), -1, np.int16), duration=np.array([node.duration for node in nodes], np.int64),
        busy=np.zeros(len(nodes), np.int64), size=np.array([node.size for node in nodes], np.int64),
        slot=np.where(np.array(comm, np.bool_), slots, -1).astype(np.int32),
        parents=np.array([parents[i] for i in range(len(nodes))], np.int32),
        child_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        child=np.array([child for _, child in edges], np.int32))


def _dry_run(positions: Sequence[Sequence[CustomNode]], names: Sequence[str]) -> None:
    """Run all programs without time; every node must finish and every message be taken."""
    waits = [{node.id: len(set(node.parents)) for node in nodes} for nodes in positions]
    children: list[dict[int, list[CustomNode]]] = [defaultdict(list) for _ in positions]
    for position, nodes in enumerate(positions):
        for node in nodes:
            for parent in set(node.parents):
                children[position][parent].append(node)
    ready = deque((p, node) for p, nodes in enumerate(positions) for node in nodes if not waits[p][node.id])
    flying: Counter[Message] = Counter()
    parked: dict[Message, deque[tuple[int, CustomNode]]] = defaultdict(deque)
    left = sum(len(nodes) for nodes in positions)
    while ready:
        position, node = ready.popleft()
        if node.kind == Kind.RECV:
            key = (node.peer, position, node.tag, node.size)
            if not flying[key]:
                parked[key].append((position, node))
                continue
            flying[key] -= 1
        elif node.kind == Kind.SEND:
            key = (position, node.peer, node.tag, node.size)
            flying[key] += 1
            if parked[key]:
                ready.append(parked[key].popleft())
        left -= 1
        for child in children[position][node.id]:
            waits[position][child.id] -= 1
            if not waits[position][child.id]:
                ready.append((position, child))
    if left:
        _refuse_stall(parked, waits, positions, names)
    lost = next((key for key, count in flying.items() if count), None)
    if lost:
        raise TraceError(names[lost[0]], f"sends {lost[3]} bytes with tag {lost[2]} to position {lost[1]}, which never "
                                         "receives them")


def _refuse_stall(parked: dict[Message, deque[tuple[int, CustomNode]]], waits: list[dict[int, int]],
                  positions: Sequence[Sequence[CustomNode]], names: Sequence[str]) -> None:
    """Blame a receive that no send will ever match; failing that, one of a circle that waits for itself."""
    coming = {(p, node.peer, node.tag, node.size) for p, nodes in enumerate(positions) for node in nodes
              if node.kind == Kind.SEND and waits[p][node.id]}
    stuck = [(key in coming, key, node) for key, waiting in parked.items() for _, node in waiting]
    if stuck:
        later, (peer, position, tag, size), node = min(stuck, key=lambda entry: (entry[0], entry[1], entry[2].id))
        why = "whose send waits, in a circle, for this one" if later else "which never sends them"
        raise TraceError(names[position], f"waits for {size} bytes with tag {tag} from position {peer}, {why}",
                         node=node.id, name=node.name)
    position = next(p for p, left in enumerate(waits) if any(left.values()))
    lost = next(node for node in positions[position] if waits[position][node.id])
    raise TraceError(names[position], "depends on itself through other nodes", node=lost.id, name=lost.name)


def from_traces(traces: Traces, *, empty_duration: int = 0) -> CustomProgram:
    """The custom collective whose position p runs the trace of rank p.

    Sizes are the traces' own `comm_size`. A compute node takes its duration; `empty_duration` ps where it has none
    (ASTRA-sim: 1000). Raises TraceError for other kinds of nodes and missing attributes.
    """
    positions = []
    for position in range(traces.ranks):
        columns, row = traces.of(position)
        source = traces.sources[position]
        comm = {int(number): i for i, number in enumerate(columns.comm_node.tolist())}
        positions.append([_node(columns, i, row, comm.get(i, -1), source, empty_duration)
                          for i in range(columns.nodes)])
    return custom_program(positions, sources=traces.sources)


def _node(columns: Columns, i: int, row: int, comm: int, source: str, empty_duration: int) -> CustomNode:
    number, name, code = int(columns.node_id[i]), columns.name(i), int(columns.type[i])
    kind = _KINDS.get(NodeKind(code)) if code in NodeKind._value2member_map_ else None
    if kind is None:
        word = NodeKind(code).name if code in NodeKind._value2member_map_ else str(code)
        raise TraceError(source, f"a {word} node in a custom collective", node=number, name=name,
                         expected="COMM_SEND, COMM_RECV, COMP or METADATA")
    data = columns.data_dep[int(columns.data_ptr[i]):int(columns.data_ptr[i + 1])].tolist()
    ctrl = columns.ctrl_dep[int(columns.ctrl_ptr[i]):int(columns.ctrl_ptr[i + 1])].tolist()
    parents = tuple(sorted({*data, *ctrl}))
    if kind not in (Kind.SEND, Kind.RECV):
        duration = int(columns.duration[i]) * _US or (empty_duration if kind == Kind.DELAY else 0)
        return CustomNode(number, kind, parents, duration=duration, name=name)
    peer = columns.destination if kind == Kind.SEND else columns.source
    if not columns.has(Attr.COMM_SIZE)[i]:
        raise TraceError(source, "no comm_size", node=number, name=name, expected="the message's bytes")
    return CustomNode(number, kind, parents, size=int(columns.comm_size[i]), peer=int(peer[row, comm]),
                      tag=max(0, int(columns.tag[row, comm])), name=name)
