"""All_reduces of serving engines (vLLM, SGLang, TensorRT-LLM) from measured points: what `collective.library` names.

A row of `catalog/engine_collectives.toml` is what an engine's communicator takes in a CUDA graph, whichever kernel it
chooses: its own one-shot or two-shot, symmetric memory, NCCL above its limits. Between two points the logarithm of the
time goes linearly with that of the bytes, and between two numbers of ranks with that of the number; above the largest
payload its rate stays. A link that differs from the data sheet's stretches what a payload takes beyond the smallest.

`vllm_fused` is vLLM whose compiler fuses the all_reduce with the norm behind it: it takes FlashInfer's kernels, which
are TensorRT-LLM's, up to a payload by device and number of ranks (`fused` of the fabric), and its own above.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from math import inf
from typing import TypeVar, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium import catalog
from astrarium.arrays import F64
from astrarium.collective.fabrics import Fabric
from astrarium.collective.lines import smallest
from astrarium.errors import UnsupportedError, nearest

__all__ = ["ENGINES", "FASTEST", "NCCL", "VLLM_FUSED", "Rows", "engine_ns", "library_ns", "rows_of"]

T = TypeVar("T", float, F64)
ENGINES = ("vllm", "sglang", "trtllm")
NCCL, FASTEST, VLLM_FUSED = "nccl", "fastest", "vllm_fused"
MIB = 1 << 20
_TABLES = "engine_collectives"


class Rows(Struct, frozen=True):
    """The rows of an engine's `version` on a `fabric`, of the numbers of ranks `counts` around a group's."""

    engine: str
    version: str
    fabric: str
    counts: tuple[int, ...]
    instead: str = ""
    """The request that they answer; empty: the one that was made."""
    most: float = inf
    """Bytes up to which they hold; above, the rows behind them."""

    @property
    def text(self) -> str:
        """The rows in words."""
        said = [self.instead] if self.instead else []
        said += [f"up to {self.most / MIB:g} MiB"] if self.most < inf else []
        return f"{self.engine} {self.version}" + (f" ({', '.join(said)})" if said else "")


def rows_of(host: Fabric, library: str, ranks: int) -> tuple[Rows, ...]:
    """The rows of which the fastest counts, or each up to its payload; none: the group is larger than any with rows,
    and the engine takes NCCL.

    `library`: an engine, perhaps with a version ("vllm/0.24.0": the newest measured one that is not newer, else the
    oldest; without one the newest), or `fastest`. Raises UnsupportedError where the fabric has no rows of the engine.
    """
    tables = _engines(host.name)
    if library == FASTEST:
        found = [_rows(host.name, tables, engine, "", ranks) for engine in tables]
        return tuple(rows for rows in found if rows is not None)
    engine, _, version = library.partition("/")
    if engine == VLLM_FUSED:
        return _fused(host, tables, version, ranks)
    if engine not in tables:
        known = (NCCL, *tables)
        raise UnsupportedError("collective.library", f"{engine[:60]} has no rows on {host.name}",
                               expected="one of " + ", ".join(known), did_you_mean=nearest(engine, known))
    rows = _rows(host.name, tables, engine, version, ranks)
    return () if rows is None else (rows,)


def _fused(host: Fabric, tables: Mapping[str, Mapping[str, Sequence[int]]], version: str, ranks: int
           ) -> tuple[Rows, ...]:
    """TensorRT-LLM's rows up to the payload that is fused, then vLLM's."""
    limits = catalog.load(_TABLES).get(host.name, {}).get("fused", {})
    if not limits:
        raise UnsupportedError("collective.library", f"{VLLM_FUSED} on {host.name}, where vLLM fuses no all_reduce",
                               expected="one of " + ", ".join((NCCL, *tables)))
    own, fused = _rows(host.name, tables, "vllm", version, ranks), _rows(host.name, tables, "trtllm", "", ranks)
    if own is None:
        return ()
    return (own,) if fused is None or str(ranks) not in limits else (
        replace(fused, most=limits[str(ranks)] * MIB), own)


def library_ns(payload: T, ranks: int, rows: Sequence[Rows], host: Fabric, link: float) -> T:
    """ns of an all_reduce of `payload` bytes (one, or an array) by the rows of a library."""
    found = engine_ns(payload, ranks, rows[-1], host, link)
    for each in rows[-2::-1]:
        before = engine_ns(payload, ranks, each, host, link)
        found = cast("T", np.where(payload <= each.most, before, found)[()]) if each.most < inf else (
            smallest([before, found]))
    return found


def engine_ns(payload: T, ranks: int, rows: Rows, host: Fabric, link: float) -> T:
    """ns of an all_reduce of `payload` bytes (one, or an array) among `ranks`."""
    at = np.log(np.maximum(payload, 1.0))
    times = [_at(at, *_curve(rows.fabric, rows.engine, rows.version, count), host.link / link) for count in rows.counts]
    found = times[0]
    if len(times) > 1:
        weight = np.log(ranks / rows.counts[0]) / np.log(rows.counts[1] / rows.counts[0])
        found = (1 - weight) * times[0] + weight * times[1]
    return cast("T", np.exp(found)[()])


def _at(at: F64, sizes: F64, times: F64, slower: float) -> F64:
    """Logarithm of the ns at the logarithm of the bytes."""
    found: F64 = np.interp(at, sizes, times) + np.maximum(0.0, at - sizes[-1])
    if slower != 1.0:
        first = float(np.exp(times[0]))
        found = np.log(first + np.maximum(0.0, np.exp(found) - first) * slower)
    return found


def _rows(fabric: str, tables: Mapping[str, Mapping[str, Sequence[int]]], engine: str, version: str,
          ranks: int) -> Rows | None:
    """The version's rows of such a group; else the nearest version's, else the larger fabric's."""
    chosen, versions = _version(tables[engine], version), list(tables[engine])
    place = versions.index(chosen)
    for each in sorted(versions, key=lambda other: abs(versions.index(other) - place)):
        counts = _around(tables[engine][each], ranks)
        if counts:
            instead = f"{chosen} has no rows of {ranks} GPUs" if each != chosen else (
                "" if version in ("", chosen) else f"for {version}")
            return Rows(engine, each, fabric, counts, instead)
    larger = catalog.load(_TABLES)[fabric].get("larger")
    found = _rows(larger, _engines(larger), engine, version, ranks) if larger else None
    return None if found is None else replace(found, instead=f"rows of {larger}, for want of {ranks} GPUs")


