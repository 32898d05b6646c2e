"""Cases of a study: a model, and the strategies (MP, DP) under which so many nodes train it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from astrarium import InputError, Transformer, decode
from astrarium.workload import Footprint, Workload
from astrarium.workload.footprint import training_footprint
from comet.parameters import Book

__all__ = ["Case", "case_of", "name_of"]

NEEDED = ("nodes", "splits", "baseline", "axes", "workload", "update")
KEYS = ("title", *NEEDED, "footprint", "node_counts")
AXES = ("model", "data", "tables")


class Case(Struct, frozen=True):
    """`splits`: model-parallel nodes (MP) of the strategies; `axes`: which axis of the workload is MP (`model`), which
    is DP (`data`), which divides the tables of a recommendation model (`tables`, as many as there are nodes).

    The footprint is that of the workload with `footprint_set` put into it, of which the `parts` count. `update`:
    whether the optimizer's step counts to the time. `node_counts`: numbers of nodes that a sweep takes.
    """

    name: str
    title: str
    nodes: int
    splits: Sequence[int]
    baseline: int
    axes: Mapping[str, str]
    workload: Mapping[str, Any]
    footprint_set: Mapping[str, Any]
    parts: Sequence[str]
    update: bool
    node_counts: Sequence[int] = ()

    def strategy(self, split: int, nodes: int | None = None, **changes: Any) -> Transformer:
        """The workload with MP = `split` on `nodes` (left out: the case's). Raises InputError where they do not
        divide."""
        count = self.nodes if nodes is None else nodes
        if split < 1 or count % split:
            raise InputError(f"cases.{self.name}.splits", f"{split} does not divide {count} nodes",
                             expected="a divisor of the nodes")
        plain = {**self.workload, self.axes["model"]: split, self.axes["data"]: count // split, **changes}
        if "tables" in self.axes:
            plain[self.axes["tables"]] = count
        try:
            found = decode(Workload, plain)
        except InputError as error:
            raise InputError(f"cases.{self.name}.workload.{error.path}", error.message, expected=error.expected,
                             did_you_mean=error.did_you_mean) from None
        assert isinstance(found, Transformer)
        return found

    def divides(self, split: int, nodes: int) -> bool:
        """Whether the workload's sizes divide over a strategy."""
        try:
            self.strategy(split, nodes)
            self.strategy(split, nodes, **self.footprint_set)
        except InputError:
            return False
        return True

    def footprint(self, split: int, nodes: int | None = None, **changes: Any) -> Footprint:
        """What one node holds under a strategy."""
        (found,) = training_footprint(self.strategy(split, nodes, **{**self.footprint_set, **changes}))
        return found

    def counted(self, held: Footprint) -> float:
        """Bytes of a footprint that count."""
        return float(sum(getattr(held, part) for part in self.parts))


def name_of(split: int, nodes: int) -> str:
    """COMET's name of a strategy."""
    return f"MP{split}_DP{nodes // split}"


def case_of(book: Book, name: str) -> Case:
    """A case of the book. Raises InputError for what is unknown or missing."""
    names = book.names("cases")
    if name not in names:
        raise InputError(f"cases.{name}", f"is not in {book.name}", expected="one of " + ", ".join(names))
    plain = book.plain(f"cases.{name}")
    for key in plain:
        if key not in KEYS:
            raise InputError(f"cases.{name}.{key}", "unknown key", expected="one of " + ", ".join(KEYS))
    for key in NEEDED:
        if key not in plain:
            raise InputError(f"cases.{name}.{key}", "is missing", expected="a parameter")
    held = _mapping(name, "footprint", plain.get("footprint", {}))
    axes, parts = _mapping(name, "axes", plain["axes"]), held.get("parts", ("weights",))
    for place in AXES[:2]:
        if place not in axes:
            raise InputError(f"cases.{name}.axes.{place}", "is missing", expected="an axis of the workload, such as tp")
    for part in parts:
        if part not in Footprint.__struct_fields__:
            raise InputError(f"cases.{name}.footprint.parts", f"{part!r} is no part of a footprint",
                             expected="some of " + ", ".join(Footprint.__struct_fields__))
    if not isinstance(plain["update"], bool):
        raise InputError(f"cases.{name}.update", f"{plain['update']!r} is impossible", expected="true or false")
    (nodes,), (baseline,) = (_counts(name, key, [plain[key]]) for key in ("nodes", "baseline"))
    return Case(name, plain.get("title", name), nodes, _counts(name, "splits", plain["splits"]), baseline, axes,
                _mapping(name, "workload", plain["workload"]), held.get("set", {}), tuple(parts), plain["update"],
                _counts(name, "node_counts", plain.get("node_counts", [])))


def _mapping(name: str, key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"cases.{name}.{key}", f"{value!r:.60} is no mapping", expected="parameters by name")
    return value


def _counts(name: str, key: str, values: Any) -> tuple[int, ...]:
    known = isinstance(values, list) and all(isinstance(each, int) and each > 0 for each in values)
    if not known:
        raise InputError(f"cases.{name}.{key}", f"{values!r:.60} is impossible", expected="whole numbers above 0")
    return tuple(values)
