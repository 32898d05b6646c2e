"""A matrix product beside a collective: closed forms, conservation, folding, both engines, and published facts."""

from __future__ import annotations

import runpy
import statistics
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws

from astrarium.config import ConfigError, decode
from astrarium.errors import UnsupportedError
from astrarium.gpu import (
    CopyEngines,
    Gemm,
    Gpu,
    GpuOverlap,
    Kernels,
    gemm_launch,
    gpu_overlap,
    kernel_launch,
    kernel_time,
    mscclpp_plan,
)
from astrarium.gpu.engine import Operation, OpKind, Stream, Workgroup, run_launch, together
from astrarium.gpu.engine._native import have_core
from astrarium.gpu.kernels.gemm import Tiles
from astrarium.gpu.kernels.overlap import Overlapped, overlap_launch
from astrarium.vocab import CommOp

needs_core = pytest.mark.skipif(not have_core(), reason="no compiled core here")
GPU = Gpu(units=8, workgroups_per_unit=4, wavefronts_per_unit=32, instruction="512 B", outstanding_wavefront=64,
          outstanding_workgroup=512, outstanding_unit=512, unit_bandwidth="200 GB/s", issue="0.3 ns",
          reduce_bandwidth="200 GB/s", dispatch="100 ns", barrier="20 ns", fence="100 ns", network_latency="40 ns",
          channels=8, interleave="512 B", l2_bandwidth="2 TB/s", l2_latency="60 ns", hbm_bandwidth="400 GB/s",
          hbm_latency="100 ns", write_back="64 KiB", ports=4, port_interleave="256 B", port_bandwidth="20 GB/s",
          header="16 B", control="16 B", link_latency="300 ns",
          copy_engines=CopyEngines(count=2, bandwidth="60 GB/s", outstanding=512, dispatch="1 us"))
SMALL = Gemm(m=128, n=256, k=256, peak="8 TFLOP/s", tile_m=64, tile_n=64)
GATHER = Kernels("all_pairs", workgroups=4, places=4)


def product(**changes: object) -> Gemm:
    return replace(SMALL, **changes)


def grown(gemm: Gemm, gpu: Gpu) -> tuple[int, int]:
    """What twice the k costs more: time in ps, and requests to HBM."""
    short, long = (run_launch(gemm_launch(replace(gemm, k=k), gpu)) for k in (gemm.k, 2 * gemm.k))
    return long.makespan - short.makespan, int((long.hbm_requests - short.hbm_requests).sum())


@needs_core
@pytest.mark.parametrize("waves", [1, 2])
def test_a_product_of_whole_waves_takes_the_pipes_time(waves: int) -> None:
    gemm = product(m=64 * 4, n=64 * 2 * waves, k=2048)
    time, _ = grown(gemm, GPU)
    flops = 2 * 64 * 64 * 2048 * waves
    assert time == pytest.approx(flops / (8e12 / 8) * 1e12, rel=0.01)
    half, _ = grown(replace(gemm, efficiency=0.5), GPU)
    assert half == pytest.approx(2 * time, rel=0.01)


