"""Hand-made pieces of a transformer under tensor parallelism: what the graph gives, small enough to count by hand."""

from __future__ import annotations

from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.assemble import Recipe, Sizes
from astrarium.workload.mesh import Mesh, mesh_of
from astrarium.workload.pieces import BlockPieces, Piece, Step, Weight
from astrarium.workload.schedule import load_schedule

__all__ = ["embedding", "head", "layer", "recipe"]

OUTPUT = 4096.0
REPLICAS = ("dp", "cp", "sp")


def _chain(names: str, kind: dict[str, tuple[NodeKind, CommOp | None]], tp: bool, weight: str = "") -> tuple[Step, ...]:
    steps: list[Step] = []
    before: tuple[int, ...] = ()
    for name in names.split():
        if name in kind and not tp:
            continue
        node, op = kind.get(name, (NodeKind.COMP, None))
        late = name in weight.split()
        steps.append(Step(name, node, before, flops=100.0 if op is None else 0.0, bytes=1000.0 if op is None else 64.0,
                          op=op, axes=() if op is None else ("tp",), weight=late))
        if not late:
            before = (len(steps) - 1,)
    return tuple(steps)


COLLECTIVE = {"reduce1": (NodeKind.COMM_COLL, CommOp.ALL_REDUCE), "reduce2": (NodeKind.COMM_COLL, CommOp.ALL_REDUCE)}


def layer(tp: bool = True, *, steps: int = 1) -> BlockPieces:
    """A layer; `steps` times as many operators as the smallest one."""
    ahead = _chain(" ".join(["norm qkv core out reduce1 norm2 up act down reduce2"] * steps), COLLECTIVE, tp)
    back = _chain(" ".join(["d_down w_down d_up w_up reduce1 d_core d_qkv w_qkv reduce2"] * steps), COLLECTIVE, tp,
                  "w_down w_up w_qkv")
    weights = (Weight("qkv", 3000.0, REPLICAS), Weight("ffn", 8000.0, REPLICAS))
    return BlockPieces("layer", Piece(ahead, _last(ahead)), Piece(back, _last(back)), weights, 1000.0, 300.0, OUTPUT)


def _last(steps: tuple[Step, ...]) -> int:
    return max(number for number, step in enumerate(steps) if not step.weight)


def embedding() -> BlockPieces:
    """The embedding: backward makes nothing but the gradient of its weight."""
    ahead = (Step("gather", NodeKind.COMP, (), 0, 0, 500.0),)
    back = (Step("scatter", NodeKind.COMP, (), 10.0, 0, 500.0, weight=True),)
    weights = (Weight("wte", 5000.0, REPLICAS),)
    return BlockPieces("embedding", Piece(ahead, 0), Piece(back, 0), weights, 16.0, 10.0, OUTPUT)


def head() -> BlockPieces:
    """Head and loss."""
    ahead = _chain("logits loss", {}, False)
    back = _chain("d_logits w_logits d_hidden", {}, False, "w_logits")
    weights = (Weight("lm_head", 5000.0, REPLICAS),)
    return BlockPieces("head", Piece(ahead, 1), Piece(back, 2), weights, 2000.0, 700.0, 0.0)


def _cut(layers: int, parts: int) -> list[list[int]]:
    counts = [layers // parts + (part < layers % parts) for part in range(parts)]
    cut = [[1] * count for count in counts]
    cut[0].insert(0, 0)
    cut[-1].append(2)
    return cut


def recipe(schedule: str = "1f1b", *, layers: int = 8, batches: int = 4, chunks: int = 1, mesh: Mesh | None = None,
           kinds: tuple[BlockPieces, ...] | None = None, **settings: object) -> Recipe:
    """A small model on a mesh (tp 2, dp 2, pp 4 where none is given)."""
    found = mesh or mesh_of("megatron", tp=2, dp=2, pp=4)
    stages = found.size(("pp",))
    parts = _cut(layers, stages * chunks)
    return Recipe(mesh=found, kinds=kinds or (embedding(), layer(found.size(("tp",)) > 1), head()),
                  parts=tuple(tuple(part) for part in parts), schedule=load_schedule(schedule), batches=batches,
                  chunks=chunks, sizes=Sizes(), **settings)  # type: ignore[arg-type]
