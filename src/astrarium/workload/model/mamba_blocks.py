"""A Mamba-2 model as blocks of operators (arXiv 2405.21060, sections 6 and 7).

Inside a chunk all pairs of positions meet; between chunks only states pass. Where the sequence is sharded, every rank
needs the states with which the ranks before it ended: they are gathered. Heads are sharded over tp; B and C, which
groups of heads share, are on every rank of tp. The convolution's neighbours across a shard's edge (3 tokens) are left
out.
"""

from __future__ import annotations

from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, add, gather, gemm, point, scan
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.mamba import Mamba
from astrarium.workload.model.parts import ACTIVATION, INSIDE, LOSS_WIDTHS, NORM, STREAM, block, linear, loss, norm

__all__ = ["mamba_stack"]

PAIR = 4.0          # FLOPs per pair of positions and head: difference of decays, exponential, mask, product
POSITION = "[batch,chunks,chunk"


def mamba_stack(model: Mamba, options: Options) -> Stack:
    """The blocks of a Mamba-2 model."""
    shards = options.degrees.get("sp", 1) * options.degrees.get("cp", 1)
    local = -(-options.seq // shards)
    chunk = min(model.chunk, local)
    sizes: dict[str, Size] = {
        "d": model.d_model, "heads": model.heads, "p": model.head_size, "groups": model.groups, "n": model.state,
        "convolution": model.convolution, "chunk": chunk, "chunks": shards * -(-local // chunk), "shards": shards,
        "vocab": model.vocab}
    axes = {"chunks": ("sp", "cp"), "shards": ("sp", "cp")}
    return Stack((_embedding(), _layer(model, sharded=shards > 1), _head(model)), (0,), (1,) * model.layers, (2,),
                 sizes, axes, tied=frozenset({"embedding"} if model.tied_embeddings else ()))


def _embedding() -> Block:
    ops = [gather("tokens", f"index[batch,seq] * embedding[vocab,d] -> e{INSIDE}")]
    return block("embedding", ops, {"embedding": "vocab d"}, start="", end=f"e{STREAM}", widths={"index": "index"})


def _convolved(model: Mamba, weights: dict[str, str], name: str, dims: str) -> Op:
    """Causal convolution and activation of one projection, cut into chunks."""
    weights[f"convolution_{name}"] = f"convolution {dims.replace(',', ' ')}"
    weights[f"offset_{name}"] = dims.replace(",", " ")
    return point(f"convolution_{name}", f"{name}[batch,seq,{dims}] + convolution_{name}[convolution,{dims}] + "
                 f"offset_{name}[{dims}] -> {name}c{POSITION},{dims}]", 2 * model.convolution + ACTIVATION["silu"])


def _layer(model: Mamba, *, sharded: bool) -> Block:
    weights: dict[str, str] = {}
    ops: list[Op] = [norm("rms", "norm", "x", "h", weights)]
    parts = (("z", "heads,p"), ("u", "heads,p"), ("b", "groups,n"), ("c", "groups,n"), ("dt", "heads"))
    ops += [linear(name, f"h{INSIDE}", f"d,{dims}", f"{name}[batch,seq,{dims}]", weights, bias=False)
            for name, dims in parts]
    ops += [_convolved(model, weights, name, dims) for name, dims in parts[1:4]]
    weights |= {"dt_offset": "heads", "decay": "heads", "skip": "heads"}
    ops.append(point("step", f"dt[batch,seq,heads] + dt_offset[heads] + decay[heads] -> a{POSITION},heads]", 6))
    ops += _states(sharded=sharded)
    heads = f"{POSITION},heads,p]"
    groups = f"{POSITION},groups,n]"
    ops.append(scan("scan", f"uc{heads} * a{POSITION},heads] * bc{groups} * cc{groups} * "
                    f"before[batch,chunks,heads,p,n] -> s{heads}", PAIR))
    weights["gate_scale"] = "heads p"
    ops += [point("skip", f"s{heads} + uc{heads} + skip[heads] -> v{heads}", 2),
            point("gate", f"v{heads} + z[batch,seq,heads,p] + gate_scale[heads,p] -> w[batch,seq,heads,p]",
                  NORM["rms"] + ACTIVATION["silu"] + 1),
            linear("out", "w[batch,seq,heads,p]", "heads,p,d", f"o{INSIDE}", weights, bias=False),
            add("residual", f"x{STREAM} + o{STREAM} -> y{STREAM}")]
    return block("layer", ops, weights)


def _states(*, sharded: bool) -> list[Op]:
    """The state that every chunk adds, and from them the states before every chunk."""
    added, before = "added[batch,chunks,heads,p,n]", "before[batch,chunks,heads,p,n]"
    ops = [gemm("states", f"bc{POSITION},groups,n] * uc{POSITION},heads,p] -> {added}", along=("groups",))]
    if not sharded:
        return [*ops, point("pass", f"{added} -> {before}", 2, saves="nothing")]
    return [*ops, point("pass_local", f"{added} -> end[batch,shards,heads,p,n]", 2, saves="nothing"),
            point("pass", f"{added} + end[batch,shards.all,heads,p,n] -> {before}", 2, saves="nothing")]


def _head(model: Mamba) -> Block:
    weights: dict[str, str] = {}
    logits = "logits[batch,seq,vocab]"
    ops = [norm("rms", "final_norm", "x", "h", weights)]
    if model.tied_embeddings:
        weights["embedding"] = "vocab d"
        ops.append(gemm("logits", f"h{INSIDE} * embedding[vocab,d] -> {logits}"))
    else:
        ops.append(linear("logits", f"h{INSIDE}", "d,vocab", logits, weights, bias=False))
    return block("head", ops + loss(logits, "[batch,seq]"), weights, end="", widths=LOSS_WIDTHS)
