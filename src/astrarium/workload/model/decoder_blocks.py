"""A decoder as blocks of operators: embedding, layers, head."""

from __future__ import annotations

from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, add, gather, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.cached import cache_axes, cache_sizes, cached_core, kv_heads, sparse, states_of
from astrarium.workload.model.decoder import Decoder, LayerKind
from astrarium.workload.model.experts import expert_axes, expert_ops, expert_sizes, expert_weights
from astrarium.workload.model.language_head import language_head
from astrarium.workload.model.latent import latent_heads, latent_sizes, latent_states
from astrarium.workload.model.parts import INSIDE, NORM, STREAM, block, core, dropped, ffn, linear, norm

__all__ = ["decoder_stack"]


def decoder_stack(model: Decoder, options: Options) -> Stack:
    """The blocks of a decoder; layers that are alike are one block."""
    share = options.packed.share if options.packed else 1
    kinds = [(model.layer(index), index % share == 0) for index in range(model.layers)]
    distinct = list(dict.fromkeys(kinds))
    number = {kind: 1 + place for place, kind in enumerate(distinct)}
    head = language_head(options, norm_kind=model.norm, tied=model.tied_embeddings, bias="head" in model.biases)
    blocks = (_embedding(model, options),
              *(_layer(model, kind, options, owner=owner) for kind, owner in distinct), head)
    if options.packed is not None:
        blocks = tuple(sparse(block, options.packed.density) for block in blocks)
    last = (len(blocks) - 1,) if options.packed is None or options.packed.sampled else ()
    sizes: dict[str, Size] = {
        "d": model.d_model, "heads": model.heads, "kv_heads": kv_heads(model, options), "head": model.head,
        "ffn": model.ffn, "vocab": model.vocab, "positions": model.max_positions or 1, **latent_sizes(model),
        **expert_sizes(model, options), **cache_sizes(model, options)}
    return Stack(blocks, (0,), tuple([number[kind] for kind in kinds]), last, sizes,
                 {**expert_axes(options), **cache_axes(options)},
                 tied=frozenset({"embedding"} if model.tied_embeddings else ()))


def _layer(model: Decoder, kind: LayerKind, options: Options, *, owner: bool) -> Block:
    """Norm, attention, residual; norm, FFN, residual. `owner`: of layers that share a cache, the one that makes it."""
    ops: list[Op] = []
    weights: dict[str, str] = {}
    ops.append(norm(model.norm, "norm1", "x", "h", weights))
    ops += _heads(model, kind, options, weights, owner=owner)
    size = "head" if model.mla is None else "v_size"
    ops.append(linear("out", f"o[batch,seq,heads,{size}]", f"heads,{size},d", f"a{INSIDE}", weights,
                      bias="out" in model.biases))
    kept = dropped(options, ops, "a", "dropout1")
    source = "x" if model.parallel else "r"
    ops.append(add("residual1", f"x{STREAM} + {kept}{STREAM} -> r{STREAM}"))
    ops.append(norm(model.norm, "norm2", source, "g", weights))
    if kind.moe:
        ops += expert_ops(model, options, weights)
    else:
        ops += ffn(weights, gated=model.gated, activation=model.activation, bias="mlp" in model.biases)
    kept = dropped(options, ops, "f", "dropout2")
    ops.append(add("residual2", f"r{STREAM} + {kept}{STREAM} -> y{STREAM}"))
    states = {} if options.packed is None else latent_states(kind) if model.mla else states_of(kind)
    return block(_name(kind, owner), ops, weights, states=states, experts=expert_weights(weights),
                 widths={"choice": "index"})


def _name(kind: LayerKind, owner: bool) -> str:
    return "_".join([*([] if owner else ["sharing"]), *(["window"] if kind.window is not None else []),
                     *(["expert"] if kind.moe else []), "layer"])


def _heads(model: Decoder, kind: LayerKind, options: Options, weights: dict[str, str], *, owner: bool) -> list[Op]:
    """From h to the heads' outputs o."""
    if model.mla is not None:
        return latent_heads(model.mla, kind, options, weights, _work(kind, options), owner=owner)
    bias = "qkv" in model.biases
    made = (("q", "heads"), ("k", "kv_heads"), ("v", "kv_heads")) if owner else (("q", "heads"),)
    ops = [linear(name, f"h{INSIDE}", f"d,{heads},head", f"{name}[batch,seq,{heads},head]", weights, bias=bias)
           for name, heads in made]
    names = {"q": "q", "k": "k"}
    for name, heads in made[:2]:
        dims = f"[batch,seq,{heads},head]"
        if model.qk_norm:
            weights[f"{name}_scale"] = "head"
            ops.append(point(f"{name}_norm", f"{name}{dims} + {name}_scale[head] -> {name}n{dims}", NORM["rms"]))
            names[name] = f"{name}n"
        if model.positions == "rotary":     # two products and a sum; nothing but angles is needed for backward
            ops.append(point(f"rope_{name}", f"{names[name]}{dims} -> {name}r{dims}", 3, saves="nothing"))
            names[name] = f"{name}r"
    q, k = names["q"], names["k"]
    if options.packed is not None:
        return ops + cached_core(kind, options, q, k, owner=owner)
    return ops + core(options, _work(kind, options), q=q, k=k)


def _work(kind: LayerKind, options: Options) -> float:
    """Share of all scores that is computed: all (`full`), or what the mask leaves (`skip`)."""
    seq = options.seq
    window = min(kind.window or seq, seq)
    if options.mask == "full":
        return window / seq
    return (window * (window + 1) / 2 + (seq - window) * window) / seq**2


def _embedding(model: Decoder, options: Options) -> Block:
    weights = {"embedding": "vocab d"}
    ops = [gather("tokens", f"index[batch,seq] * embedding[vocab,d] -> e{INSIDE}")]
    last = "e"
    if model.positions == "learned":
        weights["position"] = "positions d"
        ops.append(gather("place", f"place_index[batch,seq.res] * position[positions,d] -> p{STREAM}"))
        ops.append(add("sum", f"e{STREAM} + p{STREAM} -> s{STREAM}"))
        last = "s"
    if model.embedding_norm:
        ops.append(norm(model.norm, "embedding_norm", last, "n", weights))
        last = "n"
    last = dropped(options, ops, last, "dropout0")
    return block("embedding", ops, weights, start="", end=f"{last}{STREAM}",
                 widths={"index": "index", "place_index": "index"})