@needs_core
@pytest.mark.parametrize(("units", "rate", "within"), [(1, 100, 0.01), (8, 400, 0.025)])
def test_a_product_that_reuses_little_takes_hbms_time(units: int, rate: int, within: float) -> None:
    """One row of tiles, of which the first of a wave reads A: on eight units it ends a little later."""
    gpu = replace(GPU, units=units, hbm_bandwidth=f"{rate} GB/s")
    time, requests = grown(product(m=64, n=64 * 16, k=4096, peak="100 TFLOP/s", wavefronts=16), gpu)
    assert requests * 128 == (64 * 16 + 16 // units * 64) * 4096 * 2     # B once, A once per wave
    assert time == pytest.approx(requests * 128 / rate * 1000, rel=within)


def test_bytes_are_those_of_the_rule() -> None:
    """Waves of eight tiles: 2 rows x 4 columns of tiles; each panel from HBM once per wave, C once."""
    gemm = product(m=128, n=512)
    ran = run_launch(gemm_launch(gemm, GPU))
    panel, tile = 64 * 256 * 2 // 128, 64 * 64 * 2 // 128
    assert ran.requests[0].tolist() == [16 * 2 * panel, 16 * tile, 0]
    assert int(ran.hbm_requests.sum()) == 2 * (2 + 4) * panel + 16 * tile
    assert int(ran.channel_requests.sum()) == ran.total_requests


def test_tiles_at_the_edge_read_the_panels_that_are_there() -> None:
    gemm = product(m=70, n=129, tile_n=128, k=100)
    tiles = Tiles.of(gemm, GPU)
    assert (tiles.rows, tiles.columns, tiles.panel) == (2, 2, 64)
    assert [len(each) for each in tiles.panels(1, 1)] == [1, 1]
    assert sorted(tiles.order()) == [(row, column) for row in range(2) for column in range(2)]
    assert tiles.size == 100      # 64 x 100 elements of two bytes


def test_tiles_are_walked_in_groups_of_rows() -> None:
    tiles = Tiles.of(product(m=64 * 3, n=64 * 2, group=2), GPU)
    assert list(tiles.order()) == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]


def asked(**changes: object) -> GpuOverlap:
    base = GpuOverlap(gpu=GPU, gpus=4, gemm=SMALL, op="all_gather", payload="64 KiB", kernels=[GATHER], units=[0, 2])
    return replace(base, **changes)


def drawn(random: Random) -> GpuOverlap:
    """Any small overlap."""
    gemm = Gemm(m=random.randint(1, 200), n=random.randint(1, 200), k=random.randint(1, 100), peak="8 TFLOP/s",
                tile_m=random.choice([32, 64]), tile_n=random.choice([32, 96]), wavefronts=random.randint(1, 8),
                unroll=random.randint(1, 4), places=random.choice([None, 1, 2]), group=random.randint(1, 4))
    op = random.choice(["all_gather", "all_to_all"])
    kernels = [Kernels("all_pairs", protocol=random.choice(["simple", "ll"]), workgroups=random.randint(1, 6),
                       wavefronts=random.randint(1, 4), places=random.randint(1, 5),
                       launch=f"{random.randint(0, 3)} us"),
               Kernels("copy_engine", workgroups=random.randint(1, 3))]
    return GpuOverlap(gpu=replace(GPU, arbitration=random.choice(["fifo", "round_robin"])), gpus=random.randint(2, 4),
                      gemm=gemm, op=op, payload=f"{random.randint(1, 9000)} B", kernels=kernels,
                      units=[random.randint(0, 7)], first=random.choice(["gemm", "collective"]),
                      memory=random.choice(["hbm", "l2"]))


@needs_core
@given(st.randoms(use_true_random=False).map(drawn))
@draws(8)
def test_both_engines_agree_folded_or_not_and_requests_add_up(overlap: GpuOverlap) -> None:
    for kernels in overlap.kernels:
        units = None if kernels.algorithm == "copy_engine" else overlap.units[0]
        launch, product = overlap_launch(overlap, kernels, units)
        ways = (False, True), (False, False), (True, True)
        runs = [run_launch(launch, pure=pure, fold=fold) for pure, fold in ways]
        for ran in runs[1:]:
            for name in ("workgroup_starts", "workgroup_ends", "requests", "latency", "hbm_requests", "port_packets"):
                assert np.array_equal(getattr(ran, name), getattr(runs[0], name)), name
        gemm = run_launch(gemm_launch(overlap.gemm, overlap.gpu, units=overlap.gpu.units - (units or 0)))
        one = kernel_time(CommOp[overlap.op.upper()], float(overlap.payload), overlap.gpus, overlap.gpu, kernels)
        assert (runs[0].requests[0] == gemm.requests[0] + one.requests[0]).all()
        assert sum(group.stream == product for group in launch.grids[0]) == len(gemm.workgroup_ends[0])
        m = launch.machine
        assert (runs[0].hbm_requests * m.hbm <= runs[0].makespan + m.write_back * m.hbm).all()


