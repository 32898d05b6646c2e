"""Profiled traces as `astrarium trace link` writes them, made node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from astrarium.trace.node import IOInfo, Metadata, Node, attribute
from astrarium.trace.write import write_trace
from astrarium.vocab import CommOp, NodeKind


@dataclass
class Recording:
    """One rank: `start` ns of its clock; nodes with begins and durations in us."""

    rank: int
    world: int
    start: int | None = 0
    nodes: list[Node] = field(default_factory=list)

    def comp(self, begin: int, duration: int, after: Sequence[int] = ()) -> int:
        """A kernel; gives its id."""
        return self._add("kernel", NodeKind.COMP, begin, duration, after, {"is_cpu_op": False, "stream": 7})

    def coll(self, begin: int, duration: int, size: int, after: Sequence[int] = (), *, number: int | None = None,
             op: CommOp = CommOp.ALL_REDUCE, group: str | None = None) -> int:
        """A collective; `number` is its rf_id."""
        attrs = {"is_cpu_op": False, "comm_type": int(op), "comm_size": size, "rf_id": number, "pg_name": group}
        return self._add("gloo:" + op.name.lower(), NodeKind.COMM_COLL, begin, duration, after, attrs)

    def groups(self, text: str) -> None:
        """The node that defines process groups."""
        self.nodes.append(Node(len(self.nodes) + 1, "## process_group:init ##", int(NodeKind.METADATA),
                               inputs=IOInfo(text, "[[]]", "['String']")))

    def _add(self, name: str, kind: NodeKind, begin: int, duration: int, after: Sequence[int],
             attrs: dict[str, object]) -> int:
        number = len(self.nodes) + 1
        given = tuple(attribute(key, value) for key, value in attrs.items() if value is not None)
        self.nodes.append(Node(number, name, int(kind), (), tuple(after), begin, duration, attrs=given))
        return number

    def write(self, prefix: Path) -> None:
        """`prefix.RANK.et`."""
        attrs = [attribute("kind", "profiled"), attribute("rank", self.rank), attribute("world_size", self.world)]
        if self.start is not None:
            attrs.append(attribute("start_ns", self.start))
        write_trace(f"{prefix}.{self.rank}.et", Metadata("", tuple(attrs)), self.nodes)