def _version(known: Mapping[str, object], asked: str) -> str:
    """The newest one not newer than the one asked for, else the oldest."""
    ordered = sorted(known, key=_numbers)
    below = [each for each in ordered if not asked or _numbers(each) <= _numbers(asked)]
    return below[-1] if below else ordered[0]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _around(counts: Sequence[int], ranks: int) -> tuple[int, ...]:
    """The number of ranks, or those below and above that were measured; none: `ranks` lies outside."""
    if ranks in counts:
        return (ranks,)
    below, above = [n for n in counts if n < ranks], [n for n in counts if n > ranks]
    return (below[-1], above[0]) if below and above else ()


@cache
def _engines(fabric: str) -> Mapping[str, Mapping[str, tuple[int, ...]]]:
    """Engine -> version -> numbers of ranks, ascending."""
    tables = catalog.load(_TABLES).get(fabric, {})
    return {engine: {version: tuple(sorted(map(int, counts))) for version, counts in tables[engine].items()}
            for engine in ENGINES if engine in tables}


@cache
def _curve(fabric: str, engine: str, version: str, ranks: int) -> tuple[F64, F64]:
    """(logarithms of the bytes, of the ns) of the points."""
    text = catalog.load(_TABLES)[fabric][engine][version][str(ranks)]
    sizes, times = np.log(np.array([point.split() for point in text.split(",")], np.float64)).T
    return sizes, times
