"""What the blocks of several families are made of: norms, linear layers, attention cores, FFNs, losses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from astrarium.errors import UnsupportedError
from astrarium.workload.graph import Options
from astrarium.workload.graph.ir import Block, Op, Use, attention, base, gemm, point

__all__ = ["ACTIVATION", "INSIDE", "LOSS_WIDTHS", "NORM", "STREAM", "attended", "block", "causal", "core", "dropped",
           "ffn", "fused", "linear", "loss", "mirrored", "norm", "uses"]

STREAM = "[batch,seq.res,d]"
INSIDE = "[batch,seq,d]"
NORM: Mapping[str, float] = MappingProxyType({"rms": 4.0, "layer": 7.0})     # sums, squares, scaling, gain (and offset)
# FLOPs of an activation; gelu: the tanh form
ACTIVATION: Mapping[str, float] = MappingProxyType({"silu": 5.0, "gelu": 8.0, "relu": 1.0, "relu2": 2.0})


def uses(text: str) -> Use:
    """`x[batch,seq]` as a Use; nothing for an empty text."""
    name, _, dims = text.partition("[")
    return Use(name, tuple(dims[:-1].split(",")) if dims else ())


def block(name: str, ops: list[Op], weights: Mapping[str, str], *, start: str = f"x{STREAM}", end: str = f"y{STREAM}",
          widths: Mapping[str, str] | None = None, states: Mapping[str, str] | None = None,
          experts: Collection[str] = (), attention: Collection[str] = (), memory: str = "", takes: bool = False,
          gives: bool = False) -> Block:
    """A block whose `weights` and `states` list dims as `d heads head`; `start`, `end` and `memory` are tensors."""
    dims = {weight: tuple(text.split()) for weight, text in weights.items()}
    kept = {state: tuple(text.split()) for state, text in (states or {}).items()}
    return Block(name, uses(start), uses(end), tuple(ops), MappingProxyType(dims), MappingProxyType(kept),
                 MappingProxyType(dict(widths or {})), frozenset(experts), frozenset(attention), uses(memory),
                 takes, gives)


def norm(kind: str, name: str, source: str, result: str, weights: dict[str, str], dims: str = STREAM) -> Op:
    """RMS or layer norm over d, with its scale (and offset) among `weights`."""
    weights[f"{name}_scale"] = "d"
    operands = f"{source}{dims} + {name}_scale[d]"
    if kind == "layer":
        weights[f"{name}_offset"] = "d"
        operands += f" + {name}_offset[d]"
    return point(name, f"{operands} -> {result}{dims}", NORM[kind])


def linear(name: str, source: str, weight: str, result: str, weights: dict[str, str], *, bias: bool) -> Op:
    """A product of `source` with a new weight w<name>[...]; `weight` and `result` list dims."""
    weights[f"w{name}"] = weight.replace(",", " ")
    text = f"{source} * w{name}[{weight}]"
    if bias:
        kept = {base(dim) for dim in result[result.index("[") + 1:-1].split(",")}
        own = [dim for dim in weight.split(",") if dim in kept]
        weights[f"b{name}"] = " ".join(own)
        text += f" + b{name}[{','.join(own)}]"
    return gemm(name, f"{text} -> {result}")


def fused(name: str, ops: Iterable[Op]) -> list[Op]:
    """Operators that are one kernel of a serving engine where they follow each other."""
    return [op._replace(fused=name) for op in ops]


def dropped(options: Options, ops: list[Op], tensor: str, name: str, dims: str = STREAM) -> str:
    """`tensor` behind dropout, where the run has it."""
    if not options.dropout:
        return tensor
    ops.append(point(name, f"{tensor}{dims} -> {tensor}_kept{dims}", 1, saves="mask"))
    return f"{tensor}_kept"


def core(options: Options, work: float = 1.0, *, q: str = "q", k: str = "k", v: str = "v", out: str = "o",
         rows: str = "seq", keys: str = "seq", kv: str = "kv_heads", sizes: tuple[str, str] = ("head", "head"),
         offsets: str = "", sinks: str = "", prefix: str = "") -> list[Op]:
    """Scores, softmax, mix: one kernel (`flash`) or each on its own (`unfused`).

    Queries are along the dim `rows`, keys and values along `keys`; `sizes` are the dims of a key and of a value;
    `work` is the share of all scores that is computed, `offsets` a table that scores look up,
    `sinks` a score per head that softmax sees besides. Raises UnsupportedError
    for a ring of unfused attention.
    """
    if options.ring and options.attention != "flash":
        raise UnsupportedError("workload.cp_attention", "ring needs attention that works on pieces of the keys",
                               expected="gather, or attention: flash")
    size, value = sizes
    left, right = f"{q}[batch,{rows}.q,heads.q,{size}]", f"{k}[batch,{keys}.kv,{kv}.q,{size}]"
    mixed, result = f"{v}[batch,{keys}.kv,{kv}.q,{value}]", f"{out}[batch,{rows}.q,heads.q,{value}]"
    table = f"{offsets}[buckets,heads.q]" if offsets else ""
    if options.attention != "unfused":
        more = f" * {table}" if table else f" * {sinks}[heads.q]" if sinks else ""
        return [attention(f"{prefix}attention", f"{left} * {right} * {mixed}{more} -> {result}", ring=options.ring,
                          work=work)]
    dims, s, p = f"[batch,heads.q,{rows}.q,{keys}.kv]", f"{prefix}s", f"{prefix}p"
    along = () if kv == "heads" else (f"{kv}.q",)
    ops = [gemm(f"{prefix}scores", f"{left} * {right} -> {s}{dims}", core=True, work=work, along=along)]
    if table:
        ops.append(point(f"{prefix}offsets", f"{s}{dims} + {table} -> {s}o{dims}", 1, saves="nothing", core=True))
        s += "o"
    more = f" + {sinks}[heads.q]" if sinks else ""
    ops.append(point(f"{prefix}softmax", f"{s}{dims}{more} -> {p}{dims}", 5, saves="outputs", core=True))
    if options.dropout:
        ops.append(point(f"{prefix}attention_dropout", f"{p}{dims} -> {p}d{dims}", 1, saves="mask", core=True))
        p += "d"
    return [*ops, gemm(f"{prefix}mix", f"{p}{dims} * {mixed} -> {result}", core=True, work=work, along=along)]


def ffn(weights: dict[str, str], *, gated: bool, activation: str, bias: bool, source: str = f"g{INSIDE}",
        result: str = f"f{INSIDE}", inner: str = "[batch,seq,ffn]", matrix: str = "d,ffn",
        prefix: str = "") -> list[Op]:
    """From `source` to `result` by way of `inner`; `matrix` lists the dims of the first product's weight."""
    *lead, d, wide = matrix.split(",")
    back = ",".join([*lead, wide, d])
    u, t, z = (f"{prefix}{each}{inner}" for each in "utz")
    ops = [linear(f"{prefix}up", source, matrix, u, weights, bias=bias)]
    if gated:
        ops.append(linear(f"{prefix}gate", source, matrix, t, weights, bias=bias))
        ops.append(point(f"{prefix}activation", f"{t} + {u} -> {z}", ACTIVATION[activation] + 1))
    else:
        ops.append(point(f"{prefix}activation", f"{u} -> {z}", ACTIVATION[activation]))
    return [*ops, linear(f"{prefix}down", z, back, result, weights, bias=bias)]


