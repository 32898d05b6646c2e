"""A decoder as blocks of operators: embedding, layers, head."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from astrarium.workload.graph import Options, Stack
from astrarium.workload.graph.ir import Block, Op, Use, add, attention, base, gather, gemm, point
from astrarium.workload.graph.layout import Number
from astrarium.workload.model.cached import (
    cache_axes,
    cache_sizes,
    cached_core,
    kv_heads,
    sampler_ops,
    sparse,
    states_of,
)
from astrarium.workload.model.decoder import Decoder, LayerKind

__all__ = ["decoder_stack"]

STREAM = "[batch,seq.res,d]"
INSIDE = "[batch,seq,d]"
NORM = {"rms": 4.0, "layer": 7.0}                      # sums, squares, scaling, gain (and offset)
ACTIVATION = {"silu": 5.0, "gelu": 8.0, "relu": 1.0}    # gelu: the tanh form


def decoder_stack(model: Decoder, options: Options) -> Stack:
    """The blocks of a decoder; layers that are alike are one block."""
    share = options.packed.share if options.packed else 1
    kinds = [(model.layer(index), index % share == 0) for index in range(model.layers)]
    distinct = list(dict.fromkeys(kinds))
    blocks = (_embedding(model, options),
              *(_layer(model, kind, options, owner=owner) for kind, owner in distinct), _head(model, options))
    if options.packed is not None:
        blocks = tuple(sparse(block, options.packed.density) for block in blocks)
    last = (len(blocks) - 1,) if options.packed is None or options.packed.sampled else ()
    sizes: dict[str, Number] = {"d": model.d_model, "heads": model.heads,
             "kv_heads": kv_heads(model, options), "head": model.head, "ffn": model.ffn,
             "vocab": model.vocab, "positions": model.max_positions or 1, **cache_sizes(model, options)}
    return Stack(blocks, (0,), tuple(1 + distinct.index(kind) for kind in kinds), last, sizes,
                 cache_axes(options), tied=frozenset({"embedding"} if model.tied_embeddings else ()))


def _stream(tensor: str) -> Use:
    return Use(tensor, ("batch", "seq.res", "d"))


def _block(name: str, ops: list[Op], weights: dict[str, str], start: str = "x", end: str = "y",
           widths: dict[str, str] | None = None, states: Mapping[str, str] | None = None) -> Block:
    dims = {weight: tuple(text.split()) for weight, text in weights.items()}
    kept = {state: tuple(text.split()) for state, text in (states or {}).items()}
    return Block(name, _stream(start) if start else Use("", ()), _stream(end) if end else Use("", ()), tuple(ops),
                 MappingProxyType(dims), MappingProxyType(kept), MappingProxyType(widths or {}))


def _norm(model: Decoder, name: str, source: str, result: str, weights: dict[str, str], dims: str = STREAM) -> Op:
    weights[f"{name}_scale"] = "d"
    operands = f"{source}{dims} + {name}_scale[d]"
    if model.norm == "layer":
        weights[f"{name}_offset"] = "d"
        operands += f" + {name}_offset[d]"
    return point(name, f"{operands} -> {result}{dims}", NORM[model.norm])


def _linear(name: str, source: str, weight: str, result: str, weights: dict[str, str], *, bias: bool) -> Op:
    """A product of `source` with a new weight w<name>[...]; `weight` and `result` list dims."""
    weights[f"w{name}"] = weight.replace(",", " ")
    text = f"{source} * w{name}[{weight}]"
    if bias:
        kept = {base(dim) for dim in result[result.index("[") + 1:-1].split(",")}
        own = [dim for dim in weight.split(",") if dim in kept]
        weights[f"b{name}"] = " ".join(own)
        text += f" + b{name}[{','.join(own)}]"
    return gemm(name, f"{text} -> {result}")


def _dropped(options: Options, ops: list[Op], tensor: str, name: str) -> str:
    """`tensor` behind dropout, where the run has it."""
    if not options.dropout:
        return tensor
    ops.append(point(name, f"{tensor}{STREAM} -> {tensor}_kept{STREAM}", 1, saves="mask"))
    return f"{tensor}_kept"


def _layer(model: Decoder, kind: LayerKind, options: Options, *, owner: bool) -> Block:
    """Norm, attention, residual; norm, FFN, residual. `owner`: of layers that share a cache, the one that makes it."""
    ops: list[Op] = []
    weights: dict[str, str] = {}
    ops.append(_norm(model, "norm1", "x", "h", weights))
    ops += _heads(model, kind, options, weights, owner=owner)
    ops.append(_linear("out", "o[batch,seq,heads,head]", "heads,head,d", f"a{INSIDE}", weights,
                       bias="out" in model.biases))
    kept = _dropped(options, ops, "a", "dropout1")
    source = "x" if model.parallel else "r"
    ops.append(add("residual1", f"x{STREAM} + {kept}{STREAM} -> r{STREAM}"))
    ops.append(_norm(model, "norm2", source, "g", weights))
    ops += _ffn(model, weights)
    kept = _dropped(options, ops, "f", "dropout2")
    ops.append(add("residual2", f"r{STREAM} + {kept}{STREAM} -> y{STREAM}"))
    name = ("" if owner else "sharing_") + ("layer" if kind.window is None else "window_layer")
    return _block(name, ops, weights, states=states_of(kind) if options.packed else {})


def _heads(model: Decoder, kind: LayerKind, options: Options, weights: dict[str, str], *, owner: bool) -> list[Op]:
    """From h to the heads' outputs o."""
    bias = "qkv" in model.biases
    made = (("q", "heads"), ("k", "kv_heads"), ("v", "kv_heads")) if owner else (("q", "heads"),)
    ops = [_linear(name, f"h{INSIDE}", f"d,{heads},head", f"{name}[batch,seq,{heads},head]", weights, bias=bias)
           for name, heads in made]
    q, k = "q", "k"
    if model.positions == "rotary":     # two products and a sum per element; nothing but angles is needed for backward
        ops.append(point("rope_q", "q[batch,seq,heads,head] -> qr[batch,seq,heads,head]", 3, saves="nothing"))
        ops.append(point("rope_k", "k[batch,seq,kv_heads,head] -> kr[batch,seq,kv_heads,head]", 3, saves="nothing"))
        q, k = "qr", "kr"
    if options.packed is not None:
        return ops + cached_core(kind, options, q, k, owner=owner)
    return ops + _core(kind, options, q, k)


