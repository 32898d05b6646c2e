"""Figures of training: FLOPs against the published formula, utilisation, throughput, price."""

from __future__ import annotations

from typing import Any

import pytest

import astrarium as ar
from astrarium.cost import FIGURES
from astrarium.cost.training import conditions
from astrarium.errors import InputError
from astrarium.search import Space, search
from astrarium.workload.flops import executed_flops, model_flops


def work(**more: Any) -> ar.Transformer:
    return ar.Transformer(**{"model": "gpt3-175b", "tp": 8, "pp": 8, "global_batch": 64, "micro_batch": 1, "seq": 2048,
                             "tp_sequence": True, "attention": "unfused", "vocab_multiple": 1, **more})


def korthikanti(layers: int = 96, h: int = 12288, vocab: int = 50257, batch: int = 64, seq: int = 2048,
                scores: float = 1.0) -> float:
    """arXiv 2205.05198, equation 7 (model FLOPs of an iteration); `scores` scales attention's products."""
    return 72 * batch * seq * layers * h**2 * (1 + scores * seq / (6 * h) + vocab / (12 * h * layers))


@pytest.mark.parametrize("layout", [{}, {"recompute": "full"}, {"attention": "flash", "mask": "skip"},
                                    {"tp": 4, "cp": 2, "dp": 4, "attention": "flash"}, {"vocab_multiple": 128}])
def test_model_flops_are_the_formula_s_whatever_the_layout(layout: dict[str, Any]) -> None:
    made = work(**layout)
    vocab = made.model.vocab        # type: ignore[attr-defined]
    assert model_flops(made) == pytest.approx(korthikanti(vocab=vocab), rel=1e-12)


def test_executed_flops_count_what_is_done_again() -> None:
    vocab = work().model.vocab      # type: ignore[attr-defined]
    assert executed_flops(work()) == pytest.approx(korthikanti(vocab=vocab), rel=1e-5)     # vocabulary padded to 8
    selective = executed_flops(work(recompute="selective"))
    assert selective == pytest.approx(korthikanti(vocab=vocab, scores=4 / 3), rel=1e-5)
    layers_again = 24 * 64 * 2048 * 96 * 12288**2 * (1 + 2048 / (6 * 12288))
    assert executed_flops(work(recompute="full")) == pytest.approx(korthikanti(vocab=vocab) + layers_again, rel=1e-5)
    # FlashAttention-2 computes scores again in backward: five products for four.
    assert executed_flops(work(attention="flash")) == pytest.approx(korthikanti(vocab=vocab, scores=7 / 6), rel=1e-5)


def test_experts_count_those_that_are_chosen() -> None:
    """Mixtral-8x7B: 12.9e9 parameters are active, 131e6 of them the embedding, which multiplies nothing."""
    mixtral = ar.Transformer(model="mixtral-8x7b", dp=8, ep=8, global_batch=8, seq=4096)
    attention = 12 * 8 * 4096**2 * 32 * 4096
    assert model_flops(mixtral) == pytest.approx(6 * (12.88e9 - 0.131e9) * 8 * 4096 + attention, rel=0.01)


def design(**more: Any) -> ar.Design:
    return ar.replace_all(ar.Design(
        workload=work(model="gpt2-small", tp=2, pp=1, dp=2, global_batch=8, seq=512, attention="flash",
                      vocab_multiple=None),
        compute=ar.Roofline(peak="312 TFLOP/s"), memory=ar.Memory(bandwidth="2039 GB/s"),
        network=ar.Network([ar.Switch(4, bandwidth="300 GB/s", latency="500 ns")])), more)


def test_utilisation_throughput_and_price() -> None:
    made = design(**{"compute.hourly_price": 2.0})
    result = ar.simulate(made)
    seconds = result.makespan_ps / 1e12
    found = {name: FIGURES[name].measure(made, result) for name in
             ("mfu", "hfu", "tokens_per_second", "tokens_per_second_per_npu", "samples_per_second",
              "cost_per_tera_tokens")}
    assert found["tokens_per_second"] == pytest.approx(8 * 512 / seconds)
    assert found["tokens_per_second_per_npu"] == pytest.approx(8 * 512 / seconds / 4)
    assert found["samples_per_second"] == pytest.approx(8 / seconds)
    assert isinstance(made.workload, ar.Transformer)
    assert found["mfu"] == pytest.approx(model_flops(made.workload) / seconds / (4 * 312e12))
    assert found["hfu"] == pytest.approx(executed_flops(made.workload) / seconds / (4 * 312e12))
    assert found["mfu"] < found["hfu"] < 1
    per_npu = FIGURES["model_tflops_per_npu"].measure(made, result)
    assert per_npu == pytest.approx(found["mfu"] * 312)
    assert found["cost_per_tera_tokens"] == pytest.approx(4 * 2.0 / 3600 * seconds / (8 * 512) * 1e12)


def test_npu_types_add_their_own_peaks() -> None:
    mixed = ar.replace_all(design(), {"npu_types": [ar.NpuType(npus=[2, 3], compute=ar.Roofline(peak="624 TFLOP/s"))]})
    result = ar.simulate(mixed)
    seconds = result.makespan_ps / 1e12
    assert isinstance(mixed.workload, ar.Transformer)
    assert FIGURES["mfu"].measure(mixed, result) == pytest.approx(
        model_flops(mixed.workload) / seconds / (2 * 312e12 + 2 * 624e12))


def test_what_is_missing_is_named() -> None:
    other = ar.Design(workload=ar.SingleCollective(op="all_reduce", payload="1 MB"),
                      network=ar.Network([ar.Ring(4, bandwidth="50 GB/s", latency="500 ns")]))
    for name in ("mfu", "tokens_per_second", "cost_per_tera_tokens"):
        check = FIGURES[name].check
        assert check is not None
        with pytest.raises(InputError, match=f"{name}: is of training workloads"):
            check(other)
    check = FIGURES["cost_per_tera_tokens"].check
    assert check is not None
    with pytest.raises(InputError, match=r"without compute\.hourly_price"):
        check(design())
    assert conditions(other) == {}


def test_precision_is_always_said() -> None:
    assert conditions(design())["precision"] == "bf16"
    mixed = design(**{"workload.precision": ar.Precision(products="fp8", gradients="fp32")})
    assert conditions(mixed)["precision"] == "activations bf16, products fp8, gradients fp32"


def test_a_search_maximises_utilisation() -> None:
    space = Space(design(), {"workload.tp": [1, 2, 4], "workload.dp": [1, 2, 4]},
                  where="workload.tp * workload.dp == 4")
    best = search(space, maximize="mfu", agent="grid", trials=3, require="tokens_per_second > 1").best
    quickest = search(space, minimize="makespan", agent="grid", trials=3).best
    assert best is not None
    assert quickest is not None
    assert best.point == quickest.point
