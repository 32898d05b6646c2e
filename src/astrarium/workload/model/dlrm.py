"""Recommendation models (DLRM, arXiv 1906.00091): embedding tables, a bottom MLP, an interaction, a top MLP.

Tables are spread over ep, every rank holding the mean number of tables and rows and looking up the rows of its group's
whole batch; an all_to_all brings every rank the vectors of its own samples (section 3.1 of the paper). The MLPs are
data parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Knob, Problem
from astrarium.errors import UnsupportedError
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, gather, gemm, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.base import Count, Counts, Model
from astrarium.workload.model.parameters import linear_count
from astrarium.workload.model.parts import ACTIVATION, block, linear

__all__ = ["Dlrm"]


VECTORS = "x[batch,vectors,embedding]"


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
    layered: ClassVar[bool] = False
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
        """1: a sample has no sequence."""
        return 1

    @property
    def rows(self) -> int:
        """Rows of all tables that one sample looks up."""
        return sum(self.lookups) if len(self.lookups) > 1 else self.lookups[0] * len(self.tables)

    @property
    def interacted(self) -> int:
        """Width of the input of the top MLP."""
        vectors = len(self.tables) + 1
        if self.interaction == "dot":
            return self.embedding + vectors * (vectors - 1) // 2
        return vectors * self.embedding

    def ep_units(self) -> int:
        """0: ep divides the tables as a mean, at any degree."""
        return 0

    def stack(self, options: Options) -> Stack:
        """The blocks: look-ups and bottom MLP, interaction, top MLP. Raises UnsupportedError for axes that divide
        nothing."""
        for axis in ("tp", "sp", "cp"):
            if options.degrees.get(axis, 1) > 1:
                raise UnsupportedError(f"workload.{axis}", "divides nothing of a recommendation model",
                                       expected="1; ep divides the tables, dp the samples")
        tables = float(len(self.tables))
        sizes: dict[str, Size] = {
            "tables": tables, "table_rows": sum(self.tables) / tables, "lookups": self.rows / tables,
            "embedding": self.embedding, "vectors": len(self.tables) + 1,
            "width": (len(self.tables) + 1) * self.embedding, "rank": self.cross_rank, "bottom_0": self.dense,
            "top_0": self.interacted}
        sizes |= {f"bottom_{place}": width for place, width in enumerate(self.bottom, 1)}
        sizes |= {f"top_{place}": width for place, width in enumerate(self.top, 1)}
        axes = {"batch.group": ("edp",), "tables": ("ep",), "tables.all": ()}
        return Stack((_front(self), _interaction(self), _top(self)), (0,), (1,), (2,), sizes, axes)

    def counts(self) -> Counts:
        """Parameters by part; a sample uses the rows that it looks up."""
        width = (len(self.tables) + 1) * self.embedding
        return {
            "embedding": sum(self.tables) * self.embedding,
            "bottom": _mlp_count(self.dense, tuple(self.bottom)),
            "cross": self.cross_layers * (2 * width * self.cross_rank + width),
            "top": _mlp_count(self.interacted, tuple(self.top)),
        }, (sum(self.tables) - self.rows) * self.embedding


def _mlp(name: str, source: str, widths: Sequence[int], weights: dict[str, str], *, ends_linear: bool) -> list[Op]:
    ops: list[Op] = []
    for place in range(1, len(widths) + 1):
        dims, result = f"[batch,{name}_{place}]", f"{name}{place}"
        ops.append(linear(f"{name}{place}", f"{source}[batch,{name}_{place - 1}]", f"{name}_{place - 1},{name}_{place}",
                          f"{result}l{dims}", weights, bias=True))
        flops = 4.0 if ends_linear and place == len(widths) else ACTIVATION["relu"]     # at the end a sigmoid
        ops.append(point(f"{name}{place}_activation", f"{result}l{dims} -> {result}{dims}", flops, saves="outputs"))
        source = result
    return ops


def _front(model: Dlrm) -> Block:
    """Bags of rows of the group's batch, exchanged; the bottom MLP; all vectors side by side."""
    weights = {"tables": "tables table_rows embedding"}
    ops = [gather("lookup", "index[batch.group,tables,lookups] * tables[tables,table_rows,embedding] -> "
                  "bags[batch.group,tables,embedding]"),
           *_mlp("bottom", "dense", model.bottom, weights, ends_linear=False)]
    last = len(model.bottom)
    ops.append(point("join", f"bags[batch,tables.all,embedding] + bottom{last}[batch,bottom_{last}] -> {VECTORS}", 0,
                     saves="nothing"))
    return block("front", ops, weights, start="", end=VECTORS, widths={"index": "index"}, experts=("tables",))


def _interaction(model: Dlrm) -> Block:
    weights: dict[str, str] = {}
    taken = "y[batch,top_0]"
    if model.interaction == "dot":
        ops = [gemm("pairs", f"{VECTORS} * x[batch,vectors.other,embedding] -> p[batch,vectors,vectors.other]"),
               point("join", f"p[batch,vectors,vectors.other] + {VECTORS} -> {taken}", 0, saves="nothing")]
    elif model.interaction == "cross":
        ops = [point("flatten", f"{VECTORS} -> c0[batch,width]", 0, saves="nothing")]
        for place in range(model.cross_layers):
            down, up = f"v{place}[batch,rank]", f"w{place}[batch,width]"
            ops += [linear(f"down{place}", f"c{place}[batch,width]", "width,rank", down, weights, bias=False),
                    linear(f"up{place}", down, "rank,width", up, weights, bias=True),
                    point(f"cross{place}", f"c0[batch,width] + w{place}[batch,width] + c{place}[batch,width] -> "
                          f"c{place + 1}[batch,width]", 2)]
        ops.append(point("join", f"c{model.cross_layers}[batch,width] -> {taken}", 0, saves="nothing"))
    else:
        ops = [point("join", f"{VECTORS} -> {taken}", 0, saves="nothing")]
    return block("interaction", ops, weights, start=VECTORS, end=taken)


def _top(model: Dlrm) -> Block:
    weights: dict[str, str] = {}
    last = len(model.top)
    ops = _mlp("top", "x", model.top, weights, ends_linear=True)
    ops.append(point("loss", f"top{last}[batch,top_{last}] -> loss[batch]", 4))
    return block("top", ops, weights, start="x[batch,top_0]", end="", widths={"loss": "stats"})


def _mlp_count(first: int, widths: Sequence[int]) -> Count:
    return sum(linear_count(rows, columns, True) for rows, columns in zip((first, *widths), widths, strict=False))