def _core(kind: LayerKind, options: Options, q: str, k: str) -> list[Op]:
    """Scores, softmax, mix: one kernel (`flash`) or each on its own (`unfused`)."""
    work = _work(kind, options)
    left, right = f"{q}[batch,seq.q,heads.q,head]", f"{k}[batch,seq.kv,kv_heads.q,head]"
    value, result = "v[batch,seq.kv,kv_heads.q,head]", "o[batch,seq.q,heads.q,head]"
    if options.attention == "flash":
        return [attention("attention", f"{left} * {right} * {value} -> {result}", ring=options.ring, work=work)]
    scores = "[batch,heads.q,seq.q,seq.kv]"
    ops = [gemm("scores", f"{left} * {right} -> s{scores}", core=True, work=work, along=("kv_heads.q",)),
           point("softmax", f"s{scores} -> p{scores}", 5, saves="outputs", core=True)]
    if options.dropout:
        ops.append(point("attention_dropout", f"p{scores} -> pd{scores}", 1, saves="mask", core=True))
    probability = "pd" if options.dropout else "p"
    ops.append(gemm("mix", f"{probability}{scores} * {value} -> {result}", core=True, work=work, along=("kv_heads.q",)))
    return ops


def _work(kind: LayerKind, options: Options) -> float:
    """Share of all scores that is computed: all (`full`), or what the mask leaves (`skip`)."""
    seq = options.seq
    window = min(kind.window or seq, seq)
    if options.mask == "full":
        return window / seq
    return (window * (window + 1) / 2 + (seq - window) * window) / seq**2


def _ffn(model: Decoder, weights: dict[str, str]) -> list[Op]:
    """From g to the FFN's output f."""
    bias, inner = "mlp" in model.biases, "[batch,seq,ffn]"
    ops = [_linear("up", f"g{INSIDE}", "d,ffn", f"u{inner}", weights, bias=bias)]
    if model.gated:
        ops.append(_linear("gate", f"g{INSIDE}", "d,ffn", f"t{inner}", weights, bias=bias))
        ops.append(point("activation", f"t{inner} + u{inner} -> z{inner}", ACTIVATION[model.activation] + 1))
    else:
        ops.append(point("activation", f"u{inner} -> z{inner}", ACTIVATION[model.activation]))
    ops.append(_linear("down", f"z{inner}", "ffn,d", f"f{INSIDE}", weights, bias=bias))
    return ops


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
        ops.append(_norm(model, "embedding_norm", last, "n", weights))
        last = "n"
    last = _dropped(options, ops, last, "dropout0")
    return _block("embedding", ops, weights, start="", end=last, widths={"index": "index", "place_index": "index"})


def _head(model: Decoder, options: Options) -> Block:
    """Final norm, logits, and a cross entropy whose sums over the vocabulary are shared over tp; in inference a token
    for each row that is sampled."""
    weights: dict[str, str] = {}
    few = options.packed is not None and options.packed.sampled < options.packed.tokens
    rows, source = ("sampled", "last") if few else ("seq", "x")
    ops = [gather("last", f"last_index[batch,sampled] * x{STREAM} -> last[batch,sampled,d]")] if few else []
    ops.append(_norm(model, "final_norm", source, "h", weights, "[batch,sampled,d]" if few else STREAM))
    inner, logits, token = f"[batch,{rows},d]", f"logits[batch,{rows},vocab]", "[batch,seq]"
    if model.tied_embeddings:
        weights["embedding"] = "vocab d"
        ops.append(gemm("logits", f"h{inner} * embedding[vocab,d] -> {logits}"))
    else:
        ops.append(_linear("logits", f"h{inner}", "d,vocab", logits, weights, bias="head" in model.biases))
    if options.packed is not None:
        widths = {"logits": "stats", "m": "stats", "z": "stats", "token": "index", "last_index": "index"}
        return _block("head", ops + sampler_ops(logits, f"[batch,{rows}]"), weights, end="", widths=widths)
    ops += [point("maximum", f"{logits} -> m{token}", 1, grad=False),
            point("sum", f"{logits} + m{token} -> z{token}", 3, grad=False),
            point("target", f"{logits} -> t{token}", 0, grad=False),
            point("loss", f"{logits} + z{token} + t{token} -> loss{token}", 1)]
    widths = {"logits": "stats", "m": "stats", "z": "stats", "t": "stats", "loss": "stats"}
    return _block("head", ops, weights, end="", widths=widths)
