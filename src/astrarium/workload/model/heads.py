"""Attention of a decoder's layer as operators: queries, keys and values, their norms and positions, the scores."""

from __future__ import annotations

from astrarium.errors import UnsupportedError
from astrarium.workload.graph import Options
from astrarium.workload.graph.ir import Op, point
from astrarium.workload.model.cached import LayerKind, cached_core
from astrarium.workload.model.decoder_shape import Shape
from astrarium.workload.model.head_sizes import head_dims, sizes_of
from astrarium.workload.model.indexer import block_ops
from astrarium.workload.model.latent import latent_heads
from astrarium.workload.model.parts import INSIDE, NORM, core, fused, linear

__all__ = ["head_ops"]


def head_ops(model: Shape, kind: LayerKind, options: Options, weights: dict[str, str], *, owner: bool) -> list[Op]:
    """From h to the heads' outputs o."""
    if model.mla is not None:
        return latent_heads(model.mla, model.sparse, kind, options, weights, _work(model, kind, options), owner=owner)
    bias, heads, sizes = "qkv" in model.biases, head_dims(model, kind), sizes_of(model, kind)
    made = (("q", "heads", heads.key), ("k", heads.kv, heads.key), ("v", heads.kv, heads.value))
    ops = [linear(name, f"h{INSIDE}", f"d,{count},{size}", f"{name}[batch,seq,{count},{size}]", weights, bias=bias)
           for name, count, size in made[:1 if not owner else 3 if sizes.projected else 2]]
    names = {"q": "q", "k": "k"}
    turned: list[Op] = []
    if owner and not sizes.projected:
        dims = f"[batch,seq,{heads.kv},{heads.key}]"
        turned.append(point("values", f"k{dims} -> v{dims}", NORM["rms"] - 1))
    for name, count, size in made[:2 if owner else 1]:
        dims = f"[batch,seq,{count},{size}]"
        if model.qk_norm:
            *squares, normed = _head_norm(model, options, name, (count, size), weights)
            ops, turned, names[name] = ops + squares, [*turned, normed], f"{name}n"
        if model.positions == "rotary":     # two products and a sum; nothing but angles is needed for backward
            turned.append(point(f"rope_{name}", f"{names[name]}{dims} -> {name}r{dims}", 3 * model.rotary_share,
                                saves="nothing"))
            names[name] = f"{name}r"
    ops += fused("rope", turned)
    if sizes.sinks:
        weights["sinks"] = "heads"
    blocks = model.sparse if kind.sparse else None
    if blocks is not None and owner:
        ops += block_ops(options, weights)
    if options.packed is not None:
        _one_chunk(model, kind, options)
        return ops + cached_core(kind, options, names["q"], names["k"], heads, owner=owner,
                                 read=None if blocks is None else blocks.top_k)
    return ops + core(options, _work(model, kind, options), q=names["q"], k=names["k"], kv=heads.kv,
                      sizes=(heads.key, heads.value), sinks="sinks" if sizes.sinks else "")


def _head_norm(model: Shape, options: Options, name: str, dim: tuple[str, str],
               weights: dict[str, str]) -> list[Op]:
    """A norm over each head's vector, or over all heads' (`all`: ranks of tp then sum up its squares, a number of fp32
    a token: vLLM, SGLang), with the scale that the model has."""
    dims, scale = f"[batch,seq,{','.join(dim)}]", f"{name}_scale"
    if model.qk_norm_scale == "none":
        return [point(f"{name}_norm", f"{name}{dims} -> {name}n{dims}", NORM["rms"] - 1)]
    own = dim[1] if model.qk_norm_scale == "head" else ",".join(dim)
    weights[scale] = own.replace(",", " ")
    if model.qk_norm_scale == "head" or options.degrees.get("tp", 1) == 1:
        return [point(f"{name}_norm", f"{name}{dims} + {scale}[{own}] -> {name}n{dims}", NORM["rms"])]
    squares = f"{name}_squares[batch,seq]"
    return [point(f"{name}_norm_squares", f"{name}{dims} -> {squares}", 2)._replace(fused="squares"),
            point(f"{name}_norm", f"{name}{dims} + {squares} + {scale}[{own}] -> {name}n{dims}", NORM["rms"] - 2)]


def _one_chunk(model: Shape, kind: LayerKind, options: Options) -> None:
    """Refuse chunked attention over more than one chunk: how much of the last one is cached would depend on the place.
    """
    packed = options.packed
    longest = max(part.past + part.new for part in packed.parts) if packed is not None else 0
    if kind.window is not None and model.window_kind == "chunked" and longest > kind.window:
        raise UnsupportedError("workload.model.window_kind", f"chunked attention over {longest} tokens in inference is "
                               "not modelled", expected=f"at most {kind.window} tokens (one chunk)")


def _work(model: Shape, kind: LayerKind, options: Options) -> float:
    """Share of all scores that is computed: all (`full`), or what the mask leaves (`skip`)."""
    seq = options.seq
    sight = kind.window or (model.sparse.top_k if model.sparse is not None and kind.sparse else seq)
    window = min(sight, seq)
    if options.mask == "full":
        return window / seq
    if kind.window is not None and model.window_kind == "chunked":
        whole, rest = divmod(seq, window)
        return (whole * window * (window + 1) + rest * (rest + 1)) / (2 * seq**2)
    return (window * (window + 1) / 2 + (seq - window) * window) / seq**2
