"""What nodes of a trace are told apart by, found by columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I32, I64
from astrarium.errors import InputError
from astrarium.vocab import NodeKind

__all__ = ["COMM", "Token", "Told", "distinct_rows", "plain_names"]

DIGITS = re.compile(r"\d+")
COMM = (NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV)
KINDS, OPS = frozenset(NodeKind), range(-1, 10)
CHECKED = "a trace in which `astrarium check` finds no errors"
MOST = 1 << 18          # tokens of a trace
RECENT = 1 << 16        # names that are remembered
WIDE = 1 << 31          # numbers below multiply without overflow


class Token(Struct, frozen=True, order=True):
    """What nodes are told apart by: kind, name without numbers, host or not, operation, the role of the group or of
    the peer (see `layout`), priority, and dims that are involved (bits; -1: not said)."""

    kind: int
    name: str
    host: bool
    op: int
    role: str
    priority: int
    involved: int


class Told(Struct, frozen=True, eq=False):
    """What tokens are made of: [nodes] kind, host or not, and which of `names` (without numbers); of the communication
    nodes `comm`, ascending, [comm nodes] operation, group or peer (`other`), priority and dims; and the word for the
    group or peer of a node, by the node and `other`. InputError for more than MOST tokens."""

    kind: npt.NDArray[np.uint8]
    host: npt.NDArray[Any]
    names: Sequence[str]
    name: I32
    comm: npt.NDArray[Any]
    op: npt.NDArray[Any]
    other: npt.NDArray[Any]
    priority: npt.NDArray[Any]
    involved: npt.NDArray[Any]
    role: Callable[[int, int], str]

    def tokens(self, order: I32) -> tuple[tuple[Token, ...], I64]:
        """The tokens of nodes in that order, in order of first appearance, and which each node has [nodes]."""
        code = distinct_rows([self.kind, self.host, self.name])
        words, role = self._roles()
        if self.comm.size:
            ops = np.where(self.kind[self.comm] == NodeKind.COMM_COLL, self.op, -1)
            said = np.zeros(code.size, np.int64)
            said[self.comm] = distinct_rows([ops, role, self.priority, self.involved]) + 1
            code = distinct_rows([code, said])
        _, first, token = np.unique(code[order], return_index=True, return_inverse=True)
        if first.size > MOST:
            raise _refusal()
        appear = np.argsort(first, kind="stable")
        number = np.empty(appear.size, np.int64)
        number[appear] = np.arange(appear.size)
        shown = order[first[appear]]
        place = np.searchsorted(self.comm, shown).tolist()
        return tuple(self._token(node, at, words[role[at]]) if self.kind[node] in COMM else self._token(node)
                     for node, at in zip(shown.tolist(), place, strict=True)), number[token]

    def _roles(self) -> tuple[list[str], I64]:
        """Words, and which each communication node has [comm nodes]."""
        _, first, number = np.unique(distinct_rows([self.kind[self.comm], self.other]), return_index=True,
                                     return_inverse=True)
        words: dict[str, int] = {}
        place = [words.setdefault(self.role(int(self.comm[at]), int(self.other[at])), len(words))
                 for at in first.tolist()]
        return list(words), np.array(place, np.int64)[number]

    def _token(self, node: int, at: int = -1, role: str = "") -> Token:
        """The token of node `node`, which is communication node `at`, or none (-1)."""
        kind, moved = int(self.kind[node]), at >= 0
        name = self.names[self.name[node]]
        if kind not in KINDS:
            raise InputError("synthesise", f"node {name[:60]!r} has a type that Chakra does not define",
                             expected=CHECKED)
        if kind == NodeKind.COMM_COLL and int(self.op[at]) not in OPS:
            raise InputError("synthesise", f"node {name[:60]!r} has comm_type {self.op[at]}", expected=CHECKED)
        if moved and abs(int(self.priority[at])) >= WIDE:
            raise InputError("synthesise", f"node {name[:60]!r} has comm_priority {self.priority[at]}",
                             expected="a number of 32 bits")
        return Token(kind, name, bool(self.host[node]),
                     int(self.op[at]) if kind == NodeKind.COMM_COLL else -1, role,
                     int(self.priority[at]) if moved else 0, int(self.involved[at]) if moved else -1)


def distinct_rows(columns: Sequence[npt.NDArray[Any]]) -> I64:
    """[rows] a number per distinct row of columns of whole numbers."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values = column.astype(np.int64)
        low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
        if high - low >= WIDE:
            values = np.unique(values, return_inverse=True)[1]
            low, high = 0, int(values.max())
        if low < high:
            if code.max() >= WIDE:
                code = np.unique(code, return_inverse=True)[1]
            code = code * (high - low + 1) + (values - low)
    return code


def plain_names(texts: Iterable[str], nodes: int) -> tuple[list[str], I32]:
    """Texts without their numbers, in order of first appearance, and which each node has [nodes]. InputError for more
    than MOST."""
    known: dict[str, int] = {}
    seen: dict[str, int] = {}       # texts as they are, of late: all of a trace may be many

    def number(text: str) -> int:
        found = seen.get(text)
        if found is None:
            if len(seen) >= RECENT:
                seen.clear()
            found = seen[text] = known.setdefault(DIGITS.sub("#", text), len(known))
            if len(known) > MOST:
                raise _refusal()
        return found

    place = np.fromiter(map(number, texts), np.int32, nodes)
    return list(known), place


def _refusal() -> InputError:
    return InputError("synthesise", f"more than {MOST:,} kinds of nodes: they differ in names (numbers aside), "
                      "operations or groups", expected="a trace in which operations come again")
