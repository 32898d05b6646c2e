"""What DDP, FSDP2, autocast and DeepSpeed copy and hold, against PyTorch's memory trackers: peaks of a decoder with 4
layers of 1,024 (8 heads, 2 of keys; FFN 3,584; 32,000 words), two samples of 2,048 tokens, tracked with
torch.distributed._tools (MemTracker, FSDPMemTracker; torch 2.14, fake tensors and a fake group of 8)."""

from __future__ import annotations

from typing import Any

import pytest

import astrarium as ar
from astrarium import config
from astrarium.errors import InputError
from astrarium.workload.footprint import Footprint, training_footprint
from astrarium.workload.generate import generate
from astrarium.workload.pieces import BlockPieces
from astrarium.workload.training import recipe_of

MODEL = {"family": "decoder", "layers": 4, "d_model": 1024, "heads": 8, "kv_heads": 2, "ffn": 3584, "vocab": 32000,
         "seq": 2048}
MIB = 2**20
BF16 = {"master": None, "moments": "bf16"}
FP32 = {"weights": "fp32", "gradients": "fp32", "master": "none", "products": "bf16"}
FSDP = {"shards": "master", "gradients": "fp32"}
GROUPS = {"gather": "copied", "reduce": "group", "ends": "together"}
NORMS = {"rms_norm": "operators"}


def step(model: dict[str, Any] | str = MODEL, dp: int = 1, software: dict[str, Any] | None = None, **more: Any
         ) -> ar.Transformer:
    plain = {"source": "transformer", "model": model, "dp": dp, "global_batch": 2 * dp, "micro_batch": 2,
             "cross_entropy": "eager", "weight_gradients": "fresh", "precision": BF16, "clip": False,
             "software": {"operators": "eager", **(software or {})}, **more}
    return config.decode(ar.Transformer, plain)


def peak(**more: Any) -> Footprint:
    return training_footprint(step(**more))[0]


@pytest.mark.parametrize(("software", "precision", "tracked"), [
    (NORMS, BF16, 3036.2), ({**NORMS, "rotary": "whole"}, BF16, 3012.2), ({**NORMS, "rotary": "complex"}, BF16, 3012.2),
    ({**NORMS, "autocast": True}, FP32, 4057.8)])
def test_eager_forms_hold_what_pytorch_does(software: dict[str, Any], precision: dict[str, Any], tracked: float
                                            ) -> None:
    """RMSNorm of operators, Hugging Face's and Meta's rotary positions, autocast over weights in fp32. With one kernel
    a norm: 2,892 MiB."""
    assert peak(software=software, precision=precision).total / MIB == pytest.approx(tracked, rel=0.004)


@pytest.mark.parametrize(("software", "precision", "message"), [
    ({"autocast": True}, BF16, "precision.weights: bf16, under software.autocast.*expected fp32, or"),
    ({"autocast": True, "operators": "fused"}, FP32, "software.autocast: has no effect under software")])
