"""Residual streams in several copies (manifold-constrained hyper-connections, DeepSeek-V4) as operators.

A layer's part works on one vector per token: a mixture of the copies. What it gives is added to all of them, which are
mixed themselves; the weights of both come from a product of all copies, and an iteration that makes the matrix of the
mixture doubly stochastic. A model of one stream has none of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from astrarium.workload.graph.ir import Block, Op, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.parts import STREAM, linear, uses

__all__ = ["STREAMS", "collapsed", "expanded", "stream_counts", "stream_sizes", "with_streams"]

STREAMS = "[batch,seq.res,streams,d]"
SINKHORN = 160.0        # FLOPs per weight: 20 iterations of two sums and two divisions


def stream_counts(streams: int, d_model: int) -> tuple[int, int]:
    """Parameters of (one part of a layer, the head) besides those of a model with one stream."""
    if streams == 1:
        return 0, 0
    mixes = (2 + streams) * streams
    return mixes * (streams * d_model + 1) + 3, streams * (streams * d_model + 1) + 1


def stream_sizes(streams: int) -> Mapping[str, Size]:
    """Sizes of their dims."""
    return MappingProxyType({"streams": streams, "mixes": (2 + streams) * streams, "mixes.head": streams, "three": 3})


def collapsed(name: str, source: str, target: str, weights: dict[str, str], *, mixes: str = "mixes",
              scales: str = "three") -> list[Op]:
    """From all copies to one vector per token, with the weights that `expanded` uses, too."""
    made, found = f"{name}_made[batch,seq.res,{mixes}]", f"{name}_mix[batch,seq.res,{mixes}]"
    weights |= {f"{name}_base": mixes, f"{name}_scale": scales}
    return [linear(f"{name}_project", f"{source}{STREAMS}", f"streams,d,{mixes}", made, weights, bias=False),
            point(f"{name}_weights", f"{made} + {name}_base[{mixes}] -> {found}", SINKHORN),
            point(f"{name}_collapse", f"{source}{STREAMS} + {found} -> {target}{STREAM}", 2)]


def expanded(name: str, result: str, source: str, target: str, streams: int) -> Op:
    """A part's result added to all copies, and these mixed."""
    return point(f"{name}_expand", f"{result}{STREAM} + {source}{STREAMS} + {name}_mix[batch,seq.res,mixes] -> "
                 f"{target}{STREAMS}", 2 * (streams + 1))


def with_streams(embedding: Block, head: Block) -> tuple[Block, Block]:
    """The first and the last block of a model: one makes the copies, one makes a vector of them."""
    last = embedding.output.tensor
    first = replace(embedding, output=uses(f"{last}_copies{STREAMS}"),
                    ops=(*embedding.ops, point("copy", f"{last}{STREAM} -> {last}_copies{STREAMS}", 0)))
    weights: dict[str, str] = {}
    ops = collapsed("streams_head", "copies", "x", weights, mixes="mixes.head", scales="one")
    dims = {name: tuple(text.split()) for name, text in weights.items()}
    return first, replace(head, input=uses(f"copies{STREAMS}"), ops=(*ops, *head.ops),
                          weights=MappingProxyType({**dims, **head.weights}))
