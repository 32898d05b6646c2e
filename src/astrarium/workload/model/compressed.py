"""Attention to a window and to compressed tokens (DeepSeek-V4: CSA and HCA) as operators of a step of inference.

All heads share one key, which is their value, too. Besides the tokens of a window a query sees entries that represent
`ratio` tokens each: all of them, or, where an indexer has its own entries, those with the best scores. A sequence
keeps the window, its entries, and the tokens that are no entry yet. The output has a matrix per group of heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated

from astrarium.config import Config, Knob
from astrarium.errors import UnsupportedError
from astrarium.workload.graph import Options
from astrarium.workload.graph.ir import Op, append, attention, gemm, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.graph.packed import Packed
from astrarium.workload.model.cached import AttentionBatch, joined, parts_of
from astrarium.workload.model.parts import INSIDE, NORM, STREAM, linear

__all__ = ["Compressed", "compressed_axes", "compressed_counts", "compressed_ops", "compressed_sizes"]

CACHE, INDEX = "compressed_cache", "compressed_index"
HEADS = "[batch,seq,heads,head]"
SCORE = 3.0         # FLOPs per score and head of the indexer: cut at zero, weight, sum


class Compressed(Config, frozen=True, kw_only=True):
    """Attention to a window and to compressed tokens (DeepSeek-V4)."""

    ratios: Annotated[Sequence[int], Knob("Tokens of a compressed entry, of every layer; 0: the window alone.", ge=0)]
    window: Annotated[int, Knob("Tokens that a token looks back (itself included) as they are.", ge=1)]
    q_rank: Annotated[int, Knob("Length of the vector that queries are made from.", ge=1)]
    out_groups: Annotated[int, Knob("Groups of heads with an output matrix each.", ge=1)]
    out_rank: Annotated[int, Knob("Length of a group's output.", ge=1)]
    indexed: Annotated[int, Knob("The ratio whose entries an indexer chooses, and which overlap.", ge=1)] = 4
    index_heads: Annotated[int, Knob("Heads of the indexer.", ge=1)]
    index_size: Annotated[int, Knob("Length of its queries and keys.", ge=1)]
    top_k: Annotated[int, Knob("Entries that a query sees of those.", ge=1)]


def compressed_counts(made: Compressed, ratio: int, d_model: int, heads: int, head: int) -> tuple[int, int]:
    """Parameters of (matrices, norms) of one layer's attention."""
    matrices = made.q_rank * (d_model + heads * head) + d_model * head + heads
    matrices += made.out_rank * (heads * head + made.out_groups * d_model)
    norms = made.q_rank + head
    if ratio:
        wide = 2 if ratio == made.indexed else 1
        matrices += wide * head * (2 * d_model + ratio)
        norms += head
    if ratio == made.indexed:
        matrices += made.index_heads * (made.q_rank * made.index_size + d_model)
        matrices += 2 * made.index_size * (2 * d_model + ratio)
        norms += made.index_size
    return matrices, norms


