"""A decoder as blocks of operators: embedding, layers, head."""

from __future__ import annotations

from dataclasses import replace

from astrarium.errors import UnsupportedError
from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, add, gather, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.cached import cache_axes, cache_sizes, cached_core, kv_heads, sparse, states_of
from astrarium.workload.model.decoder import Decoder, LayerKind
from astrarium.workload.model.delta_net import delta_axes, delta_ops, delta_sizes
from astrarium.workload.model.experts import expert_axes, expert_ops, expert_sizes, expert_weights
from astrarium.workload.model.indexer import INDEX_LOSS, index_sizes
from astrarium.workload.model.language_head import language_head
from astrarium.workload.model.latent import latent_heads, latent_sizes, latent_states
from astrarium.workload.model.parts import ACTIVATION, INSIDE, NORM, STREAM, block, core, dropped, ffn, linear, norm
from astrarium.workload.model.prediction import prediction_block

__all__ = ["decoder_stack"]


def decoder_stack(model: Decoder, options: Options) -> Stack:
    """The blocks of a decoder; layers that are alike are one block."""
    share = options.packed.share if options.packed else 1
    kinds = [(model.layer(index), index % share == 0) for index in range(model.layers)]
    distinct = list(dict.fromkeys(kinds))
    number = {kind: 1 + place for place, kind in enumerate(distinct)}
    head = language_head(options, norm_kind=model.norm, tied=model.tied_embeddings, bias="head" in model.biases)
    layers = tuple(_layer(model, kind, options, owner=owner) for kind, owner in distinct)
    blocks = (_embedding(model, options), *layers, head)
    if options.packed is not None:
        blocks = tuple(sparse(block, options.packed.density) for block in blocks)
    last: tuple[int, ...] = (len(blocks) - 1,) if options.packed is None or options.packed.sampled else ()
    if model.mtp and options.packed is None:
        kind = model.layer(model.layers - 1)
        module = prediction_block(model, options, _layer(model, kind, options, owner=True))
        last = (*range(len(blocks), len(blocks) + model.mtp), *last)
        blocks += tuple(replace(module, name=f"{module.name}{depth}") for depth in range(1, model.mtp + 1))
    sizes: dict[str, Size] = {
        "d": model.d_model, "heads": model.heads, "kv_heads": kv_heads(model, options), "head": model.head,
        "ffn": model.ffn, "vocab": model.vocab, "positions": model.max_positions or 1, **latent_sizes(model),
        **expert_sizes(model, options), **cache_sizes(model, options), **delta_sizes(model, options),
        **index_sizes(model)}
    return Stack(blocks, (0,), tuple([number[kind] for kind in kinds]), last, sizes,
                 {**expert_axes(options), **cache_axes(options), **delta_axes()},
                 tied=frozenset({"embedding"} if model.tied_embeddings or len(last) > 1 else ()))


def _layer(model: Decoder, kind: LayerKind, options: Options, *, owner: bool) -> Block:
    """Norm, attention, residual; norm, FFN, residual. `owner`: of layers that share a cache, the one that makes it."""
    ops: list[Op] = []
    weights: dict[str, str] = {}
    states: dict[str, str] = {}
    ops.append(norm(model.norm, "norm1", "x", "h", weights))
    ops += _mixer(model, kind, options, weights, states, owner=owner)
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
    found = block(_name(kind, owner), ops, weights, states=states, experts=expert_weights(weights),
                  widths={"choice": "index", "chosen": "index", "index_loss": "stats"})
    learns = model.sparse is not None and options.packed is None and not kind.delta
    return replace(found, losses=(INDEX_LOSS,)) if learns else found


