"""What there is to choose from, kind by kind: entries of the registry, rows of the catalog, fields, terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from astrarium.errors import InputError, nearest

__all__ = ["OPERATIONS", "Row", "choices", "kind_named", "kinds"]

OPERATIONS = {
    "all_reduce": "Every rank ends with the sum of all payloads.",
    "all_gather": "Every rank ends with every rank's payload.",
    "reduce_scatter": "The sum of all payloads, cut up: rank i ends with piece i.",
    "all_to_all": "Rank i's piece j goes to rank j.",
    "broadcast": "Every rank ends with the root's payload.",
    "reduce": "The root ends with the sum of all payloads.",
    "gather": "The root ends with every rank's payload.",
    "scatter": "The root's payload, cut up: rank i ends with piece i.",
    "barrier": "Ranks continue when all have arrived.",
}


SAID = {"price": "part", "rental": "part", "topology": "shape", "fabric": "blueprint",
        "collective": "operation", "accelerator": "device", "llm": "model", "objective": "figure"}
"""Words for kinds that have another name."""


class Row(Struct, frozen=True):
    """One thing to choose. `package` brought a plug-in (empty: built in); `source` published the figures."""

    kind: str
    name: str
    sentence: str
    package: str = ""
    source: str = ""


def kinds() -> tuple[str, ...]:
    """The names of all kinds."""
    from astrarium.registry import kinds as registered

    return (*registered(), *_OURS)


def kind_named(word: str, path: str = "list") -> str:
    """The kind that a word stands for, in the plural and in capitals as well. Raises InputError with `path`."""
    known = kinds()
    lower = word.lower()
    for each in (lower, lower.removesuffix("s"), lower.removesuffix("ies") + "y"):
        kind = SAID.get(each, each)
        if kind in known:
            return kind
    raise InputError(path, f"unknown kind {word[:60]!r}", expected="one of " + ", ".join(known),
                     did_you_mean=nearest(lower, known))


def choices(kind: str) -> list[Row]:
    """All of a kind."""
    if kind in _OURS:
        return _OURS[kind]()
    from astrarium.registry import entries

    return [Row(kind, entry.name, entry.sentence, entry.package) for entry in entries(kind).values()]


def _catalog(kind: str, rows: str, shown: Sequence[tuple[str, str]]) -> list[Row]:
    from astrarium.catalog import load

    def sentence(row: Mapping[str, Any]) -> str:
        return f"{row['title']}: {', '.join(words.format(row[key]) for key, words in shown if key in row)}."

    return [Row(kind, name, sentence(row), source=row["source"]) for name, row in load(rows).items()]


def _models() -> list[Row]:
    from astrarium.catalog import load
    from astrarium.config import decode
    from astrarium.workload.model.base import Model
    from astrarium.workload.model.parameters import parameters

    return [Row("model", name, f"{row['title']}: {row['model']['family']}, "
                                f"{parameters(decode(Model, row['model'])).total:,} parameters.", source=row["source"])
            for name, row in load("models").items()]


def _fields() -> list[Row]:
    from astrarium.config import fields
    from astrarium.design import Design

    return [Row("field", each.path, f"{each.help} Takes {each.takes}." + (f" Where {each.when}." if each.when else ""))
            for each in fields(Design)]


def _terms() -> list[Row]:
    from astrarium.vocab import TERMS

    return [Row("term", name, meaning) for name, meaning in TERMS.items()]


_OURS: Mapping[str, Callable[[], list[Row]]] = {
    "operation": lambda: [Row("operation", name, sentence) for name, sentence in OPERATIONS.items()],
    "device": lambda: _catalog("device", "devices", (("peak", "{}"), ("capacity", "{}"), ("bandwidth", "{}"))),
    "gpu": lambda: _catalog("gpu", "gpus", (("fitted", "for kernels, fitted on {}"),)),
    "network": lambda: _catalog("network", "networks", (
        ("shape", "{}"), ("npus", "{} NPUs"), ("bandwidth", "{} per link"), ("bandwidth_per_npu", "{} per NPU"),
        ("latency", "{} per hop"))),
    "host": lambda: _catalog("host", "hosts", (
        ("npus", "{} NPUs"), ("device", "{}"), ("inner", "{0[0]} inside"), ("outer", "{} between hosts"))),
    "link": lambda: _catalog("link", "links", (
        ("bandwidth", "{}"), ("energy", "{}"), ("power", "{}"), ("reach", "up to {}"), ("price", "{}"))),
    "memory": lambda: _catalog("memory", "memories", (
        ("capacity", "{}"), ("bandwidth", "{}"), ("energy", "{}"), ("price", "{}"))),
    "model": _models,
    "stack": lambda: _catalog("stack", "stacks", (("version", "{}"),)),
    "part": lambda: _catalog("part", "parts", (
        ("kind", "{}"), ("price", "{}"), ("share", "{} of the devices' price"), ("rent", "{}"), ("power", "{}"),
        ("date", "{}"))),
    "facility": lambda: _catalog("facility", "facilities", (("pue", "PUE {}"), ("date", "{}"))),
    "tariff": lambda: _catalog("tariff", "tariffs", (("price", "{}"), ("date", "{}"))),
    "region": lambda: _catalog("region", "regions", (("carbon", "{}"), ("date", "{}"))),
    "cost": lambda: _catalog("cost", "costs", (("date", "{}"),)),
    "field": _fields,
    "term": _terms,
}