LOSS_WIDTHS: Mapping[str, str] = MappingProxyType(dict.fromkeys(
    ("logits", "m", "z", "t", "loss", "wide", "d.wide", "log_probs", "d.log_probs"), "stats"))


def loss(options: Options, logits: str, token: str) -> list[Op]:
    """Cross entropy of logits; sums over a sharded vocabulary are shared. Backward starts from the last operator."""
    if options.cross_entropy == "eager":
        dims = logits[logits.index("["):]
        wide, found = f"wide{dims}", f"log_probs{dims}"
        return [point("widen", f"{logits} -> {wide}", 0, saves="nothing"),
                point("maximum", f"{wide} -> m{token}", 1, grad=False),
                point("sum", f"{wide} + m{token} -> z{token}", 3, grad=False),
                point("log_softmax", f"{wide} + z{token} -> {found}", 1, saves="outputs"),
                point("target", f"{found} -> t{token}", 0, grad=False),
                point("loss", f"{found} + t{token} -> loss{token}", 0, saves="nothing")]
    return [point("maximum", f"{logits} -> m{token}", 1, grad=False),
            point("sum", f"{logits} + m{token} -> z{token}", 3, grad=False),
            point("target", f"{logits} -> t{token}", 0, grad=False),
            point("loss", f"{logits} + z{token} + t{token} -> loss{token}", 1)]


def mirrored(axes: Mapping[str, tuple[str, ...]], name: str) -> dict[str, tuple[str, ...]]:
    """The entries of `seq`, `seq.res`, ... for another sequence dim `name`, laid out like `seq`."""
    return {name + dim.removeprefix("seq"): entry for dim, entry in axes.items() if base(dim) == "seq"}


def attended(options: Options, weights: dict[str, str], source: str, result: str, *, prefix: str = "",
             rows: str = "seq", keys: str = "seq", memory: str = "", bias: bool = True, key_bias: bool = True,
             work: float = 1.0, offsets: str = "") -> list[Op]:
    """Attention with as many keys as heads, from `source` (along the dim `rows`) to `result`; keys and values from
    `memory` (along `keys`) where it is another tensor."""
    seen = f"{memory or source}[batch,{keys},d]"
    made = ((f"{prefix}q", f"{source}[batch,{rows},d]", rows, bias), (f"{prefix}k", seen, keys, bias and key_bias),
            (f"{prefix}v", seen, keys, bias))
    ops = [linear(name, operand, "d,heads,head", f"{name}[batch,{along},heads,head]", weights, bias=offset)
           for name, operand, along, offset in made]
    ops += core(options, work, q=f"{prefix}q", k=f"{prefix}k", v=f"{prefix}v", out=f"{prefix}o", rows=rows, keys=keys,
                kv="heads", offsets=offsets, prefix=prefix)
    return [*ops, linear(f"{prefix}out", f"{prefix}o[batch,{rows},heads,head]", "heads,head,d",
                         f"{result}[batch,{rows},d]", weights, bias=bias)]


def causal(options: Options, seq: int) -> float:
    """Share of a square of scores that is computed under a causal mask."""
    return 1.0 if options.mask == "full" else (seq + 1) / (2 * seq)
