"""Sparse attention (DeepSeek-V3.2) as operators: an indexer scores all tokens for a query; attention reads the best.

The indexer is the same on every rank of tp. In training it learns from a separate loss, which sends gradients to its
weights alone; what that loss compares with (the sums of attention's own scores) is left out.

Beside ordinary heads (MiniMax-M3) an index head belongs to each key and value head, tp divides them alike, and what is
chosen are blocks of tokens, by the best score in each; in inference only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated

from astrarium.config import Config, Knob
from astrarium.errors import UnsupportedError
from astrarium.workload.graph import Options
from astrarium.workload.graph.ir import Op, Use, append, gemm, point
from astrarium.workload.graph.layout import Size
from astrarium.workload.model.cached import kv_heads, parts_of
from astrarium.workload.model.parts import INSIDE, NORM, causal, linear

__all__ = ["INDEX_CACHE", "INDEX_LOSS", "INDEX_STATE", "Indexer", "block_counts", "block_ops",
           "index_counts", "index_ops", "index_sizes"]

INDEX_CACHE, INDEX_STATE = "index_cache", "batch ctx one index_size"
INDEX_LOSS = Use("index_loss", ("batch", "seq"))
SCORE = 3.0         # FLOPs per score and head: cut at zero, weight, sum


class Indexer(Config, frozen=True, kw_only=True):
    """Sparse attention (DeepSeek-V3.2): small heads score all tokens; a query sees those with the highest scores."""

    heads: Annotated[int, Knob("Heads of the indexer.", ge=1)]
    head_size: Annotated[int, Knob("Length of its queries and of its one key per token, which is cached.", ge=1)]
    top_k: Annotated[int, Knob("Tokens that a query sees.", ge=1)]
    layers: Annotated[Sequence[int] | None, Knob("Layers (from 0) with an indexer; others take the choice of the last "
                                                 "one before them (GLM-5.2). Left out: every layer.", ge=0)] = None
    block: Annotated[int, Knob("Tokens that are chosen together.", ge=1)] = 1


def index_counts(sparse: Indexer, d_model: int, q_rank: int) -> tuple[int, int]:
    """Parameters of (matrices, norms) of one layer's indexer, which makes its queries of vectors of `q_rank`."""
    query = q_rank * sparse.heads * sparse.head_size
    return query + d_model * (sparse.head_size + sparse.heads), 2 * sparse.head_size


def block_counts(sparse: Indexer, d_model: int) -> tuple[int, int]:
    """Parameters of (matrices, norms) of one layer's indexer beside ordinary heads."""
    return d_model * (sparse.heads + 1) * sparse.head_size, 2 * sparse.head_size


def index_sizes(sparse: Indexer | None, options: Options) -> Mapping[str, Size]:
    """Sizes of the indexer's dims."""
    if sparse is None:
        return MappingProxyType({})
    return MappingProxyType({"index_heads": sparse.heads, "index_kv": kv_heads(sparse.heads, options), "one": 1,
                             "index_size": sparse.head_size, "selected": sparse.top_k})


def index_ops(sparse: Indexer, options: Options, weights: dict[str, str]) -> list[Op]:
    """From h and the queries' short vector cqn to the tokens that every query sees."""
    weights |= {"index_scale": "index_size", "index_offset": "index_size"}
    key, made = "[batch,seq,index_size]", "iq[batch,seq,index_heads,index_size]"
    ops = [linear("index_q", "cqn[batch,seq,q_rank]", "q_rank,index_heads,index_size", made, weights, bias=False),
           linear("index_k", f"h{INSIDE}", "d,index_size", f"ik{key}", weights, bias=False),
           linear("index_weights", f"h{INSIDE}", "d,index_heads", "iw[batch,seq,index_heads]", weights, bias=False)]
    ops = [op._replace(stops=True) for op in ops]
    ops.append(point("index_norm", f"ik{key} + index_scale[index_size] + index_offset[index_size] -> ikn{key}",
                     NORM["layer"]))
    return ops + (_trained(sparse, options) if options.packed is None else _packed(sparse, options))