def _mixer(model: Decoder, kind: LayerKind, options: Options, weights: dict[str, str], states: dict[str, str], *,
           owner: bool) -> list[Op]:
    """From h to what the layer adds to the stream, a: a delta net, or attention."""
    if kind.delta:
        ops, heads, size, result = delta_ops(model, options, weights, states), "v_heads", "v_size", "o"
    else:
        ops, heads, size, result = _heads(model, kind, options, weights, owner=owner), "heads", "head", "o"
        size = size if model.mla is None else "v_size"
        if model.gated_heads:
            dims, result = f"[batch,seq,{heads},{size}]", "og"
            ops.insert(0, linear("head_gate", f"h{INSIDE}", f"d,{heads},{size}", f"hg{dims}", weights,
                                 bias="qkv" in model.biases))
            ops.append(point("gated", f"o{dims} + hg{dims} -> og{dims}", ACTIVATION["silu"]))
        if options.packed is not None:
            states |= latent_states(kind, model.sparse) if model.mla else states_of(kind)
    return [*ops, linear("out", f"{result}[batch,seq,{heads},{size}]", f"{heads},{size},d", f"a{INSIDE}", weights,
                         bias="out" in model.biases and not kind.delta)]


def _name(kind: LayerKind, owner: bool) -> str:
    return "_".join([*([] if owner else ["sharing"]), *(["window"] if kind.window is not None else []),
                     *(["delta"] if kind.delta else []),
                     *(["expert"] if kind.moe else []), "layer"])


def _heads(model: Decoder, kind: LayerKind, options: Options, weights: dict[str, str], *, owner: bool) -> list[Op]:
    """From h to the heads' outputs o."""
    if model.mla is not None:
        return latent_heads(model.mla, model.sparse, kind, options, weights, _work(model, kind, options), owner=owner)
    bias = "qkv" in model.biases
    made = (("q", "heads"), ("k", "kv_heads"), ("v", "kv_heads")) if owner else (("q", "heads"),)
    ops = [linear(name, f"h{INSIDE}", f"d,{heads},head", f"{name}[batch,seq,{heads},head]", weights, bias=bias)
           for name, heads in made]
    names = {"q": "q", "k": "k"}
    for name, heads in made[:2]:
        dims = f"[batch,seq,{heads},head]"
        if model.qk_norm:
            ops.append(_head_norm(model, name, heads, weights))
            names[name] = f"{name}n"
        if model.positions == "rotary":     # two products and a sum; nothing but angles is needed for backward
            ops.append(point(f"rope_{name}", f"{names[name]}{dims} -> {name}r{dims}", 3 * model.rotary_share,
                             saves="nothing"))
            names[name] = f"{name}r"
    q, k = names["q"], names["k"]
    if model.sinks:
        weights["sinks"] = "heads"
    if options.packed is not None:
        _one_chunk(model, kind, options)
        return ops + cached_core(kind, options, q, k, owner=owner)
    return ops + core(options, _work(model, kind, options), q=q, k=k, sinks="sinks" if model.sinks else "")


def _head_norm(model: Decoder, name: str, heads: str, weights: dict[str, str]) -> Op:
    """A norm over each head's vector, with the scale that the model has."""
    dims, scale = f"[batch,seq,{heads},head]", f"{name}_scale"
    if model.qk_norm_scale == "none":
        return point(f"{name}_norm", f"{name}{dims} -> {name}n{dims}", NORM["rms"] - 1)
    own = "head" if model.qk_norm_scale == "head" else f"{heads},head"
    weights[scale] = own.replace(",", " ")
    return point(f"{name}_norm", f"{name}{dims} + {scale}[{own}] -> {name}n{dims}", NORM["rms"])


def _one_chunk(model: Decoder, kind: LayerKind, options: Options) -> None:
    """Refuse chunked attention over more than one chunk: how much of the last one is cached would depend on the place.
    """
    packed = options.packed
    longest = max(part.past + part.new for part in packed.parts) if packed is not None else 0
    if kind.window is not None and model.window_kind == "chunked" and longest > kind.window:
        raise UnsupportedError("workload.model.window_kind", f"chunked attention over {longest} tokens in inference is "
                               "not modelled", expected=f"at most {kind.window} tokens (one chunk)")


def _work(model: Decoder, kind: LayerKind, options: Options) -> float:
    """Share of all scores that is computed: all (`full`), or what the mask leaves (`skip`)."""
    seq = options.seq
    sight = kind.window or (seq if model.sparse is None else model.sparse.top_k)
    window = min(sight, seq)
    if options.mask == "full":
        return window / seq
    if kind.window is not None and model.window_kind == "chunked":
        whole, rest = divmod(seq, window)
        return (whole * window * (window + 1) + rest * (rest + 1)) / (2 * seq**2)
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
