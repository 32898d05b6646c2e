"""`astrarium list [KIND]`: what there is to choose from, one sentence each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from astrarium.cli.arguments import Parser, json_flag
from astrarium.cli.json_output import print_json
from astrarium.errors import InputError, nearest

__all__ = ["Row", "arguments", "run"]

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


SAID = {"prices": "part", "price": "part", "topology": "shape", "topologies": "shape"}
"""Words for kinds that have another name."""


class Row(Struct, frozen=True):
    """One thing to choose. `package` brought a plug-in (empty: built in); `source` published the figures."""

    kind: str
    name: str
    sentence: str
    package: str = ""
    source: str = ""


def arguments(parser: Parser) -> None:
    """`[KIND] [--json]`."""
    parser.add_argument("kind", nargs="?", metavar="KIND", help="list only this kind, such as algorithm, shape or "
                                                                "device")
    json_flag(parser)


def run(options: argparse.Namespace) -> int:
    """Print everything, or one kind."""
    from astrarium.registry import kinds

    known = [*kinds(), *_OURS]
    kind = options.kind and _meant(options.kind, known)
    # Without a kind: everything but the fields of a design, of which there are a hundred, and the glossary.
    chosen = [kind for kind in known if kind not in ("field", "term")] if kind is None else [kind]
    found = {kind: _rows(kind) for kind in chosen}
    if options.json:
        print_json("list", [asdict(row) for rows in found.values() for row in rows])
        return 0
    _print(found, titles=kind is None)
    return 0


def _meant(word: str, known: Sequence[str]) -> str:
    """The kind that a word stands for, in the plural as well. Raises InputError."""
    found = SAID.get(word, word)
    for kind in (found, found.removesuffix("s"), found.removesuffix("ies") + "y"):
        if kind in known:
            return kind
    raise InputError("list", f"unknown kind {word[:60]!r}", expected="one of " + ", ".join(known),
                     did_you_mean=nearest(word, known))


def _rows(kind: str) -> list[Row]:
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


def _print(found: Mapping[str, list[Row]], *, titles: bool) -> None:
    from astrarium.report.tables.table import Table, print_tables

    print_tables((Table(kind if titles else "", "<<", [(row.name, row.sentence) for row in rows])
                  for kind, rows in found.items()), sys.stdout)
