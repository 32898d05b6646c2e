"""Attention of a decoder's layer as operators: queries, keys and values, their norms and positions, the scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from astrarium.errors import UnsupportedError
from astrarium.workload.graph import Options
from astrarium.workload.graph.ir import Op, point
from astrarium.workload.model.cached import LayerKind, cached_core
from astrarium.workload.model.indexer import Indexer
from astrarium.workload.model.latent import Latent, latent_heads
from astrarium.workload.model.parts import INSIDE, NORM, core, fused, linear

__all__ = ["Attending", "head_ops"]


class Attending(Protocol):
    """What attention asks of a decoder: fields of Decoder."""

    @property
    def mla(self) -> Latent | None: ...
    @property
    def sparse(self) -> Indexer | None: ...
    @property
    def biases(self) -> Sequence[str]: ...
    @property
    def qk_norm(self) -> bool: ...
    @property
    def qk_norm_scale(self) -> str: ...
    @property
    def positions(self) -> str: ...
    @property
    def rotary_share(self) -> float: ...
    @property
    def sinks(self) -> bool: ...
    @property
    def window_kind(self) -> str: ...


def head_ops(model: Attending, kind: LayerKind, options: Options, weights: dict[str, str], *, owner: bool) -> list[Op]:
    """From h to the heads' outputs o."""
    if model.mla is not None:
        return latent_heads(model.mla, model.sparse, kind, options, weights, _work(model, kind, options), owner=owner)
    bias = "qkv" in model.biases
    made = (("q", "heads"), ("k", "kv_heads"), ("v", "kv_heads")) if owner else (("q", "heads"),)
    ops = [linear(name, f"h{INSIDE}", f"d,{heads},head", f"{name}[batch,seq,{heads},head]", weights, bias=bias)
           for name, heads in made]
    names = {"q": "q", "k": "k"}
    turned: list[Op] = []
    for name, heads in made[:2]:
        dims = f"[batch,seq,{heads},head]"
        if model.qk_norm:
            *squares, normed = _head_norm(model, options, name, heads, weights)
            ops, turned, names[name] = ops + squares, [*turned, normed], f"{name}n"
        if model.positions == "rotary":     # two products and a sum; nothing but angles is needed for backward
            turned.append(point(f"rope_{name}", f"{names[name]}{dims} -> {name}r{dims}", 3 * model.rotary_share,
                                saves="nothing"))
            names[name] = f"{name}r"
    ops += fused("rope", turned)
    q, k = names["q"], names["k"]
    if model.sinks:
        weights["sinks"] = "heads"
    if options.packed is not None:
        _one_chunk(model, kind, options)
        return ops + cached_core(kind, options, q, k, owner=owner)
    return ops + core(options, _work(model, kind, options), q=q, k=k, sinks="sinks" if model.sinks else "")


def _head_norm(model: Attending, options: Options, name: str, heads: str, weights: dict[str, str]) -> list[Op]:
    """A norm over each head's vector, or over all heads' (`all`: ranks of tp then sum up its squares, a number of fp32
    a token: vLLM, SGLang), with the scale that the model has."""
    dims, scale = f"[batch,seq,{heads},head]", f"{name}_scale"
    if model.qk_norm_scale == "none":
        return [point(f"{name}_norm", f"{name}{dims} -> {name}n{dims}", NORM["rms"] - 1)]
    own = "head" if model.qk_norm_scale == "head" else f"{heads},head"
    weights[scale] = own.replace(",", " ")
    if model.qk_norm_scale == "head" or options.degrees.get("tp", 1) == 1:
        return [point(f"{name}_norm", f"{name}{dims} + {scale}[{own}] -> {name}n{dims}", NORM["rms"])]
    squares = f"{name}_squares[batch,seq]"
    return [point(f"{name}_norm_squares", f"{name}{dims} -> {squares}", 2)._replace(fused="squares"),
            point(f"{name}_norm", f"{name}{dims} + {squares} + {scale}[{own}] -> {name}n{dims}", NORM["rms"] - 2)]


def _one_chunk(model: Attending, kind: LayerKind, options: Options) -> None:
    """Refuse chunked attention over more than one chunk: how much of the last one is cached would depend on the place.
    """
    packed = options.packed
    longest = max(part.past + part.new for part in packed.parts) if packed is not None else 0
    if kind.window is not None and model.window_kind == "chunked" and longest > kind.window:
        raise UnsupportedError("workload.model.window_kind", f"chunked attention over {longest} tokens in inference is "
                               "not modelled", expected=f"at most {kind.window} tokens (one chunk)")


def _work(model: Attending, kind: LayerKind, options: Options) -> float:
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