@needs_core
def test_a_case_says_what_each_takes() -> None:
    shared, reserved = gpu_overlap(asked())
    gemm, collective = gemm_launch(SMALL, GPU, 4), kernel_launch(CommOp.ALL_GATHER, 1 << 16, 4, GPU, GATHER)
    assert shared.gemm_alone == reserved.gemm_alone == run_launch(gemm).makespan
    in_l2 = gpu_overlap(asked(memory="l2"))[0]
    assert in_l2.collective_alone == run_launch(collective).makespan
    assert reserved.gemm_beside >= run_launch(gemm_launch(SMALL, GPU, units=6)).makespan
    assert shared.makespan == max(shared.gemm_beside, shared.collective_beside)
    assert 1 <= shared.ideal <= 2
    assert shared.of_ideal == pytest.approx((shared.speedup - 1) / (shared.ideal - 1))


@needs_core
def test_plans_of_others_run_beside_a_product(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(mscclpp_plan(CommOp.ALL_GATHER, 4, replace(GATHER, wavefronts=8), threads=256).encode())
    built, plan = gpu_overlap(asked(kernels=[replace(GATHER, places=1), Kernels(program=str(path))], units=[2]))
    assert plan.collective_alone == pytest.approx(built.collective_alone, rel=0.05)
    assert plan.collective_beside == pytest.approx(built.collective_beside, rel=0.05)


@needs_core
def test_a_product_beside_a_collective_on_links_that_lead_to_one_peer_each() -> None:
    """Four of eight MI300X: three ports of seven, for the product too."""
    [case] = gpu_overlap(GpuOverlap(
        gpu=decode(Gpu, {"like": "mi300x"}), gpus=4, gemm=Gemm(m=512, n=512, k=256, peak="1307 TFLOP/s"),
        op="all_gather", payload="256 KiB", kernels=[Kernels("all_pairs", workgroups=8, wavefronts=4)]))
    assert case.gemm_beside >= case.gemm_alone
    assert case.collective_beside < 1.1 * case.collective_alone     # units and links are its own


@needs_core
def test_copy_engines_leave_the_product_all_units() -> None:
    kernels = [GATHER, Kernels("copy_engine", workgroups=2)]
    *compute, engines = gpu_overlap(asked(gemm=product(m=256, k=2048), kernels=kernels, units=[1, 2]))
    assert engines.units is None
    assert engines.gemm_slowdown < 1.1 < min(case.gemm_slowdown for case in compute)


@needs_core
def test_a_collective_beside_pauses_on_other_units_is_unchanged() -> None:
    for kernels in GATHER, Kernels("copy_engine", workgroups=2):
        collective = kernel_launch(CommOp.ALL_GATHER, 1 << 16, 4, GPU, kernels)
        streams = tuple(replace(each, units=each.units or (0, 1, 2)) for each in collective.streams)
        collective = replace(collective, streams=streams)
        pause = Workgroup((Operation(OpKind.NOP, time=123_457),))
        beside = replace(collective, grids=((pause,) * 40,), buffers=(), semaphores=(),
                         streams=(Stream(units=(3, 4, 5, 6, 7), places=2),))
        alone, both = run_launch(collective), run_launch(together([collective, beside]))
        count = len(collective.grids[0])
        assert both.workgroup_ends[:, :count].tolist() == alone.workgroup_ends.tolist()


@needs_core
def test_what_comes_first_has_the_places() -> None:
    """The collective's workgroups come while a wave of tiles runs: they wait until it ends."""
    late = asked(first="gemm", gemm=product(k=4096), units=[0])
    tile = gemm_launch(late.gemm, GPU).grids[0][0].operations[0]
    (case,) = gpu_overlap(late)
    assert case.gemm_slowdown == pytest.approx(1, abs=0.01)
    assert case.collective_beside > tile.size * tile.time + case.collective_alone / 2


def case_of(gemm: Gemm, gpu: Gpu, kernels: Kernels) -> Overlapped:
    return gpu_overlap(GpuOverlap(gpu=gpu, gpus=8, gemm=gemm, op="all_gather", payload="4 MiB", kernels=[kernels]))[0]


@needs_core
def test_one_wave_of_tiles_becomes_two_beside_a_collective() -> None:
    """H100: 132 blocks of a product alone at about 80 % of peak, beside an all_gather of 24 blocks at about 47 %
    (https://forums.developer.nvidia.com/t/337991): 1.7 times as long."""
    gpu = decode(Gpu, {"like": "h100_sxm"})
    gemm = Gemm(m=12 * 128, n=11 * 256, k=1024, peak="989.4 TFLOP/s")
    assert len(gemm_launch(gemm, gpu).grids[0]) == 132
    case = case_of(gemm, gpu, Kernels("all_pairs", workgroups=24, wavefronts=16, places=32))
    assert 1.5 < case.gemm_slowdown < 2.1


def measured(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "benchmarks/gpu_gemm.py"))


