"""What the graph must know of a parallelisation: degrees, shapes, how attention runs, precisions."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from astrarium.workload.graph.layout import Layout, Number, Size
from astrarium.workload.graph.packed import Packed
from astrarium.workload.graph.side import WIDTHS
from astrarium.workload.pieces import BF16, Fusion, Numbers, Torch
from astrarium.workload.routing import Routing

__all__ = ["AXES", "Options", "layout_of", "usual_axes"]

AXES = ("tp", "itp", "etp", "cp", "sp", "ep", "mdp", "edp", "pp")
"""Mesh axes. `dp` is `ep`, `mdp` and `edp` together: experts are sharded over the first, each one's inner dim over the
second; they are replicated over the third. `tp` may be `itp` and `etp` together: experts' inner dim is sharded over the
first, experts over the second."""


ONCE = ("deepep", "nvlink_one_sided", "nvlink_two_sided")
"""Exchanges of tokens that send a token once to each rank."""


class Options(Struct, frozen=True):
    """`degrees` ranks along each of AXES (1 where absent); `batch` samples of one micro-batch over all replicas; `seq`
    tokens of a sample. `tp_sequence`: outside attention and FFN the stream is sharded over tp along the sequence
    (Korthikanti et al., arXiv 2205.05198). `sp_attention`: `gather` keys and values, or `all_to_all` to heads
    (Ulysses, arXiv 2309.14509); `cp_attention`: `ring` or `gather`. `mask`: `full` computes every score, `skip`
    those that a causal or sliding mask leaves. `widths` bytes per element by precision role, `numbers` formats in
    which kernels compute. `packed`: a step of inference, one packed sequence of `seq` tokens per replica (then
    `batch` is the number of replicas, and `backward` False). `recompute` with its `modules`, `cross_entropy` and
    `weight_gradients`: see Transformer. `padded`: experts compute all the room that their capacity gives them; False:
    the tokens that are sent to them, as model FLOPs count. `exchange`, `routing` and `redundant` experts: see
    Inference. `module`: the model's module for multi-token prediction, as a draft. `engine`: kernels as in serving
    engines; `reduced`: see Fusion; `operators` and their `form`: see Software; `fused_gate`: one weight of gate and up.
    """

    degrees: Mapping[str, int]
    batch: Number
    seq: int
    tp_sequence: bool = False
    sp_attention: str = "gather"
    cp_attention: str = "ring"
    attention: str = "flash"
    mask: str = "full"
    recompute: str = "none"
    modules: tuple[str, ...] = ("attention",)
    fuse: bool = True
    dropout: bool = False
    backward: bool = True
    uneven: str = "refuse"
    packed: Packed | None = None
    widths: Mapping[str, float] = field(default_factory=lambda: WIDTHS)
    numbers: Numbers = BF16
    fused_norms: bool = True
    fused_qkv: bool = False
    fused_gate: bool = False
    cross_entropy: str = "plain"
    weight_gradients: str = "in_place"
    padded: bool = True
    exchange: str = "all_to_all"
    routing: Routing = Routing()
    redundant: int = 0
    module: bool = False
    engine: bool = False
    reduced: bool = False
    operators: str = "fused"
    form: Torch = Torch()

    @property
    def fusion(self) -> Fusion:
        """Which operators of a layer share a kernel."""
        reduced = self.reduced and self.degrees.get("tp", 1) > 1
        return Fusion(self.fuse and self.operators != "eager", self.fused_norms, self.fused_qkv, self.engine, reduced,
                      reduced and not self.exchanges, self.operators, self.form.autocast)

    @property
    def experts(self) -> int:
        """Ranks that have different experts."""
        return self.degrees.get("ep", 1) * self.degrees.get("etp", 1)

    @property
    def exchanges(self) -> bool:
        """Whether tokens go to experts on other ranks of dp."""
        return self.packed is not None and self.degrees.get("ep", 1) * self.degrees.get("mdp", 1) > 1

    @property
    def gathers_tokens(self) -> bool:
        """Whether an all_gather brings experts the tokens of all ranks of dp: asked for, or experts are in parts there.
        """
        return self.exchanges and (self.exchange == "all_gather" or self.degrees.get("mdp", 1) > 1)

    @property
    def sends_once(self) -> bool:
        """Whether a token is sent once to every rank that has one of its experts, and not once to each of these."""
        return self.exchanges and not self.gathers_tokens and self.exchange in ONCE

    @property
    def ring(self) -> str:
        """The axis around which keys and values travel, or nothing."""
        return "cp" if self.cp_attention == "ring" and self.degrees.get("cp", 1) > 1 else ""


def usual_axes(options: Options) -> dict[str, tuple[str, ...]]:
    """Which axes shard which dim. `dp`, `moe_tp` (the inner dim of experts), `moe_ep` and, where it has experts apart,
    `tp` are several axes: see `_parts`.

    | dim | axes |
    |---|---|
    | batch | dp |
    | seq | sp, cp |
    | seq.res | as seq, with tp under tp_sequence: the stream between attention and FFN |
    | heads, kv_heads, ffn, vocab | tp |
    | seq.q, heads.q, kv_heads.q | as seq and heads; under all_to_all sp moves from the sequence to the heads |
    | seq.kv | none: keys and values are gathered; cp under ring |
    | experts, experts.src | moe_ep, and its part of tp before dispatch |
    | rows.src, rows | dp, sp, cp (and tp under tp_sequence) before; edp, sp, cp after dispatch to experts |
    """
    ulysses = options.sp_attention == "all_to_all"
    outside = ("sp", "cp", "tp") if options.tp_sequence else ("sp", "cp")
    return {
        "batch": ("dp",), "seq": ("sp", "cp"), "seq.res": outside,
        "heads": ("tp",), "kv_heads": ("tp",), "ffn": ("tp",), "vocab": ("tp",),
        "seq.q": ("cp",) if ulysses else ("sp", "cp"),
        "heads.q": ("tp", "sp") if ulysses else ("tp",),
        "kv_heads.q": ("tp", "sp") if ulysses else ("tp",),
        "seq.kv": ("cp",) if options.ring else (),
        "experts": ("moe_ep",), "experts.src": ("etp",), "rows.src": ("dp", *outside), "rows": ("edp", "sp", "cp"),
    }


def layout_of(options: Options, sizes: Mapping[str, Size],
              more: Mapping[str, tuple[str, ...]] | None = None) -> Layout:
    """Sizes of a model's dims with the usual table of axes; `more` adds a model's own entries, or overrides."""
    table = {**usual_axes(options), **(more or {})}
    degrees = {axis: options.degrees.get(axis, 1) for axis in AXES}
    parts = _parts(degrees)
    axes = {dim: tuple(part for axis in entry for part in parts.get(axis, (axis,)) if degrees[part] > 1)
            for dim, entry in table.items()}
    return Layout({"batch": options.batch, "seq": options.seq, **sizes}, axes, degrees, options.uneven)


def _parts(degrees: Mapping[str, int]) -> Mapping[str, tuple[str, ...]]:
    """The axes of one name in a table of axes."""
    split = degrees["etp"] > 1
    return {"tp": ("itp", "etp") if split else ("tp",), "dp": ("ep", "mdp", "edp"), "moe_ep": ("etp", "ep"),
            "moe_tp": ("itp" if split else "tp", "mdp")}
