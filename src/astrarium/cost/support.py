"""Support of an interval: which settings the measured rows of a stack on a device have, and where a design leaves them.

A design is outside on an axis of `Support` where no row has its value (fewer than three have it), or where its number
lies below or above those of all rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from astrarium.design import Design

if TYPE_CHECKING:       # other workloads start without them
    from astrarium.workload.model.base import Model
    from astrarium.workload.transformer import Transformer

__all__ = ["FEW", "SETTINGS", "SPLITS", "Support", "format_of", "kind_of", "support_of", "united"]

FEW = 3             # rows with a value, below which their scatter is unknown
SETTINGS = ("model", "precision", "zero", "recompute", "split")
SPLITS = ("tp", "cp", "pp")
NUMBERS: Mapping[str, str] = {"hosts": "hosts", "tokens": "tokens per step and NPU"}
BEFORE: Mapping[str, str] = {"zero": "ZeRO ", "recompute": "recompute "}


class Support(Struct, frozen=True):
    """Settings of one design, or of several rows. `model`: dense, MoE; `precision`: formats of products (16 bits are
    bf16); `split`: axes above 1, of tp, cp and pp; `hosts` and `tokens` (per step and NPU): the least and the most.
    An empty tuple: not known yet."""

    model: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()
    zero: tuple[int, ...] = ()
    recompute: tuple[str, ...] = ()
    split: tuple[str, ...] = ()
    hosts: tuple[int, ...] = ()
    tokens: tuple[float, ...] = ()

    def outside(self, rows: Support) -> dict[str, str]:
        """Axis -> what it has and what the rows have, of every axis on which it lies outside that of `rows`."""
        found = {}
        for axis in SETTINGS:
            mine, theirs = getattr(self, axis), getattr(rows, axis)
            if missing := [each for each in mine if each not in theirs]:
                found[axis] = f"{_listed(axis, missing)}, rows have {_listed(axis, theirs)}"
        for axis, words in NUMBERS.items():
            mine, theirs = getattr(self, axis), getattr(rows, axis)
            if mine and not (theirs[0] <= mine[0] and mine[-1] <= theirs[-1]):
                unit = words.removesuffix("s") if mine[-1] == 1 else words
                found[axis] = f"{_ranged(mine)} {unit}, rows have {_ranged(theirs)}"
        return found

    @property
    def plain(self) -> dict[str, list[Any]]:
        """Axis -> values, as in catalog/intervals.toml."""
        return {axis: list(values) for axis, values in msgspec.structs.asdict(self).items()}


def _listed(axis: str, values: Iterable[object]) -> str:
    return BEFORE.get(axis, "") + (", ".join(map(str, values)) or "none")


def _ranged(values: tuple[float, ...]) -> str:
    low, high = (f"{each:,.0f}" for each in (values[0], values[-1]))
    return low if low == high else f"{low} to {high}"


def kind_of(model: Model) -> str:
    """`dense` or `MoE`."""
    return "MoE" if model.ep_units() else "dense"


def format_of(work: Transformer) -> str:
    """The format of a workload's products, as rows are told apart by it."""
    products = str(work.precision.products or work.precision.activations)
    return "bf16" if products == "fp16" else products


def support_of(design: Design) -> Support:
    """The settings of one training design. A single replica has no stage of ZeRO, and selective recomputation that
    changes nothing is none."""
    from astrarium.workload.training import recompute_of

    work = cast("Transformer", design.workload)
    tokens = work.global_batch * (work.seq or getattr(work.model, "seq", None) or 0) / work.ranks
    shards = work.dp * work.cp * work.sp
    return Support((kind_of(work.model),), (format_of(work),), (work.zero,) if shards > 1 else (),
                   (recompute_of(work),), tuple(axis for axis in SPLITS if getattr(work, axis) > 1),
                   (design.network.npus // design.network.flat[0].npus,), (tokens,))


def united(every: Iterable[Support]) -> Support:
    """The support of several rows: values that at least `FEW` of them have, and the range of their numbers."""
    rows = list(every)
    found = {axis: Counter(value for row in rows for value in getattr(row, axis)) for axis in Support.__struct_fields__}
    return Support(**{axis: (min(counts), max(counts)) if axis in NUMBERS else
                      tuple(sorted(value for value, rows in counts.items() if rows >= FEW))
                      for axis, counts in found.items()})