def block_ops(options: Options, weights: dict[str, str]) -> list[Op]:
    """From h to the blocks of tokens that every query sees, head by head. Raises UnsupportedError in training."""
    if options.packed is None:
        raise UnsupportedError("workload.model.sparse", "attention to blocks of tokens is not modelled in training",
                               expected="inference, or no sparse")
    heads, key, cache = "[batch,seq,index_kv,index_size]", "[batch,seq,index_size]", INDEX_STATE.replace(" ", ",")
    weights |= {"index_q_scale": "index_size", "index_k_scale": "index_size"}
    ops = [linear("index_q", f"h{INSIDE}", "d,index_kv,index_size", f"iq{heads}", weights, bias=False),
           linear("index_k", f"h{INSIDE}", "d,index_size", f"ik{key}", weights, bias=False),
           point("index_q_norm", f"iq{heads} + index_q_scale[index_size] -> iqn{heads}", NORM["rms"]),
           point("index_k_norm", f"ik{key} + index_k_scale[index_size] -> ikn{key}", NORM["rms"]),
           append("cache_index", f"ikn[batch,seq.all,index_size] -> {INDEX_CACHE}[{cache}]")]
    for part in parts_of(options):
        step, end, name = part.step, part.dim, part.name
        keys = f"ikn[batch,seq.index{end}," if part.fresh else f"{INDEX_CACHE}[batch,ctx{end},one,"
        work = step.pairs(None, options.mask == "skip") / (step.tokens * part.seen(None, options))
        ops += [gemm(f"index_scores{name}", f"iqn[batch,seq.all{end},index_kv,index_size] * {keys}index_size] -> "
                     f"is{name}[batch,index_kv,pairs{end}]", work=work, sequences=sum(e.count for e in step.parts)),
                point(f"select{name}", f"is{name}[batch,index_kv,pairs{end}] -> "
                      f"chosen{name}[batch,seq.all{end},index_kv,selected]", 2, saves="nothing", grad=False,
                      per=f"is{name}")]
    return ops


def _trained(sparse: Indexer, options: Options) -> list[Op]:
    """Scores of all pairs, the choice, and the loss from which the indexer learns."""
    scores = "is[batch,seq,seq.index]"
    return [gemm("index_scores", f"iq[batch,seq,index_heads,index_size] * ikn[batch,seq.index,index_size] -> {scores}",
                 work=causal(options, options.seq)),
            point("select", f"{scores} + iw[batch,seq,index_heads] -> chosen[batch,seq,selected]",
                  SCORE * sparse.heads + 1, saves="nothing", grad=False),
            point("index_loss", f"{scores} + iw[batch,seq,index_heads] -> index_loss[batch,seq]", SCORE * sparse.heads,
                  saves="nothing")]


def _packed(sparse: Indexer, options: Options) -> list[Op]:
    """Operators of the indexer in a step of inference. Its keys are cached."""
    cache = INDEX_STATE.replace(" ", ",")
    ops = [append("cache_index", f"ikn[batch,seq.all,index_size] -> {INDEX_CACHE}[{cache}]")]
    for part in parts_of(options):
        step, end, name = part.step, part.dim, part.name
        keys = f"ikn[batch,seq.index{end}," if part.fresh else f"{INDEX_CACHE}[batch,ctx{end},one,"
        query, scores = f"[batch,seq.all{end},index_heads", f"is{name}[batch,pairs{end}]"
        work = step.pairs(None, options.mask == "skip") / (step.tokens * part.seen(None, options))
        ops += [gemm(f"index_scores{name}", f"iq{query},index_size] * {keys}index_size] -> {scores}", work=work,
                     sequences=sum(each.count for each in step.parts)),
                point(f"select{name}", f"{scores} + iw{query}] -> chosen{name}[batch,seq.all{end},selected]",
                      SCORE * sparse.heads + 1, saves="nothing", grad=False, per=f"is{name}")]
    return ops
