"""A Mamba-2 model as blocks of operators (arXiv 2405.21060, sections 6 and 7).

Inside a chunk all pairs of positions meet; between chunks only states pass. Where the sequence is sharded, every rank
needs the states with which the ranks before it ended: they are gathered. Heads are sharded over tp; B and C, which
groups of heads share, are on every rank of tp. The convolution's neighbours across a shard's edge (3 tokens) are left
out. In inference a sequence has, instead of a cache, one state per head and the last tokens of the convolution.
"""

from __future__ import annotations

from astrarium.errors import UnsupportedError
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, add, append, gather, gemm, point, scan
from astrarium.workload.graph.layout import Size
from astrarium.workload.graph.packed import Packed
from astrarium.workload.model.cached import sparse
from astrarium.workload.model.language_head import language_head
from astrarium.workload.model.mamba import Mamba
from astrarium.workload.model.parts import ACTIVATION, INSIDE, NORM, STREAM, block, linear, norm

__all__ = ["mamba_stack"]

PAIR = 4.0          # FLOPs per pair of positions and head: difference of decays, exponential, mask, product
UPDATE = 6.0        # FLOPs per number of a state and token: decay, x B added, C times it
POSITION = "[batch,chunks,chunk"
HEADS, GROUPS = f"{POSITION},heads,p]", f"{POSITION},groups,n]"


def mamba_stack(model: Mamba, options: Options) -> Stack:
    """The blocks of a Mamba-2 model. Raises UnsupportedError for a step of inference whose tokens are sharded."""
    shards = options.degrees.get("sp", 1) * options.degrees.get("cp", 1)
    packed = options.packed
    if packed is not None and shards > 1:
        raise UnsupportedError("workload.sp", "a state is not spread over ranks like a cache", expected="1")
    sizes: dict[str, Size] = {
        "d": model.d_model, "heads": model.heads, "p": model.head_size, "groups": model.groups, "n": model.state,
        "convolution": model.convolution, "tail": model.convolution - 1, "shards": shards, "vocab": model.vocab,
        **(_chunks(model, options, shards) if packed is None else _packed(model, packed))}
    head = language_head(options, norm_kind="rms", tied=model.tied_embeddings)
    blocks: tuple[Block, ...] = (_embedding(), _layer(model, options), head)
    if packed is not None:
        blocks = tuple(sparse(each, packed.density) for each in blocks)
    return Stack(blocks, (0,), (1,) * model.layers, (2,) if packed is None or packed.sampled else (), sizes,
                 {"chunks": ("sp", "cp"), "shards": ("sp", "cp"), "seq.all": (), "sampled": ()},
                 tied=frozenset({"embedding"} if model.tied_embeddings else ()))


