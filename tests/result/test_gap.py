"""What a rank's time consists of, and a recorded run beside its prediction."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import astrarium as ar
from astrarium.cli import main
from astrarium.cli.replay_design import replay_design
from astrarium.errors import InputError
from astrarium.profile.kernel_names import kernel_class
from astrarium.result.gap import TOGETHER, gap_of
from astrarium.result.parts import PARTS, parts_of
from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp
from astrarium.workload.model.decoder import Decoder

US = 1_000_000      # ps
MODEL = Decoder(layers=4, d_model=512, heads=8, ffn=1024, vocab=1024, seq=256)


def trained(**parallelism: int) -> ar.Result:
    ranks = 1
    for n in parallelism.values():
        ranks *= n
    return ar.simulate(ar.Design(
        workload=ar.Transformer(MODEL, global_batch=8, micro_batch=1, **parallelism),
        compute=ar.Roofline(peak="100 TFLOP/s"), memory=ar.Memory(bandwidth="1 TB/s"),
        network=ar.Network([ar.Switch(ranks, bandwidth="10 GB/s", latency="1 us")])))


@pytest.fixture
def recording(tmp_path: Path) -> str:
    """Rank 1 is late: 160 us of attention beside a product of 100; then a reduction of 30, host work of 10."""
    for rank, (name, duration) in enumerate((("ampere_fp16_s16816gemm_tn", 100), ("flash_fwd_kernel", 160))):
        trace = TraceBuilder(kind="profiled")
        kernel = trace.comp(name, duration, num_ops=1, tensor_size=1)
        reduced = trace.coll("nccl", CommOp.ALL_REDUCE, 1 << 20, after=[kernel], duration=30)
        last = trace.comp("aten::step", 10, cpu=True, after=[reduced])
        if rank == 0:
            trace.comp("vectorized_elementwise_kernel", 5, num_ops=1, tensor_size=1, after=[last])
        trace.write(tmp_path / f"w.{rank}.et")
    return f"{tmp_path / 'w'}.*.et"


@pytest.mark.parametrize(("name", "expected"), [
    ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", "products"),
    ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize192x128x32_stage4", "products"),
    ("Cijk_Alik_Bljk_HHS_BH_MT128x128x32", "products"), ("nvjet_hsh_256x128_64x4_2x1_v_bz_coopA_TNN", "products"),
    ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>", "attention"),
    ("fmha_v2_flash_attention_bf16_64_128_S_q_kv_128_causal_sm90_kernel", "attention"),
    ("void at::native::vectorized_elementwise_kernel<4>", "other kernels"),
    ("void (anonymous namespace)::scaled_upper_triang_masked_softmax_warp_forward", "other kernels")])
def test_what_kernels_do_by_name(name: str, expected: str) -> None:
    assert kernel_class(name) == expected


@pytest.mark.parametrize("parallelism", [{}, {"tp": 2}, {"dp": 4}, {"pp": 4}, {"tp": 2, "pp": 2, "dp": 2}])
def test_parts_add_up(parallelism: dict[str, int]) -> None:
    result = trained(**parallelism)
    found = parts_of(result)
    assert (found.times >= 0).all()
    assert (found.times.sum(axis=1) == result.makespan_ps).all()
    kernels = found.part("products") + found.part("attention") + found.part("other kernels")
    assert (kernels == result.ranks.compute).all()
    assert found.part("products").all()
    assert found.part("attention").all()
    assert (found.part("network") + found.part("waiting for ranks") >= result.ranks.exposed_comm).all()
    assert (found.communication >= found.part("network") + found.part("waiting for ranks")).all()
    assert found.communication.any() == bool(parallelism)


def test_who_waits_for_whom(recording: str) -> None:
    result = ar.simulate(replay_design(recording))
    found = parts_of(result)
    times = [{name: int(found.part(name)[row]) / US for name in PARTS if found.part(name)[row]}
             for row in result.outcome.row]
    assert times == [
        {"products": 100, "waiting for ranks": 60, "network": 30, "host": 10, "other kernels": 5},
        {"attention": 160, "network": 30, "host": 10, "after its end": 5}]


def test_the_gap_is_the_sum_of_its_parts(recording: str) -> None:
    predicted, recorded = trained(dp=2), ar.simulate(replay_design(recording))
    found = gap_of(predicted, recorded)
    assert (found.predicted.sum(axis=1) == predicted.makespan_ps).all()
    assert (found.recorded.sum(axis=1) == 205 * US).all()
    assert sum(found.mean(name)[1] for name in found.names) == pytest.approx(found.step[1])
    assert found.mean("waiting for ranks")[1] == 30_000
    twice = gap_of(predicted, recorded, steps=2)
    assert twice.step == (found.step[0], found.step[1] / 2)


def test_one_rank_cannot_tell_the_network_from_waiting(recording: str) -> None:
    predicted = trained(dp=2)
    found = gap_of(predicted, ar.simulate(replay_design(recording, 0)), rank=0)
    assert TOGETHER in found.names
    assert len(found.names) == len(PARTS) - 1
    assert found.mean(TOGETHER)[1] == 30_000
    assert (found.predicted.sum(axis=1) == predicted.makespan_ps).all()
    with pytest.raises(InputError, match=r"no rank 2; expected 0\.\.1"):
        gap_of(predicted, predicted, rank=2)
    with pytest.raises(InputError, match="2 ranks were recorded, the design has 4"):
        gap_of(trained(dp=4), predicted)
    with pytest.raises(InputError, match="expected traces that `astrarium trace link` wrote"):
        gap_of(predicted, predicted)


def test_the_command(recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    design = tmp_path / "design.yaml"
    design.write_text("workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
                      "network: {dims: [{shape: switch, npus: 2, bandwidth: 100 GB/s, latency: 1 us}]}\n")
    assert main(["explain", str(design), "--trace", recording]) == 0
    said = capsys.readouterr().out
    assert "recorded    205 us" in said
    assert "products" in said
    assert "waiting for ranks" in said
    assert main(["explain", str(design), "--trace", recording, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(found["ranks"][1]["recorded_ns"].values()) == 205 * US // 1000
    assert main(["explain", str(design), "--rank", "0", "--trace", recording]) == 0
    assert "network and waiting" in capsys.readouterr().out
    assert main(["explain", str(design), str(design), "--rank", "0"]) == 1
    assert "--rank: has no effect here" in capsys.readouterr().err
    assert main(["explain", str(design)]) == 2
    assert "two designs, or one and --set, --compat or --trace" in capsys.readouterr().err