def test_autocast_needs_weights_in_fp32(software: dict[str, Any], precision: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        step(software=software, precision=precision)


def test_fsdp2_holds_shards_the_root_and_a_layer() -> None:
    """FSDPMemTracker at the loss: shards in fp32 57.3 MiB, unsharded weights 151.0 (root and last layer), moments
    114.5."""
    found = peak(dp=8, zero=3, precision=FSDP, buffers=GROUPS)
    assert found.weights / MIB == pytest.approx(151.0, abs=0.2)
    assert found.states / MIB == pytest.approx(57.3 + 114.5, abs=0.2)
    small = peak(model={**MODEL, "vocab": 512}, dp=8, zero=3, precision=FSDP, buffers=GROUPS)
    assert small.weights / MIB == pytest.approx(28.0 + 26.0, abs=0.2)       # and the buffer of the next gather


def test_ddp_has_buckets_of_all_gradients() -> None:
    plain, buckets = peak(dp=8), peak(dp=8, buffers={"reduce": "buckets"})
    assert buckets.total - plain.total == 2 * plain.parameters
    two = [peak(dp=8, buffers={"reduce": "fixed", "count": count}, bucket="10 MB").gradients for count in (1, 2)]
    assert two[1] - two[0] == 10e6


@pytest.mark.parametrize("more", [
    {"dp": 4, "zero": 3, "precision": FSDP, "buffers": {**GROUPS, "pools": True}},
    {"dp": 4, "zero": 3, "precision": FSDP, "buffers": GROUPS}, {"dp": 4, "buffers": {"reduce": "buckets"}},
    {"dp": 4, "zero": 2, "bucket": "10 MB", "buffers": {"reduce": "fixed"}, "software": {"step": "cast"}}])
def test_the_footprint_is_the_peak_of_a_simulation(more: dict[str, Any]) -> None:
    work = step(**more)
    found = ar.simulate(ar.Design(
        workload=work, compute=ar.Roofline(peak="989 TFLOP/s"), memory=ar.Memory(capacity="80 GB", bandwidth="3 TB/s"),
        network=ar.Network([ar.Switch(4, bandwidth="450 GB/s", latency="1 us")])))
    assert float(found.peak_memory) == pytest.approx(training_footprint(work)[0].total, rel=1e-6)


@pytest.mark.parametrize(("operators", "products", "dp", "cp", "seq", "recompute", "reserved"), [
    ("eager", "bf16", 8, 1, 8192, "operators", 82.4), ("compiled", "bf16", 8, 1, 8192, "operators", 77.0),
    ("compiled", "fp8", 8, 1, 8192, "operators", 76.8), ("eager", "bf16", 128, 1, 8192, "operators", 67.0),
    ("compiled", "bf16", 128, 1, 8192, "operators", 62.0), ("compiled", "fp8", 128, 1, 8192, "operators", 61.8),
    ("compiled", "fp8", 8, 1, 32768, "full", 83.9), ("compiled", "fp8", 4, 2, 65536, "full", 84.2),
    ("compiled", "fp8", 2, 4, 131072, "full", 84.0), ("compiled", "fp8", 1, 8, 262144, "full", 84.5)])
def test_torchtitan_reserves_a_tenth_more(operators: str, products: str, dp: int, cp: int, seq: int, recompute: str,
                                          reserved: float) -> None:
    """GiB of Llama 3.1 8B (https://github.com/pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, tables 1
    to 3). Without the pools of streams (shards of gradients, buffers of gathers) those on 8 GPUs would reserve 20 %
    more than is counted, those on 128 15 %."""
    design = config.decode(ar.Design, {
        "stack": "torchtitan", "compute": "h100_sxm", "memory": "h100_sxm",
        "network": {"dims": [{"shape": "switch", "npus": dp * cp, "bandwidth": "450 GB/s", "latency": "1 us"}]},
        "workload": {
            "source": "transformer", "model": "llama3-8b", "dp": dp, "cp": cp, "seq": seq, "recompute": recompute,
            "global_batch": (2 if recompute == "operators" else 1) * dp, "cp_attention": "gather",
            "precision": {"products": products},
            "software": {"operators": operators, "rms_norm": "operators", "rotary": "complex"}}})
    work = design.workload
    assert isinstance(work, ar.Transformer)
    assert reserved * 2**30 / training_footprint(work)[0].total - 1 == pytest.approx(0.108, abs=0.018)


def test_gradients_stay_whole_between_micro_batches() -> None:
    """no_sync: as many bytes more as a rank's gradients in the format of the reduction, and one reduction a step."""
    groups = {**GROUPS, "pools": True}
    each, last = (step(dp=8, zero=3, precision=FSDP, global_batch=32, buffers={**groups, "between": between})
                  for between in ("reduced", "whole"))
    late, early = training_footprint(last)[0], training_footprint(each)[0]
    assert late.gradients - early.gradients > 3 * late.parameters
    reductions = [sum("reduce_scatter" in made.names(node) for node in range(len(made.node_id)))
                  for made in (generate(work).classes[0] for work in (each, last))]
    assert reductions == [2 * reductions[1], 5]


def test_steps_of_optimizers_move_and_hold() -> None:
    fused, foreach, cast = (step(software={"step": name}) for name in ("fused", "foreach", "cast"))
    moved = [recipe_of(work).sizes.step_bytes for work in (fused, foreach, cast)]
    assert moved == [2 + 2 * 4 + 2 * 2, 40, 14 + 2 + 4 + 8]
    assert [recipe_of(work).sizes.step_held for work in (fused, foreach, cast)] == [0, 2, 4]


def test_clipping_scales_gradients_where_the_software_does() -> None:
    def scaled(**software: Any) -> bool:
        made = generate(step(clip=True, software=software)).classes[0]
        return any(made.names(node).endswith("gradients.scale") for node in range(len(made.node_id)))

    assert scaled(clip="scaled")
    assert not scaled()


def test_gathers_from_the_optimizer_s_copy_need_no_other() -> None:
    """12 bytes a parameter and shard in place of 14, and a step that writes no copy."""
    one, two = (peak(dp=8, zero=3, precision={"shards": each}) for each in ("copied", "master"))
    assert one.total - two.total == pytest.approx(2 * one.parameters / 8)
    moved = [recipe_of(step(zero=3, precision={"shards": each})).sizes.step_bytes for each in ("copied", "master")]
    assert moved[0] - moved[1] == 2


def test_a_loss_over_a_sharded_vocabulary_holds_four_tensors() -> None:
    """loss_parallel's backward: 16 bytes a logit in fp32, of which forward kept 4."""
    head = recipe_of(step(tp=2)).kinds[-1]
    logits = 2 * 2048 * 32000 / 2
    assert (head.saved + head.working_back) / logits == pytest.approx(16, rel=0.03)


def test_products_of_pytorch_keep_what_tp_gathered() -> None:
    """The sequence of a norm's result is gathered once; Megatron-LM keeps its shard and gathers again in backward."""
    def layer(operators: str) -> BlockPieces:
        return next(each for each in recipe_of(step(tp=2, tp_sequence=True, software={"operators": operators})).kinds
                    if each.name == "layer")

    eager, fused = layer("eager"), layer("fused")
    again = [[each.name for each in block.backward.steps if each.name in ("layer.h.all_gather", "layer.g.all_gather")]
             for block in (eager, fused)]
    assert again == [[], ["layer.g.all_gather", "layer.h.all_gather"]]
    assert eager.saved - fused.saved > 2 * 2 * (2 * 2048 * 1024) / 2 - 1