def _entries(step: Packed, ratio: int, most: int | None = None) -> int:
    """Entries of all sequences after a step, at most `most` of each."""
    if not ratio:
        return 0
    each = [(part.count, (part.past + part.new) // ratio) for part in step.parts]
    return sum(count * (found if most is None else min(found, most)) for count, found in each)


def _read(made: Compressed, ratio: int, step: Packed) -> int:
    """Tokens and entries that a step's queries see."""
    return step.context(made.window) + _entries(step, ratio, made.top_k if ratio == made.indexed else None)


def compressed_sizes(made: Compressed | None, head: int, options: Options) -> Mapping[str, Size]:
    """Sizes of its dims. Raises UnsupportedError as `_step` does."""
    if made is None:
        return MappingProxyType({})
    packed = _step(options)
    found: dict[str, Size] = {
        "q_rank": made.q_rank, "out_groups": made.out_groups, "out_rank": made.out_rank,
        "index_heads": made.index_heads, "index_size": made.index_size, "selected": made.top_k,
        "sequences": sum(part.count for part in packed.parts)}
    kept = sum(part.count * min(part.past + part.new, made.window) for part in packed.parts)
    for ratio in {*made.ratios}:
        wide, entries = 2 if ratio == made.indexed else 1, _entries(packed, ratio)
        found |= {f"ctx.kept{ratio}": kept + entries, f"ctx.entries{ratio}": entries or 1, f"ratio.{ratio}": ratio,
                  f"entries.{ratio}": packed.tokens / max(1, ratio)}
        for name, size in (("entry", head), ("index", made.index_size)):
            found |= {f"{name}_wide.{ratio}": wide * size, f"{name}_pending.{ratio}": 2 * wide * size * ratio}
        for part in parts_of(options):
            found |= {f"ctx.read{ratio}{part.dim}": _read(made, ratio, part.step),
                      f"ctx.entries{ratio}{part.dim}": _entries(part.step, ratio) or 1,
                      f"pairs.entries{ratio}{part.dim}": part.step.pairs(None, True) / max(1, ratio)}
    return MappingProxyType(found)


def _step(options: Options) -> Packed:
    """The step of inference. Raises UnsupportedError in training, for a sharded context and for several kernels."""
    if options.packed is None or options.degrees.get("sp", 1) > 1:
        raise UnsupportedError("workload.model.compressed", "attention to compressed tokens is modelled neither in "
                               "training nor over ranks of sp", expected="inference with sp: 1")
    if options.attention == "unfused":
        raise UnsupportedError("workload.attention", "attention to compressed tokens is one kernel", expected="flash")
    return options.packed


def compressed_axes() -> Mapping[str, tuple[str, ...]]:
    """Axes of these dims."""
    return MappingProxyType({"out_groups": ("tp",)})


def compressed_ops(made: Compressed, ratio: int, rotary: float, options: Options, weights: dict[str, str],
                   states: dict[str, str]) -> list[Op]:
    """From h to the groups' outputs low[batch,seq,out_groups,out_rank]."""
    _step(options)
    rank, turn = "[batch,seq.res,q_rank]", 3 * rotary
    weights |= {"q_norm_scale": "q_rank", "kv_scale": "head", "sinks": "heads"}
    states[CACHE] = f"batch ctx.kept{ratio} one head"
    ops = [linear("q_down", f"h{STREAM}", "d,q_rank", f"cq{rank}", weights, bias=False),
           point("q_norm", f"cq{rank} + q_norm_scale[q_rank] -> cqn{rank}", NORM["rms"]),
           linear("q_up", "cqn[batch,seq,q_rank]", "q_rank,heads,head", f"q{HEADS}", weights, bias=False),
           point("rope_q", f"q{HEADS} -> qr{HEADS}", NORM["rms"] - 1 + turn),
           linear("kv", f"h{INSIDE}", "d,head", "kv[batch,seq,head]", weights, bias=False),
           point("kv_norm", "kv[batch,seq,head] + kv_scale[head] -> kvn[batch,seq,one,head]", NORM["rms"] + turn),
           append("cache_kv", f"kvn[batch,seq.all,one,head] -> {CACHE}[batch,ctx.kept{ratio},one,head]")]
    if ratio:
        ops += _compress("entry", "head", ratio, f"{CACHE}[batch,ctx.kept{ratio},one,head]", weights, states)
    if ratio == made.indexed:
        ops += _indexed(made, options, weights, states)
    ops += [op for part in parts_of(options) for op in joined(part, [_attended(made, ratio, options, part)])]
    return [*ops, point("unturn", f"o{HEADS} -> ou{HEADS}", turn),
            linear("out_low", f"ou{HEADS}", "heads,head,out_rank", "low[batch,seq,out_groups,out_rank]", weights,
                   bias=False)]


def _compress(name: str, size: str, ratio: int, cache: str, weights: dict[str, str],
              states: dict[str, str]) -> list[Op]:
    """Entries of the tokens that are due, and the tokens that wait for theirs."""
    wide = f"{name}_wide.{ratio}"
    weights |= {f"{name}_offset": f"ratio.{ratio} {wide}", f"{name}_scale": size}
    states[f"{name}_waiting"] = f"batch sequences {name}_pending.{ratio}"
    made = f"{name}_made[batch,entries.{ratio},one,{size}]"
    ops = [linear(f"{name}_{kind}", f"h{INSIDE}", f"d,{wide}", f"{name}_{kind}[batch,seq,{wide}]", weights, bias=False)
           for kind in ("kv", "gate")]
    return [*ops, append(f"keep_{name}", f"{name}_gate[batch,seq.all,{wide}] -> "
                         f"{name}_waiting[batch,sequences,{name}_pending.{ratio}]"),
            point(f"{name}_compress", f"{name}_kv[batch,seq,{wide}] + {name}_gate[batch,seq,{wide}] + "
                  f"{name}_offset[ratio.{ratio},{wide}] + {name}_scale[{size}] -> {made}", 6 + NORM["rms"]),
            append(f"cache_{name}", f"{made} -> {cache}")]


def _indexed(made: Compressed, options: Options, weights: dict[str, str], states: dict[str, str]) -> list[Op]:
    """Scores of a query with all entries of the indexer, and the choice."""
    ratio = made.indexed
    cache = f"{INDEX}[batch,ctx.entries{ratio}"
    states[INDEX] = f"batch ctx.entries{ratio} one index_size"
    ops = [linear("index_q", "cqn[batch,seq,q_rank]", "q_rank,index_heads,index_size",
                  "iq[batch,seq,index_heads,index_size]", weights, bias=False),
           linear("index_weights", f"h{INSIDE}", "d,index_heads", "iw[batch,seq,index_heads]", weights, bias=False),
           *_compress("index", "index_size", ratio, f"{cache},one,index_size]", weights, states)]
    for part in parts_of(options):
        step, end, name = part.step, part.dim, part.name
        query, scores = f"[batch,seq.all{end},index_heads", f"is{name}[batch,pairs.entries{ratio}{end}]"
        pairs = step.pairs(None, options.mask == "skip") / ratio
        ops += [gemm(f"index_scores{name}", f"iq{query},index_size] * {cache}{end},one,index_size] -> {scores}",
                     work=pairs / (step.tokens * (_entries(step, ratio) or 1)),
                     sequences=sum(each.count for each in step.parts)),
                point(f"select{name}", f"{scores} + iw{query}] -> chosen{name}[batch,seq.all{end},selected]",
                      SCORE * made.index_heads + 1, saves="nothing", grad=False, per=f"is{name}")]
    return ops


def _attended(made: Compressed, ratio: int, options: Options, part: AttentionBatch) -> Op:
    """One kernel over the window and the entries."""
    step, skip = part.step, options.mask == "skip"
    pairs: float = step.pairs(made.window, skip)
    if ratio:
        pairs += step.pairs(made.top_k * ratio if ratio == made.indexed else None, skip) / ratio
    query, keys = f"[batch,seq.all{part.dim},heads,head]", f"{CACHE}[batch,ctx.read{ratio}{part.dim},one,head]"
    return attention(f"attention{part.name}", f"qr{query} * {keys} * {keys} -> o{query}",
                     work=min(1.0, pairs / (step.tokens * _read(made, ratio, step))),
                     sequences=sum(each.count for each in step.parts))
