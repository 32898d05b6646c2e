"""One layer, one embedding, one head as STAGE's sheets have them (`tpsp_gpt`, and `tp_gpt` where tpsp is false)."""

from __future__ import annotations

from astrarium.vocab import CommOp
from astrarium.workload.stage.ffn import expert_gradients, experts, ffn, gathered, summed
from astrarium.workload.stage.sheet import Sheet, Sizes

__all__ = ["embedding", "head", "layer"]

AG, RS, AR = CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_REDUCE


def layer(sheet: Sheet, sizes: Sizes, batch: str, number: int) -> None:
    """`batch` is `mb0.`; the layer's input and the gradient of its output are `<prefix>in` and `<prefix>dout`."""
    p = f"{batch}transformer.{number}."
    _norm(sheet, sizes, p, "input_norm", (f"{p}in",), (f"{p}mha.dx", f"{p}post_attn_norm.dx"))
    _attention(sheet, sizes, p)
    _kernel(sheet, sizes, p)
    sheet.comp(f"{p}mha_res.y", sizes.stream, sizes.stream, (f"{p}mha.o", f"{p}in"))
    dense = sheet.work.experts is None
    inner = f"{p}ffn.dx0" if dense else f"{p}moe.dx_all"
    _norm(sheet, sizes, p, "post_attn_norm", (f"{p}mha_res.y",), (inner, f"{p}dout"))
    if dense:
        ffn(sheet, sizes, f"{p}ffn.", (f"{p}post_attn_norm.y", f"{p}dout"), p)
    else:
        experts(sheet, sizes, p)
    sheet.comp(f"{p}ffn_res.y", sizes.stream, sizes.stream, (f"{p}ffn.xdown", f"{p}mha_res.y"))
    if not sheet.work.tpsp and number == sheet.work.num_stacks - 1:
        sheet.comm(f"{p}ffn_res.dy", AG, "tp", sizes.local, (f"{p}from",))
        sheet.alias(f"{p}dout", (f"{p}ffn_res.dy",))
    _weights(sheet, sizes, p)


def _norm(sheet: Sheet, sizes: Sizes, p: str, name: str, before: tuple[str, ...], after: tuple[str, ...]) -> None:
    stream = sizes.stream
    if name == "input_norm" and not sheet.work.tpsp and p.endswith("transformer.0."):    # the embedding: partial sums
        sheet.comm(f"{p}input_norm.x", AR, "tp", stream, (f"{p}from_below",))
        sheet.alias(f"{p}in", (f"{p}input_norm.x",))
    sheet.comp(f"{p}{name}.y", 5 * stream, stream, before)
    sheet.comp(f"{p}{name}.dy", stream, stream, after)
    if name == "post_attn_norm" and sheet.work.experts is not None:
        sheet.comm(f"{p}moe.dx_all", AG, "ep", stream / sheet.work.ep, (f"{p}moe.dx",), f"{p}{name}.dy@0_X1COMM")
    sheet.comp(f"{p}{name}.dx", 5 * stream, stream, (f"{p}{name}.dy",))


def _attention(sheet: Sheet, sizes: Sizes, p: str) -> None:
    p, d, local, full = f"{p}mha.", sheet.work.dmodel, sizes.local, sizes.full
    weights, back, norm = (f"{p}weights",), (f"{p}weights_back",), f"{p[:-4]}input_norm.y"
    kv, square = sizes.kv, sizes.square
    three = 1 + 2 * kv
    sheet.comp(f"{p}qkv", three * local * d, three * local, (f"{p}qkv_X1", *weights))
    gathered(sheet, sizes, f"{p}qkv_X1", norm, f"{p}qkv@0_X1COMM")
    for name, share in (("q", 1), ("k", kv), ("v", kv)):
        sheet.comp(f"{p}{name}", share * local, share * local, (f"{p}qkv",))
    sheet.comp(f"{p}o1", local * d, full, (f"{p}attn_kernel.qkv", *weights))
    summed(sheet, sizes, f"{p}o", f"{p}o1")
    gathered(sheet, sizes, f"{p}do1", f"{p[:-4]}post_attn_norm.dx")
    sheet.comp(f"{p}dattn", local * d, local, (f"{p}do1", *back))
    sheet.comp(f"{p}dwo", local * d, square, (f"{p}attn_kernel.qkv", f"{p}do1"))
    for name in ("dv", "dk"):
        if sheet.work.experts is None:
            sheet.comm(f"{p}{name}", RS, "cp", sizes.wide, (f"{p}attn_kernel.{name}",))
        else:
            sheet.alias(f"{p}{name}", (f"{p}attn_kernel.{name}",))
    sheet.comp(f"{p}dkv", 2 * kv * local, 2 * kv * local, (f"{p}dv", f"{p}dk"))
    sheet.comp(f"{p}dqkv", three * local, three * local, (f"{p}dkv", f"{p}attn_kernel.dq"))
    sheet.comp(f"{p}dwqkv", three * local * d, three * square, (f"{p}dwqkv_X2", f"{p}dqkv"))
    gathered(sheet, sizes, f"{p}dwqkv_X2", norm, f"{p}dwqkv@0_X2_COMM")
    sheet.comp(f"{p}dx1", three * local * d, full, (f"{p}dqkv", *back))
    summed(sheet, sizes, f"{p}dx", f"{p}dx1")


