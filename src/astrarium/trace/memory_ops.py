"""Chakra's attributes of memory tiers (`chakra.mem.*`): what a node does in which memory.

`mem_op` is LOAD, STORE, COPY, ALLOC or FREE, and a tier is written `<class>:<medium>:<role>` with a class G1 to G4,
such as `G2:dram:offload` (ISCA 2026 tutorial slides of Chakra). LOAD, STORE, ALLOC and FREE have `tier`, COPY has
`src_tier` and `dst_tier`; a node is of type MEM_LOAD or MEM_STORE (ALLOC and FREE: of any that does not compute). Of
our own is `astrarium.step_tier`, of a host node of type COMP: what a processor beside that tier does with its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from astrarium.arrays import I8, I32
from astrarium.errors import TraceError, nearest
from astrarium.trace.columns import Columns
from astrarium.trace.node import Attribute, Node, attribute, decode_node
from astrarium.vocab import NodeKind

__all__ = ["ALLOC", "COPY", "FREE", "LOAD", "NONE", "PREFIX", "STORE", "MemoryOps", "memory_ops", "tier_attributes"]

PREFIX = "chakra.mem."
NONE, LOAD, STORE, COPY, ALLOC, FREE = -1, 0, 1, 2, 3, 4
OPS: Mapping[str, int] = {"LOAD": LOAD, "STORE": STORE, "COPY": COPY, "ALLOC": ALLOC, "FREE": FREE}
TYPES = {NodeKind.MEM_LOAD: "LOAD", NodeKind.MEM_STORE: "STORE"}
BESIDE = "astrarium.step_tier"
MARKS = (PREFIX.encode(), BESIDE.encode())


class MemoryOps(NamedTuple):
    """[nodes], in the order of the file: what each does (NONE: names no tier), `tier` and, of copies, `source`: which
    of `tiers` (-1: none)."""

    op: I8
    tier: I32
    source: I32
    tiers: tuple[str, ...]


def memory_ops(columns: Columns, path: str, rank: int) -> MemoryOps | None:
    """Memory operations of a class of ranks; None if no node has such attributes. Raises TraceError (file, rank, node)
    for an unknown operation, a missing tier, and an operation that contradicts the type of its node."""
    if not any(mark in columns.data for mark in MARKS):
        return None
    nodes, numbers = columns.nodes, dict[str, int]()
    op = np.full(nodes, NONE, np.int8)
    tier, source = np.full(nodes, -1, np.int32), np.full(nodes, -1, np.int32)
    for index, (start, size) in enumerate(zip(columns.offset.tolist(), columns.size.tolist(), strict=True)):
        message = columns.data[start:start + size]
        if not any(mark in message for mark in MARKS):
            continue
        node = decode_node(message)
        try:
            found = _operation(node, {a.name: a.value for a in node.attrs if a.name.startswith((PREFIX, BESIDE))})
        except ValueError as error:
            what, expected, hint = error.args
            raise TraceError(path, what, rank=rank, node=node.id, name=node.name, expected=expected,
                             did_you_mean=hint) from None
        if found is not None:
            op[index], names = found
            tier[index], source[index] = [-1 if name is None else numbers.setdefault(name, len(numbers))
                                          for name in names]
    return MemoryOps(op, tier, source, tuple(numbers)) if numbers else None


def _operation(node: Node, said: Mapping[str, Any]) -> tuple[int, tuple[str, str | None]] | None:
    """(operation, (tier, where a copy comes from)); None where the node names no tier. Raises ValueError(what,
    expected, nearest)."""
    if node.type == NodeKind.COMP:
        return (NONE, (str(said[BESIDE]), None)) if said.get(BESIDE) else None
    said = {name.removeprefix(PREFIX): value for name, value in said.items()}
    if not {"mem_op", "tier", "src_tier", "dst_tier"} & said.keys():
        return None
    of_type = TYPES.get(NodeKind(node.type), "")
    name = str(said.get("mem_op", of_type)).upper()
    if name not in OPS:
        raise ValueError(f"{PREFIX}mem_op {name!r} is not simulated", "one of " + ", ".join(OPS), nearest(name, OPS))
    if (name in TYPES.values() and of_type != name) or (name == "COPY" and not of_type):
        raise ValueError(f"{PREFIX}mem_op {name} on a node of type {NodeKind(node.type).name}",
                         "MEM_LOAD or MEM_STORE" if name == "COPY" else f"MEM_{name}", None)
    keys = ("dst_tier", "src_tier") if name == "COPY" else ("tier",)
    for key in keys:
        if not str(said.get(key, "")):
            raise ValueError(f"{PREFIX}mem_op {name} without {PREFIX}{key}", "the tier that it reaches", None)
    return OPS[name], (str(said[keys[0]]), str(said["src_tier"]) if name == "COPY" else None)


def tier_attributes(kind: NodeKind, tier: str) -> tuple[Attribute, ...]:
    """The attributes of a node that reaches a tier by its name, or (COMP) is work beside it."""
    if kind not in TYPES:
        return (attribute(BESIDE, tier),)
    return attribute(PREFIX + "mem_op", TYPES[kind]), attribute(PREFIX + "tier", tier)
