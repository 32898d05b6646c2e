"""Which nodes a step is about: by kind and by a pattern of the name."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable

import numpy as np

from astrarium.arrays import Bool
from astrarium.errors import InputError, nearest
from astrarium.trace.columns import Attr, Columns
from astrarium.vocab import CommOp, NodeKind

__all__ = ["KINDS", "gpu", "matching", "named"]

KINDS = ("any", "compute", "host", "gpu", "collective", "send", "recv", "memory", "metadata",
         *(op.name.lower() for op in CommOp))
"""Words for kinds of nodes: operations of collectives are kinds too."""


def matching(columns: Columns, kind: str, name: str) -> Bool:
    """[nodes] whether a node is of a kind (one of KINDS) and its name matches a pattern with * and ?."""
    mask = _kind(columns, kind)
    return mask if name == "*" else mask & named(columns, name, mask)


def gpu(columns: Columns) -> Bool:
    """[nodes] compute of the accelerator."""
    return np.asarray((columns.type == NodeKind.COMP) & (columns.is_cpu_op == 0), np.bool_)


def _kind(columns: Columns, kind: str) -> Bool:
    type_, comp = columns.type, np.asarray(columns.type == NodeKind.COMP, np.bool_)
    coll = type_ == NodeKind.COMM_COLL
    masks: dict[str, Callable[[], Bool]] = {"any": lambda: np.ones(columns.nodes, np.bool_), "compute": lambda: comp,
             "host": lambda: comp & (columns.is_cpu_op != 0), "gpu": lambda: gpu(columns),
             "collective": lambda: coll, "send": lambda: type_ == NodeKind.COMM_SEND,
             "recv": lambda: type_ == NodeKind.COMM_RECV, "metadata": lambda: type_ == NodeKind.METADATA,
             "memory": lambda: (type_ == NodeKind.MEM_LOAD) | (type_ == NodeKind.MEM_STORE)}
    if kind in masks:
        return np.asarray(masks[kind](), np.bool_)
    if kind.upper() not in CommOp.__members__:
        raise InputError("kind", f"{kind[:40]!r}", expected="one of " + ", ".join(KINDS),
                         did_you_mean=nearest(kind, KINDS))
    return np.asarray(coll & columns.has(Attr.COMM_TYPE) & (columns.comm_type == CommOp[kind.upper()]), np.bool_)


def named(columns: Columns, pattern: str, among: Bool) -> Bool:
    """[nodes] whether the name matches; every distinct name is looked at once."""
    match = re.compile(fnmatch.translate(pattern)).match
    names, place = columns.distinct_names()
    return among & np.array([match(name) is not None for name in names], np.bool_)[place]