def _kernel(sheet: Sheet, sizes: Sizes, p: str) -> None:
    """Attention itself: 3 operations per element of the queries, whatever the length of the sequence."""
    outer, p, local = f"{p}mha.", f"{p}mha.attn_kernel.", sizes.local
    for name in ("k", "v"):
        sheet.comm(f"{p}{name}1", AG, "cp", sizes.kv * local, (f"{outer}{name}",))
    sheet.comp(f"{p}qkv", 3 * local, local, (f"{outer}q", f"{p}k1", f"{p}v1"))
    sheet.comp(f"{p}dq", 6 * local, local, (f"{outer}dattn",))
    grouped = sheet.work.experts is not None
    for name in ("dk", "dv"):
        sheet.comp(f"{p}{name}1" if grouped else f"{p}{name}", 6 * local, sizes.wide, (f"{outer}dattn",))
    for name in ("dk", "dv") if grouped else ():      # of all heads, then cut to the key and value heads
        sheet.comp(f"{p}{name}", sizes.kv * local, sizes.kv * local, (f"{p}{name}_X1",))
        sheet.comm(f"{p}{name}_X1", RS, "cp", sizes.wide, (f"{p}{name}1",), f"{p}{name}@0_X1COMM")


def _weights(sheet: Sheet, sizes: Sizes, p: str) -> None:
    """Weights gathered, with nothing to wait for; gradients summed (over cp all of them, even where dp has a shard)."""
    sharded, work = sheet.work.weight_sharded, sheet.work
    shard = sizes.weights / work.dp
    made = (f"{p}mha.dwqkv", f"{p}mha.dwo", *((f"{p}ffn.dwgate", f"{p}ffn.dwdown") if work.experts is None
                                              else expert_gradients(work, p)))
    for key, name in (("mha.weights", "_assembled_weight"), ("", "_sharded_grad"),
                      ("mha.weights_back", "_assembled_weight_backward")):
        if key and not sharded:
            sheet.alias(f"{p}{key}", ())
        elif key:
            sheet.comm(f"{p}{key}", AG, "dp", shard, (), f"{p}{name}@0_X1COMM")
        else:
            sheet.comm(f"{p}grad_dp", RS if sharded else AR, "dp", sizes.weights, made, f"{p}{name}@0_X1COMM")
            sheet.comm(f"{p}grad", AR, "cp", sizes.weights, (f"{p}grad_dp",), f"{p}{name}@0_X1COMM")


def embedding(sheet: Sheet, sizes: Sizes, batch: str) -> None:
    """The first stage's: a dense product of one-hot rows, and a gradient of those."""
    p, ops = f"{batch}in_emb.", sizes.local * sheet.work.dvocal
    first = (f"{batch}transformer.0.input_norm.dx",)
    sheet.comp(f"{p}y", ops, sizes.stream, ())
    sheet.comp(f"{p}dw", ops, sizes.table, first)
    sheet.comp(f"{p}dx", ops, sizes.local * sheet.work.dvocal / sheet.work.dmodel, first)


def head(sheet: Sheet, sizes: Sizes, batch: str) -> None:
    """The head and the loss."""
    p, ops, last = f"{batch}out_emb.", sizes.local * sheet.work.dvocal, f"{batch}last"
    loss, stream = f"{batch}loss.", sizes.stream
    sheet.comp(f"{p}y", ops, sizes.logits, (last,))
    sheet.comp(f"{p}dw", ops, sizes.table, (last, f"{loss}dy"))
    sheet.comp(f"{p}dx", ops, sizes.local, (f"{loss}dy",))
    if sheet.work.tpsp:
        sheet.alias(f"{loss}y", (f"{p}y",))
    else:
        sheet.comm(f"{loss}y", AR, "tp", sizes.logits, (f"{p}y",))
    sheet.comp(f"{loss}loss", 5 * stream, stream, (f"{loss}y",))
    sheet.comp(f"{loss}dy", 5 * stream, stream, (f"{loss}loss",))