@needs_core
def test_some_measured_products(root: Path) -> None:
    """Nothing was fitted on them."""
    part, shapes = measured(root), [("1024", "8192", "1024"), ("2048", "4096", "1024")]
    for row in part["rows"]("h100_sxm"):
        if (row["m"], row["n"], row["k"]) in shapes:
            few, error = part["error"](row)
            assert not few
            assert -0.12 < error < 0.05


@pytest.mark.exam
@pytest.mark.parametrize(("device", "worst"), [("a100_sxm_80gb", 0.20), ("h100_sxm", 0.27)])
def test_measured_products_that_have_tiles_for_most_units(root: Path, device: str, worst: float) -> None:
    part = measured(root)
    found = [abs(error) for few, error in map(part["error"], part["rows"](device)) if not few]
    assert len(found) == 32
    assert statistics.median(found) < 0.10
    assert max(found) < worst


@needs_core
def test_small_collectives_of_copy_engines_are_slow_and_large_ones_are_not() -> None:
    """MI300X: 4.5 times slower (all_gather) where latency counts, at par for tens of MB (arXiv 2511.06605, abstract);
    here the latency of commands, and two rounds of semaphores, do that."""
    engines, kernel = Kernels("copy_engine", workgroups=2), Kernels("all_pairs", protocol="ll", workgroups=4)
    small, large = (kernel_time(CommOp.ALL_GATHER, size, 4, GPU, engines).makespan / min(
        kernel_time(CommOp.ALL_GATHER, size, 4, GPU, each).makespan for each in (kernel, Kernels())) for size in (
        4096, 1 << 22))
    assert small > 2
    assert large < 1.3


@pytest.mark.parametrize(("change", "words"), [
    ({"units": [1, 8]}, r"units\[1\]: 8 of 8 units; expected some left for the product"),
    ({"gemm": product(m=10**12)}, r"gemm: 62,500,000,000 output tiles; expected at most 16,384: a smaller product, or"),
    ({"gemm": product(m=10**6, n=1, tile_m=10**6, tile_n=1)}, r"gemm: 1,000,001 panels of 1 rows in a tile; expected"),
    ({"op": "all_reduce", "kernels": [Kernels("copy_engine")]}, r"kernels\[0\].algorithm: copy_engine has no all_red")])
def test_what_cannot_be_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises((ConfigError, UnsupportedError), match=words):
        gpu_overlap(asked(**change))
    with pytest.raises(UnsupportedError, match=r"a GPU without copy_engines; expected gpu\.copy_engines"):
        kernel_launch(CommOp.ALL_GATHER, 4096, 2, replace(GPU, copy_engines=None), Kernels("copy_engine"))
