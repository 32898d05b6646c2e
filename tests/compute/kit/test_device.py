"""Rows of the kit to a device: what it is like, its power, and a file that designs and plans take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from tests.commands import Run

from astrarium import catalog
from astrarium.compute.calibration_file import load_calibrated
from astrarium.compute.kernels import latency_ns, load
from astrarium.compute.kernels.power import GH100, Load, clocked
from astrarium.compute.kit.cases import Case
from astrarium.compute.kit.device import KNOWN, Row, base_of, chip_of_rows, device_of, device_text
from astrarium.compute.kit.probe import Driver, Found
from astrarium.compute.timings import Timing
from astrarium.vocab import Kernel

FOUND = Found("cuda", "NVIDIA H100 80GB HBM3", 132, 85_520_809_984, 50 << 20, True, "PyTorch 2.11, CUDA 13.0")
DRIVER = Driver(lambda: (1980.0, 80.0), 1980.0, 700.0, "580")


def timings(slower: float) -> list[Timing]:
    """Products and streams that take `slower` times what they take on an H100."""
    kernels = [Kernel("gemm", "bf16", (1, m, n, 4096), 1.0, 8192.0 * m * n, 0) for m in (256, 1024, 4096)
               for n in (1024, 4096, 8192)]
    kernels += [Kernel("pointwise", "bf16", (), 1.0, 0.0, 2**size, op="add") for size in range(22, 31)]
    return [Timing(each, ns * slower) for each, ns in zip(kernels, latency_ns(load("h100_sxm"), kernels))]


def sustained() -> Row:
    """A product at the clock that the power limit leaves to H100's chip."""
    case = Case("gemm", "sustained", "NT", m=8192, n=8192, k=8192)
    flops, ns = 2.0 * 8192**3, 1.66e6
    share = clocked(GH100, 132, 700.0, Load(flops, 6.0 * 8192**2, lambda _: ns)).share
    return case, ns, 1980 * share, 690.0


def test_a_device_is_like_the_one_of_its_name_or_of_its_times() -> None:
    assert base_of(FOUND, []).machine == "h100_sxm"
    small = base_of(replace(FOUND, name="NVIDIA A100-SXM4-40GB"), []).machine
    assert not isinstance(small, str)       # its rows are of the 80 GB, whose memory is faster
    assert (small.bandwidth, small.peaks["bf16"]) == (1555.0, 312e3)
    assert all(each in catalog.load("devices") for each in KNOWN.values())
    found = base_of(replace(FOUND, name="another"), timings(1.25)).machine
    assert not isinstance(found, str)
    sheet = load("h100_sxm").machine
    assert found.peaks["bf16"] == pytest.approx(0.8 * sheet.peaks["bf16"], rel=0.05)
    assert found.bandwidth == pytest.approx(0.8 * sheet.bandwidth, rel=0.05)


def test_energy_of_a_flop_follows_from_a_sustained_clock() -> None:
    chip = chip_of_rows(FOUND, DRIVER, [sustained()], 80.0)
    assert chip is not None
    assert chip.flop == pytest.approx(GH100.flop, rel=0.01)
    assert chip_of_rows(FOUND, replace(DRIVER, highest=0.0), [sustained()], 80.0) is None


PLAIN = "workload: {source: transformer, global_batch: 1, model: {family: decoder, layers: 2, d_model: 512, heads: 4," \
        " ffn: 1024, vocab: 512, seq: 256}}\n" \
        "network: {dims: [{shape: switch, npus: 1, latency: 0 ns, bandwidth: 1 GB/s}]}\n"


def test_designs_and_plans_take_the_file(run: Run, tmp_path: Path) -> None:
    rows: list[Row] = [sustained(), (Case("launch", "graph"), 1500.0, 0, 0), (Case("launch", "stream"), 2600.0, 0, 0),
                       (Case("host", "eager"), 11e6, 0, 0)]
    given = timings(1.5)
    device = device_of(FOUND, DRIVER, rows, given, base_of(FOUND, given), 80.0, 1100)
    name, text = device_text(device, "2026-11-27", ["a note"])
    path = tmp_path / "mine.toml"
    path.write_text(text)
    model, product = load_calibrated(str(path)), given[4]
    assert latency_ns(model, [product.kernel])[0] == pytest.approx(product.ns, rel=0.05)
    with catalog.overlay(path):
        stack = catalog.row_of("stacks", f"{name}_pytorch")
        assert stack["workload"]["software"]["host_launch"] == "10 us"
        assert stack["compute"]["launch_gap"] == "1.1 us"
    spans = []
    for compute in (f"{{like: {name}, clock: sustained}}", "{model: calibrated, file: mine.toml}", "h100_sxm"):
        (tmp_path / "design.yaml").write_text(f"{PLAIN}compute: {compute}\nmemory: {name}\n")
        said = run("run", tmp_path / "design.yaml", "--catalog", path)
        assert said.code == 0, said.err
        spans.append(float(said.out.split("makespan")[1].split()[0]))
    assert spans[0] == pytest.approx(spans[1], rel=0.01)
    assert spans[1] > 1.1 * spans[2]
    said = run("plan", "gpt2-small", "--device", path, "--gpus", "1", "--global-batch", "1", "--seq", "64", "--network",
               "dgx_h100_nvswitch", "--top", "1")
    assert said.code == 0, said.err
    assert "with calibrated kernels" in said.out


def test_classes_that_rows_do_not_call_for_stay_as_the_base_has_them() -> None:
    draw = np.random.default_rng(0)
    given = [Timing(each.kernel, each.ns * float(np.exp(draw.normal(0, 0.02)))) for each in timings(1.0)]
    device = device_of(FOUND, DRIVER, [], given, base_of(FOUND, given), 80.0, 1100)
    assert "gemm/bf16" in device.calibration.as_base
    assert 'as_base = ["gemm/bf16"' in device_text(device, "2026-11-27", [])[1]
