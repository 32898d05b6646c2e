"""What is legal between the fields of a decoder, and between a decoder and a layout of inference."""

from __future__ import annotations

from collections.abc import Iterator

from astrarium.config import Problem
from astrarium.workload.divisors import divides
from astrarium.workload.model.base import Split
from astrarium.workload.model.decoder_shape import Shape
from astrarium.workload.model.experts import expert_rules

__all__ = ["FEEDS", "MIXERS", "decoder_rules", "layout_rules"]

MIXERS = ("full", "window", "sparse", "delta", "mamba")
FEEDS = ("ffn", "experts")
"""Words of a pattern: what mixes tokens, and what works on each by itself."""


def decoder_rules(model: Shape) -> Iterator[Problem]:
    if model.groups > model.heads:
        yield Problem("kv_heads", f"{model.groups} is more than {model.heads} heads", f"1 to {model.heads}")
    elif model.heads % model.groups:
        legal = ", ".join(str(n) for n in range(1, model.heads + 1) if model.heads % n == 0)
        yield Problem("kv_heads", f"{model.groups} does not divide {model.heads} heads", f"one of {legal}")
    if model.mla is not None and model.kv_heads is not None:
        yield Problem("kv_heads", "has no effect with mla", "no kv_heads")
    if model.mla is not None and model.head_size is not None:
        yield Problem("head_size", "has no effect with mla", "no head_size")
    if model.mla is not None and "qkv" in model.biases:
        yield Problem("biases", "qkv has no effect with mla", "out, mlp or neither")
    yield from _attention_rules(model)
    yield from _pattern_rules(model)
    if model.moe is not None and model.moe.dense_layers > model.layers:
        yield Problem("moe.dense_layers", f"{model.moe.dense_layers} is more than {model.layers} layers",
                      f"0 to {model.layers}")


def _attention_rules(model: Shape) -> Iterator[Problem]:
    if model.positions == "learned" and model.max_positions is None:
        yield Problem("max_positions", "is missing", "the length of the learned position table")
    if model.compressed is not None and (len(model.compressed.ratios) != model.layers or any(
            each is not None for each in (model.mla, model.sparse, model.window, model.delta, model.pattern))):
        yield Problem("compressed", "takes a ratio for every layer and cannot be combined with another kind of "
                                    "attention",
                      f"{model.layers} ratios; no mla, sparse, window, delta or pattern")
    if model.streams > 1 and model.compressed is None:
        yield Problem("streams", "are not modelled in training without compressed", "1, or compressed")
    if model.full_heads is not None and (model.window is None or model.mla is not None):
        yield Problem("full_heads", "has no effect without a window, or with mla", "no full_heads")
    if model.window is None and model.delta is None and model.full_every:
        yield Problem("full_every", "has no effect without window or delta", "one of them, or 0")
    if model.window is not None and model.delta is not None:
        yield Problem("window", "has no effect with delta", "no window")
    if model.sparse is not None and model.mla is not None and model.mla.q_rank is None:
        yield Problem("sparse", "needs mla with q_rank, from which the indexer makes its queries", "both, or neither")
    if model.sparse is not None and model.mla is None and model.sparse.heads != model.groups:
        yield Problem("sparse.heads", f"{model.sparse.heads}, but with ordinary heads each head of keys has one",
                      f"{model.groups}, or mla")
    if model.sparse is not None and model.mla is not None and model.sparse.block > 1:
        yield Problem("sparse.block", "is for sparse attention without mla", "1")
    if model.sparse is not None and model.sparse.layers is not None and 0 not in model.sparse.layers:
        yield Problem("sparse.layers", "the first layer has no layer before it that chooses", "0 among them")
    if model.sparse is not None and model.window is not None:
        yield Problem("sparse", "has no effect with window", "one of the two")
    if model.gated_heads and model.mla is not None:
        yield Problem("gated_heads", "has no effect with mla", "false")


def _pattern_rules(model: Shape) -> Iterator[Problem]:
    """Kinds of layers, one by one: each of a mixer, an FFN, or both, that the model has."""
    for name, sizes in (("pattern", model.pattern), ("ffns", model.ffns)):
        if sizes is not None and len(sizes) != model.layers:
            yield Problem(name, f"names {len(sizes)} layers", f"{model.layers}")
    if model.mamba is not None and model.pattern is None:
        yield Problem("mamba", "has no effect without a pattern that says which layers it is", "pattern, or no mamba")
    needed = {"window": model.window, "sparse": model.sparse, "delta": model.delta, "mamba": model.mamba,
              "experts": model.moe}
    for index, kind in enumerate(model.pattern or ()):
        words = kind.split("+")
        mixers, feeds = ([word for word in words if word in known] for known in (MIXERS, FEEDS))
        if len(mixers) > 1 or len(feeds) > 1 or len(mixers) + len(feeds) != len(words):
            yield Problem(f"pattern[{index}]", f"{kind[:60]!r} is no kind of layer",
                          f"one of {', '.join(MIXERS)}, one of {', '.join(FEEDS)}, or both joined by +")
            return
        missing = next((word for word in words if word in needed and needed[word] is None), None)
        if missing is not None:
            what = "moe" if missing == "experts" else missing
            yield Problem(f"pattern[{index}]", f"{kind!r} needs {what}", what)
            return
    if model.pattern is not None and model.full_every:
        yield Problem("full_every", "has no effect together with pattern", "0")


def layout_rules(model: Shape, split: Split) -> Iterator[Problem]:
    """What forbids a layout of inference."""
    if split.pp > model.layers:
        yield Problem("pp", f"{split.pp} stages of {model.layers} layers", f"at most {model.layers}")
    if split.ep > 1 and model.moe is None:
        yield Problem("ep", f"{split.ep}, but the model has no experts", "1")
    if split.even:
        yield from _even(model, split)


def _even(model: Shape, split: Split) -> Iterator[Problem]:
    tp = split.tp
    yield from divides("tp", tp, model.heads, "heads")
    if model.mla is None and model.groups % tp and tp % model.groups:
        yield Problem("tp", f"{tp} neither divides {model.groups} key and value heads nor is a multiple of them",
                      f"a divisor or a multiple of {model.groups}")
    if model.mamba is not None:
        yield from divides("tp", tp, model.mamba.heads, "heads (mamba)")
    if model.compressed is not None:
        yield from divides("tp", tp, model.compressed.out_groups, "groups of heads (out_groups)")
    yield from divides("tp", tp, model.ffn, "(ffn)")
    if model.moe is not None:
        yield from expert_rules(model.moe.experts, split)
        yield from divides("moe_tp", split.moe_tp, model.moe.expert_ffn or model.ffn, "(expert_ffn)")
