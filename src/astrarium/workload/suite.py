"""The benchmark suite: named traces, generated on demand, each with a card. The rows are in suite.toml."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from astrarium import catalog
from astrarium.config import decode
from astrarium.errors import InputError, nearest
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.config import Workload
from astrarium.workload.generate import generate

__all__ = ["LICENCE", "Card", "Entry", "card_of", "checksum", "suite_entry", "suite_names", "suite_version"]

LICENCE = "Apache-2.0"
AXES = ("tp", "sp", "cp", "dp", "pp", "ep")


class Entry(Struct, frozen=True):
    """One benchmark: `workload` is the section of a design file; `checksum` what version 1 gives, where stated."""

    name: str
    title: str
    workload: Mapping[str, Any]
    checksum: str | None

    def config(self) -> Workload:
        """The workload as its config class."""
        return decode(Workload, self.workload)


class Card(Struct, frozen=True):
    """What a benchmark is. Sums are over all ranks: nodes, flop, bytes that compute nodes move, bytes of collectives
    (as traces count them) and messages.

    `collectives` counts nodes by operation over all ranks. `source` is where the model's sizes come from.
    """

    name: str
    version: int
    title: str
    model: str
    source: str
    parallelism: dict[str, int]
    ranks: int
    classes: int
    nodes: int
    flops: float
    bytes_moved: float
    collective_bytes: int
    message_bytes: int
    collectives: dict[str, int]
    licence: str
    checksum: str

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@cache
def _rows() -> Mapping[str, Any]:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    text = files("astrarium.workload").joinpath("suite.toml").read_text(encoding="utf-8")
    return MappingProxyType(cast("dict[str, Any]", toml.loads(text)))


def suite_version() -> int:
    """The version that checksums belong to."""
    return int(_rows()["version"])


def suite_names() -> tuple[str, ...]:
    """Every benchmark's name."""
    return tuple(name for name in _rows() if name != "version")


def suite_entry(name: str) -> Entry:
    """A benchmark by its name; InputError where there is none."""
    names = suite_names()
    if name not in names:
        raise InputError("suite", f"{name[:60]!r} is no benchmark", expected="one of " + ", ".join(names),
                         did_you_mean=nearest(name, names))
    row = _rows()[name]
    return Entry(name, row["title"], MappingProxyType(row["workload"]), row.get("checksum"))


def card_of(entry: Entry, made: Generated | None = None) -> Card:
    """The card; `made` is what the workload generates, where the caller has it."""
    made = generate(entry.config()) if made is None else made
    model = catalog.load("models").get(entry.workload["model"], {})
    counts: dict[str, int] = {}
    sums = np.zeros(5)
    for each in made.classes:
        ranks = each.ranks.size
        coll = each.type == NodeKind.COMM_COLL
        sums += ranks * np.array([each.type.size, np.nansum(each.num_ops),
                                  float(each.tensor_size[each.type == NodeKind.COMP].astype(np.float64).sum()),
                                  float(each.comm_size[coll].sum()),
                                  float(each.comm_size[each.type == NodeKind.COMM_SEND].sum())])
        for op in CommOp:
            found = int((coll & (each.comm_type == op)).sum()) * ranks
            if found:
                counts[op.name.lower()] = counts.get(op.name.lower(), 0) + found
    return Card(
        entry.name, suite_version(), entry.title, str(entry.workload["model"]), str(model.get("source", "")),
        {axis: int(entry.workload[axis]) for axis in AXES if axis in entry.workload},
        sum(each.ranks.size for each in made.classes), len(made.classes), int(sums[0]), float(sums[1]), float(sums[2]),
        int(sums[3]), int(sums[4]), counts, LICENCE, checksum(made))


def checksum(made: Generated) -> str:
    """SHA-256 of all columns that a trace has (little endian, in the order of TraceClass's fields) and groups; not of
    any file."""
    digest = hashlib.sha256()
    for each in made.classes:
        for name in (field for field in TraceClass.__struct_fields__ if field != "kernel"):
            value = getattr(each, name)
            if isinstance(value, np.ndarray):
                digest.update(f"{name} {value.shape} {value.dtype.str}".encode())
                digest.update(np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<"))).tobytes())
    for name, group in zip(made.names, made.groups, strict=True):
        digest.update(name.encode() + group.astype("<i4").tobytes())
    return digest.hexdigest()
