"""A recommendation model as blocks of operators.

Tables are spread over ep, every rank holding the mean number of tables and rows and looking up the rows of its group's
whole batch; an all_to_all brings every rank the vectors of its own samples (arXiv 1906.00091, section 3.1). The MLPs
are data parallel.
"""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.errors import UnsupportedError
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, gather, gemm, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.dlrm import Dlrm
from astrarium.workload.model.parts import ACTIVATION, block, linear

__all__ = ["dlrm_stack"]

VECTORS = "x[batch,vectors,embedding]"


def dlrm_stack(model: Dlrm, options: Options) -> Stack:
    """Look-ups and bottom MLP, interaction, top MLP. Raises UnsupportedError for axes that divide nothing."""
    for axis in ("tp", "sp", "cp"):
        if options.degrees.get(axis, 1) > 1:
            raise UnsupportedError(f"workload.{axis}", "divides nothing of a recommendation model",
                                   expected="1; ep divides the tables, dp the samples")
    tables = float(len(model.tables))
    sizes: dict[str, Size] = {
        "tables": tables, "table_rows": sum(model.tables) / tables, "lookups": model.rows / tables,
        "embedding": model.embedding, "vectors": len(model.tables) + 1,
        "width": (len(model.tables) + 1) * model.embedding, "rank": model.cross_rank, "bottom_0": model.dense,
        "top_0": model.interacted}
    sizes |= {f"bottom_{place}": width for place, width in enumerate(model.bottom, 1)}
    sizes |= {f"top_{place}": width for place, width in enumerate(model.top, 1)}
    axes = {"batch.group": ("edp",), "tables": ("ep",), "tables.all": ()}
    return Stack((_front(model), _interaction(model), _top(model)), (0,), (1,), (2,), sizes, axes)


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
