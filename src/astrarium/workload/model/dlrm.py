"""Recommendation models (DLRM, arXiv 1906.00091): embedding tables, a bottom MLP, an interaction, a top MLP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Knob, Problem
from astrarium.workload.model.base import Model

__all__ = ["Dlrm"]


def _shapes(model: Dlrm) -> Iterator[Problem]:
    for name in ("tables", "bottom", "top"):
        if not getattr(model, name):
            yield Problem(name, "is empty", "at least one entry")
            return
    if model.bottom[-1] != model.embedding:
        yield Problem("bottom", f"ends with {model.bottom[-1]}", f"{model.embedding}, the length of an embedding")
    if len(model.lookups) not in (1, len(model.tables)):
        yield Problem("lookups", f"has {len(model.lookups)} entries for {len(model.tables)} tables",
                      f"1 or {len(model.tables)} entries")
    if (model.interaction == "cross") != (model.cross_layers > 0):
        yield Problem("cross_layers", f"{model.cross_layers} does not go with interaction {model.interaction}",
                      "1 or more with interaction cross, else 0")


class Dlrm(Model, frozen=True, kw_only=True):
    """A recommendation model: one sample is `dense` numbers and `lookups` rows of every table."""

    tag: ClassVar[str] = "dlrm"
    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_shapes,)
    tables: Annotated[Sequence[int], Knob("Rows of every embedding table.", ge=1)]
    lookups: Annotated[Sequence[int], Knob("Rows summed per sample, per table or one for all.", ge=1)] = (1,)
    embedding: Annotated[int, Knob("Length of an embedding.", ge=1)]
    dense: Annotated[int, Knob("Dense features of a sample.", ge=1)]
    bottom: Annotated[Sequence[int], Knob("Widths of the bottom MLP; the last is that of an embedding.", ge=1)]
    top: Annotated[Sequence[int], Knob("Widths of the top MLP.", ge=1)]
    interaction: Annotated[Literal["dot", "cross", "concat"],
                           Knob("All pairs' dot products, low-rank cross layers (DCNv2), or nothing.")] = "dot"
    cross_layers: Annotated[int, Knob("Cross layers.", ge=0)] = 0
    cross_rank: Annotated[int, Knob("Rank of a cross layer.", ge=1)] = 512

    @property
    def seq(self) -> int:
        """A sample is one; it has no sequence."""
        return 1

    @property
    def rows(self) -> int:
        """Rows of all tables that one sample looks up."""
        return sum(self.lookups) if len(self.lookups) > 1 else self.lookups[0] * len(self.tables)

    @property
    def interacted(self) -> int:
        """Width of what the top MLP takes."""
        vectors = len(self.tables) + 1
        if self.interaction == "dot":
            return self.embedding + vectors * (vectors - 1) // 2
        return vectors * self.embedding
