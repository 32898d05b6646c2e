"""How training software runs a model's operators: kernels apart, accumulation, casts, overlap, host time."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium.config import decode
from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.pieces import BlockPieces, Step
from astrarium.workload.training import recipe_of

MODEL = {"family": "decoder", "layers": 2, "d_model": 512, "heads": 8, "ffn": 2048, "vocab": 1024, "seq": 256}


def work(software: dict[str, object] | None = None, **more: object) -> ar.Transformer:
    plain = {"source": "transformer", "model": MODEL, "global_batch": 4, "micro_batch": 1, "tp": 4, "tp_sequence": True,
             "software": software or {}, **more}
    design = decode(ar.Design, {
        "workload": plain, "compute": {"model": "roofline", "peak": "100 TFLOP/s"}, "memory": {"bandwidth": "1 TB/s"},
        "network": {"dims": [{"shape": "switch", "npus": 4, "bandwidth": "100 GB/s", "latency": "1 us"}]}})
    return design.workload


def layer(software: dict[str, object] | None = None, **more: object) -> BlockPieces:
    return recipe_of(work(software, **more)).kinds[1]


def kernels(steps: tuple[Step, ...], kind: str) -> list[Step]:
    return [step for step in steps if step.kernel is not None and step.kernel.kind == kind]


def seconds(software: dict[str, object] | None = None, **more: object) -> float:
    design = ar.Design(workload=work(software, **more), compute=ar.Roofline(peak="100 TFLOP/s"),
                       memory=ar.Memory(bandwidth="1 TB/s"),
                       network=ar.Network([ar.Switch(4, bandwidth="100 GB/s", latency="1 us")]))
    return ar.simulate(design).makespan


def test_norms_apart_are_more_kernels_and_more_bytes() -> None:
    fused, apart = layer(), layer({"fused_norms": False})
    assert len(apart.forward.steps) > len(fused.forward.steps)
    moved = [sum(step.bytes for step in each.forward.steps if step.kind == NodeKind.COMP) for each in (fused, apart)]
    assert moved[0] < moved[1]


def test_gradients_of_queries_keys_and_values_are_one_product() -> None:
    apart, one = layer().backward.steps, layer({"fused_qkv": True}).backward.steps
    of = [sum("d_wq" in step.name or "d_wk" in step.name or "d_wv" in step.name for step in steps)
          for steps in (apart, one)]
    assert of == [3, 1]
    assert sum(step.flops for step in one) == sum(step.flops for step in apart)


def test_accumulation_reads_what_is_there() -> None:
    written, fused, separate = (layer({"accumulation": how}).backward.steps for how in ("write", "fused", "separate"))
    weights = [sum(step.bytes for step in steps if step.weight) for steps in (written, fused, separate)]
    elements = sum(weight.elements for weight in layer().weights if len(weight.name) > 1 and weight.name[0] == "w")
    assert weights[1] - weights[0] == 2 * elements          # bf16 gradients, read once more
    assert weights[2] - weights[0] == (2 + 2 * 2) * elements      # written, read; added to what is there
    assert len(separate) > len(fused)


def test_casts_stand_in_front_of_narrow_products_only() -> None:
    assert not kernels(layer({"casts": True}).forward.steps, "quantisation")
    narrow = layer({"casts": True}, precision={"products": "fp8"})
    forward = kernels(narrow.forward.steps, "quantisation")
    assert [step.name.split(".")[1] for step in forward] == ["out", "down"]       # norms cast what they give
    assert len(kernels(narrow.backward.steps, "quantisation")) >= 4


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_overlapped_collectives_do_not_hold_up_their_products(share: float) -> None:
    plain, beside = layer(), layer({"tp_overlap": share})
    count = [sum(step.op in (CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER) for step in each.forward.steps)
             for each in (plain, beside)]
    assert count[1] == count[0] * (1 if share == 1 else 2)
    sent = [sum(step.bytes for step in each.forward.steps if step.op is not None) for each in (plain, beside)]
    assert sent[0] == sent[1]
    product = next(step for step in beside.forward.steps if step.name.endswith(".up+gate"))
    assert product.kernel is not None
    assert product.kernel.launches == 4
    assert not any(beside.forward.steps[other].name.endswith(".beside") for other in product.after)
    assert share < 1 or seconds({"tp_overlap": share}) < seconds()     # parts have a latency each


def test_collectives_in_line_wait_for_all_and_hold_up_all() -> None:
    steps = layer({"tp_async": False}).backward.steps
    for number, step in enumerate(steps):
        if step.axes == ("tp",):
            compute = [n for n, each in enumerate(steps) if each.kind == NodeKind.COMP]
            assert all(n in step.after for n in [each for each in compute if each < number][-1:])
            assert all(number in steps[n].after for n in [each for each in compute if each > number][:1])
    assert seconds({"tp_async": False}) > seconds()


def test_a_pass_takes_at_least_the_hosts_time() -> None:
    assert seconds({"host": "5 ms"}) == pytest.approx(4 * 2 * 2 * 5e6, rel=0.02)     # batches, layers, passes
    assert seconds({"host": "1 ms", "host_tp": "1 ms"}) == pytest.approx(seconds({"host": "5 ms"}), rel=1e-9)
    assert seconds({"host": "5 ms"}, recompute="full") == pytest.approx(4 * 2 * 3 * 5e6, rel=0.02)


def test_launches_run_ahead_of_the_npu() -> None:
    found = recipe_of(work())
    steps = [step for block in found.parts[0] for piece in (found.kinds[block].forward, found.kinds[block].backward)
             for step in piece.steps]
    launches = sum(step.kernel.launches for step in steps if step.kernel is not None)
    assert seconds({"host_launch": "1 ms"}) == pytest.approx(4 * launches * 1e6, rel=1e-6)      # micro-batches
    assert seconds({"host_launch": "1 ns"}) == seconds()        # hidden


def test_an_ideal_stack_changes_nothing() -> None:
    assert layer() == layer({"host": "0 ns", "tp_overlap": 0.0})