def _chunks(model: Mamba, options: Options, shards: int) -> dict[str, Size]:
    """Whole chunks for every shard of the sequence."""
    local = -(-options.seq // shards)
    chunk = min(model.chunk, local)
    return {"chunk": chunk, "chunks": shards * -(-local // chunk)}


def _packed(model: Mamba, packed: Packed) -> dict[str, Size]:
    """Chunks of a mean length that have as many tokens, and pairs of them, as those of all sequences."""
    full = model.chunk
    pairs = sum(part.count * (part.new // full * full**2 + (part.new % full) ** 2) for part in packed.parts)
    chunk = pairs / packed.tokens
    return {"chunk": chunk, "chunks": packed.tokens / chunk, "sampled": packed.sampled or 1,
            "sequences": sum(part.count for part in packed.parts)}


def _embedding() -> Block:
    ops = [gather("tokens", f"index[batch,seq] * embedding[vocab,d] -> e{INSIDE}")]
    return block("embedding", ops, {"embedding": "vocab d"}, start="", end=f"e{STREAM}", widths={"index": "index"})


def _layer(model: Mamba, options: Options) -> Block:
    weights: dict[str, str] = {}
    states: dict[str, str] = {}
    ops: list[Op] = [norm("rms", "norm", "x", "h", weights)]
    parts = (("z", "heads,p"), ("u", "heads,p"), ("b", "groups,n"), ("c", "groups,n"), ("dt", "heads"))
    ops += [linear(name, f"h{INSIDE}", f"d,{dims}", f"{name}[batch,seq,{dims}]", weights, bias=False)
            for name, dims in parts]
    for name, dims in parts[1:4]:
        ops += _convolved(model, options, weights, states, name, dims)
    weights |= {"dt_offset": "heads", "decay": "heads", "skip": "heads"}
    ops.append(point("step", f"dt[batch,seq,heads] + dt_offset[heads] + decay[heads] -> a{POSITION},heads]", 6))
    ops += _mixed(options, states)
    weights["gate_scale"] = "heads p"
    ops += [point("skip", f"s{HEADS} + uc{HEADS} + skip[heads] -> v{HEADS}", 2),
            point("gate", f"v{HEADS} + z[batch,seq,heads,p] + gate_scale[heads,p] -> w[batch,seq,heads,p]",
                  NORM["rms"] + ACTIVATION["silu"] + 1),
            linear("out", "w[batch,seq,heads,p]", "heads,p,d", f"o{INSIDE}", weights, bias=False),
            add("residual", f"x{STREAM} + o{STREAM} -> y{STREAM}")]
    return block("layer", ops, weights, states=states)


def _convolved(model: Mamba, options: Options, weights: dict[str, str], states: dict[str, str], name: str,
               dims: str) -> list[Op]:
    """Causal convolution and activation of one projection, cut into chunks; in inference the last tokens are kept."""
    weights[f"convolution_{name}"] = f"convolution {dims.replace(',', ' ')}"
    weights[f"offset_{name}"] = dims.replace(",", " ")
    taken = f"{name}[batch,seq,{dims}] + convolution_{name}[convolution,{dims}] + offset_{name}[{dims}]"
    result, flops = f"{name}c{POSITION},{dims}]", 2 * model.convolution + ACTIVATION["silu"]
    if options.packed is None:
        return [point(f"convolution_{name}", f"{taken} -> {result}", flops)]
    tail, kept = f"tail_{name}[batch,sequences,tail,{dims}]", f"end_{name}[batch,sequences,tail,{dims}]"
    states[f"tail_{name}"] = f"batch sequences tail {dims.replace(',', ' ')}"
    before = "" if options.packed.fresh else f" + {tail}"
    return [point(f"convolution_{name}", f"{taken}{before} -> {result} + {kept}", flops),
            append(f"keep_{name}", f"{kept} -> {tail}")]


def _mixed(options: Options, states: dict[str, str]) -> list[Op]:
    """From inputs uc, decays a, and bc and cc to the heads' outputs s, by way of the states."""
    added, before = "added[batch,chunks,heads,p,n]", "before[batch,chunks,heads,p,n]"
    state, end = "state[batch,sequences,heads,p,n]", "end[batch,sequences,heads,p,n]"
    inputs = (f"uc{HEADS}", f"a{POSITION},heads]", f"bc{GROUPS}", f"cc{GROUPS}")
    packed = options.packed
    if packed is not None:
        states["state"] = "batch sequences heads p n"
        if not packed.fresh and all(part.new == 1 for part in packed.parts):    # one kernel reads and writes the states
            return [point("update", f"{' + '.join(inputs)} + {state} -> s{HEADS} + {end}", UPDATE),
                    append("keep_state", f"{end} -> {state}")]
    ops = [gemm("states", f"bc{GROUPS} * uc{HEADS} -> {added}", along=("groups",))]
    if packed is not None:
        found = added if packed.fresh else f"{added} + {state}"
        ops += [point("pass", f"{found} -> {before} + {end}", 2), append("keep_state", f"{end} -> {state}")]
    elif options.degrees.get("sp", 1) * options.degrees.get("cp", 1) == 1:
        ops.append(point("pass", f"{added} -> {before}", 2, saves="nothing"))
    else:
        ops += [point("pass_local", f"{added} -> end[batch,shards,heads,p,n]", 2, saves="nothing"),
                point("pass", f"{added} + end[batch,shards.all,heads,p,n] -> {before}", 2, saves="nothing")]
    return [*ops, scan("scan", f"{' * '.join(inputs)} * {before} -> s{HEADS}", PAIR)]
