"""The FFN of a layer, and the experts that take its place (`tpsp_moe`)."""

from __future__ import annotations

from fractions import Fraction

from astrarium.vocab import CommOp
from astrarium.workload.stage.config import Stage
from astrarium.workload.stage.sheet import Sheet, Sizes

__all__ = ["expert_gradients", "experts", "ffn", "gathered", "summed"]

AG, RS, AR, A2A = CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_REDUCE, CommOp.ALL_TO_ALL
ALL = Fraction(1)


def gathered(sheet: Sheet, sizes: Sizes, key: str, source: str, name: str = "", share: Fraction = ALL) -> None:
    """The whole sequence, where it is divided over tp."""
    if sheet.work.tpsp:
        sheet.comm(key, AG, "tp", sizes.stream * share, (source,), name)
    else:
        sheet.alias(key, (source,))


def summed(sheet: Sheet, sizes: Sizes, key: str, source: str, share: Fraction = ALL) -> None:
    """Partial sums of a product: to shards of the sequence, or to everybody."""
    sheet.comm(key, RS if sheet.work.tpsp else AR, "tp", sizes.full * share, (source,))


def ffn(sheet: Sheet, sizes: Sizes, p: str, ends: tuple[str, str], layer: str, share: Fraction = ALL) -> None:
    """Two products. `ends`: its input and the gradient of its output; `share` of all tokens come here."""
    source, dout = ends
    inner, d, full = sizes.inner * share, sheet.work.dmodel, sizes.full * share
    weights, back = (f"{layer}mha.weights",), (f"{layer}mha.weights_back",)
    gathered(sheet, sizes, f"{p}x00", source, share=share)
    sheet.comp(f"{p}xgate", inner * d, inner, (f"{p}x00", *weights))
    sheet.comp(f"{p}xdown1", inner * d, full, (f"{p}xgate", *weights))
    summed(sheet, sizes, f"{p}xdown", f"{p}xdown1", share)
    gathered(sheet, sizes, f"{p}dxdown2", dout, share=share)
    sheet.comp(f"{p}dwdown", inner * d, sizes.matrix, (f"{p}xgate", f"{p}dxdown2"))
    sheet.comp(f"{p}dxgate", inner * d, inner, (f"{p}dxdown2", *back))
    gathered(sheet, sizes, f"{p}x01", source, share=share)
    sheet.comp(f"{p}dwgate", inner * d, sizes.matrix, (f"{p}dxgate", f"{p}x01"))
    sheet.comp(f"{p}dx000", inner * d, full, (f"{p}dxgate", *back))
    summed(sheet, sizes, f"{p}dx0", f"{p}dx000", share)


def experts(sheet: Sheet, sizes: Sizes, layer: str) -> None:
    """Router, all_to_all over ep, experts that share the tokens evenly, all_to_all back."""
    work, p = sheet.work, f"{layer}moe."
    count = (work.experts or 1) // work.ep
    _frame(sheet, sizes, layer, p)
    routed, each = sizes.stream * work.kexperts / work.ep, Fraction(work.kexperts, (work.experts or 1) * work.ep)
    for number in range(count):
        e = f"{p}{number}."
        sheet.comp(f"{e}ldis.x_expert", sizes.stream * each, sizes.stream * each, (f"{p}xrouted",))
        sheet.comp(f"{e}ldis.dx", routed, routed, (f"{e}ffn.dx0",))
        sheet.comp(f"{e}ldis.y", routed, routed, (f"{e}ffn.xdown",))
        sheet.comp(f"{e}ldis.dy_expert", sizes.stream * each, sizes.stream * each, (f"{p}dyrouted",))
        ffn(sheet, sizes, f"{e}ffn.", (f"{e}ldis.x_expert", f"{e}ldis.dy_expert"), layer, each)
    for way in ("dx", "y"):
        ends = tuple(f"{p}{number}.ldis.{way}" for number in range(count))
        if count == 1:
            sheet.alias(f"{p}{way}routed", ends)
        else:       # a chain of sums, of which STAGE counts the last
            sheet.comp(f"{p}{way}routed_r{count - 1}", routed, routed, ends)
            sheet.alias(f"{p}{way}routed", (f"{p}{way}routed_r{count - 1}",))
    sheet.comm(f"{layer}ffn_res.x1", AG, "ep", sizes.stream / work.ep, (f"{p}y",))
    sheet.alias(f"{layer}ffn.xdown", (f"{layer}ffn_res.x1",))


def _frame(sheet: Sheet, sizes: Sizes, layer: str, p: str) -> None:
    """The router and what goes to experts and comes back; outside of them ep divides the vectors of tokens."""
    work, norm = sheet.work, f"{layer}post_attn_norm.y"
    chosen, part = sizes.stream / work.dmodel * work.kexperts, sizes.stream / work.ep
    routed = part * work.kexperts
    sheet.comp(f"{p}yrouter", chosen * work.dmodel, chosen, (f"{p}wrouter", norm))
    sheet.comm(f"{p}wrouter", AG, "ep", Fraction(work.dmodel * work.kexperts, work.ep), (f"{layer}mha.weights",),
               f"{p}yrouter@0_X2_COMM")
    sheet.comp(f"{p}yrouter2", chosen, chosen, (f"{p}yrouter",))
    sheet.comp(f"{p}x1", routed, routed, (norm,))
    sheet.comm(f"{p}xrouted", A2A, "ep", routed, (f"{p}x1",))
    sheet.comm(f"{p}y1", A2A, "ep", routed, (f"{p}yrouted",))
    sheet.comp(f"{p}yrouter3", routed, routed, (f"{p}yrouter2",))
    sheet.comp(f"{p}y2", routed, routed, (f"{p}yrouter3", f"{p}y1"))
    sheet.comp(f"{p}y", part, part, (f"{p}y2",))
    sheet.comp(f"{p}dy2", routed, routed, (f"{layer}dout",))
    sheet.comp(f"{p}dy1", routed, routed, (f"{p}dy2", f"{p}yrouter3"))
    sheet.comp(f"{p}dyrouter3", routed, routed, (f"{p}dy2", f"{p}y1"))
    sheet.comp(f"{p}dyrouter2", chosen, chosen, (f"{p}dyrouter3",))
    sheet.comm(f"{p}dyrouted", A2A, "ep", routed, (f"{p}dy1",))
    sheet.comp(f"{p}dyrouter", chosen, chosen, (f"{p}dyrouter2",))
    product = chosen * work.dmodel / work.ep
    sheet.comp(f"{p}dwrouter", product, Fraction(work.dmodel * work.kexperts, work.ep), (f"{p}dyrouter", norm))
    sheet.comp(f"{p}dx01", product, part, (f"{p}dyrouter", f"{layer}mha.weights_back"))
    sheet.comm(f"{p}dx1", A2A, "ep", routed, (f"{p}dxrouted",))
    sheet.comp(f"{p}dx02", part, part, (f"{p}dx1",))
    sheet.comp(f"{p}dx", part, part, (f"{p}dx01", f"{p}dx02"))


def expert_gradients(work: Stage, layer: str) -> tuple[str, ...]:
    """Of the router and every expert."""
    count = (work.experts or 1) // work.ep
    return (f"{layer}moe.dwrouter", *(f"{layer}moe.{number}.ffn.{name}" for number in range(count)
                                      for name in ("dwgate", "dwdown")))
