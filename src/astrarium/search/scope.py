"""What a name in an expression means: an axis, a derived value, a field of the base, or a figure of a result."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from astrarium.config import Config, get
from astrarium.errors import InputError, nearest
from astrarium.search.axes import Axis, spread
from astrarium.search.expression import Const, Node, Ref, names_in, parse, resolve
from astrarium.units import Quantity

__all__ = ["COMPUTED", "Scope", "plain"]

COMPUTED = {"network.npus": "product(network.dims[*].npus)"}
"""Figures of a design that are no fields: what they are computed from."""


def plain(value: Any) -> Any:
    """A value as expressions compare it: a quantity as its base units."""
    return float(value) if isinstance(value, Quantity) else value


class Scope:
    """Names of one space. `figures` are names that stay open until a result is there."""

    def __init__(self, base: Config | None, axes: Sequence[Axis], derived: Mapping[str, str],
                 figures: Collection[str] = ()):
        self.base, self.figures = base, frozenset(figures)
        self._axis: dict[str, str] = {}
        for axis in axes:
            self._axis |= dict.fromkeys((axis.name, *axis.paths), axis.name)
        self._derived: dict[str, str] = {}
        for path, text in derived.items():
            self._spread(path, text)
        self._busy: list[str] = []

    def _spread(self, pattern: str, text: str) -> None:
        """A derived pattern with [*]: one text per entry, in which [*] outside aggregates is that entry."""
        paths = spread(pattern, self.base) if self.base is not None else (pattern,)
        for index, path in enumerate(paths):
            self._derived[path] = text if len(paths) == 1 and "[*]" not in pattern else f"{text}\0{index}"

    @property
    def derived(self) -> tuple[str, ...]:
        """Every derived path."""
        return tuple(self._derived)

    def node(self, text: str, where: str) -> Node:
        """`text` with every name resolved. Raises InputError(where)."""
        source, _, index = text.partition("\0")
        tree = parse(source, where)
        if index:
            tree = _at(tree, int(index))
        try:
            return resolve(tree, self.meaning)
        except InputError as error:
            if error.path:
                raise
            raise InputError(where, f"{source[:200]!r} {error.message}", expected=error.expected,
                             did_you_mean=error.did_you_mean) from None

    def meaning(self, name: str) -> Sequence[Node]:
        """The nodes that a name stands for: one, or with [*] one per entry of the base's list."""
        if name in self._axis and "[*]" not in name:
            return [Ref(self._axis[name])]
        if "[*]" in name:
            if self.base is None:
                raise InputError(name, "has [*], and there is no base design whose list it could mean")
            return [node for path in spread(name, self.base) for node in self.meaning(path)]
        if name in self.figures:
            return [Ref(name)]
        if name in self._derived:
            return [self._macro(name)]
        if name in COMPUTED and self.base is not None:
            return [self.node(COMPUTED[name], name)]
        return [self._held(name)]

    def _macro(self, name: str) -> Node:
        if name in self._busy:
            raise InputError(name, "is derived from itself", expected=f"no circle among {', '.join(self._busy)}")
        self._busy.append(name)
        try:
            return self.node(self._derived[name], name)
        finally:
            self._busy.pop()

    def _held(self, name: str) -> Node:
        """A field that nobody chooses: the base's value."""
        for path in (*self._axis, *self._derived):
            if name.startswith((f"{path}.", f"{path}[")):
                raise InputError(name, f"lies within {path}, which is chosen as a whole")
        known = [*self._axis, *self._derived, *self.figures]
        if self.base is None:
            raise InputError(name, "is not known", expected="one of " + ", ".join(known),
                             did_you_mean=nearest(name, known))
        try:
            value = get(self.base, name)
        except InputError as error:
            guess = nearest(name, [*known, *COMPUTED]) or error.did_you_mean
            raise InputError(name, error.message, expected=error.expected, did_you_mean=guess) from None
        if isinstance(value, (Config, tuple)):
            raise InputError(name, "is not a single value", expected="the path of one field")
        return Const(plain(value))


def _at(node: Node, index: int) -> Node:
    """[*] outside aggregates as one entry."""
    from astrarium.search.expression import Op
    from astrarium.search.expression.parse import AGGREGATES

    if isinstance(node, Ref):
        return Ref(node.name.replace("[*]", f"[{index}]", 1))
    if not isinstance(node, Op) or node.name in AGGREGATES:
        return node
    return Op(node.name, tuple(_at(arg, index) for arg in node.args))


def used(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Names of several trees, in order of first appearance."""
    return tuple(dict.fromkeys(name for node in nodes for name in names_in(node)))
