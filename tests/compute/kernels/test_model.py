"""The shipped models: figures against measured rows, and what any kernel's time must obey."""

from pathlib import Path

import numpy as np
import pytest

from astrarium.compute import kernels
from astrarium.errors import InputError

DEVICES = kernels.names()
ROWS = [line.split(",") for line in (Path(__file__).parent / "rows.csv").read_text().splitlines() if line[0] != "#"]


def gemm(*columns):
    return np.array([np.broadcast_to(c, max(np.size(x) for x in columns)) for c in (1, *columns)], float)


@pytest.mark.parametrize("device", ["h100_sxm", "a100_sxm"])
@pytest.mark.parametrize("family", ["gemm", "attention", "decode"])
def test_error_on_measured_rows(device, family):
    """Rows drawn at random from those that the model was fitted on: a broken file or feature is far beyond 5 %."""
    model = kernels.load(device)
    errors = []
    for _, _, variant, *shape, ns in (row for row in ROWS if row[:2] == [device, family]):
        predicted = model.latency_ns(family, "bf16", np.array(shape, float)[:, None], variant)
        errors.append(abs(predicted[0] / float(ns) - 1))
    assert len(errors) == 25
    assert np.median(errors) < 0.05


@pytest.mark.parametrize("device", DEVICES)
def test_stated_errors_and_sizes(device):
    model = kernels.load(device)
    assert "aiconfigurator-core" in model.version
    assert "Apache-2.0" in model.notice
    for name, part in model.parts.items():
        if name.startswith(("product/", "grouped/", "fused")):     # PyTorch's: random shapes, few of attention
            assert part.rows >= (15 if name.startswith("fused") else 300), name
            assert part.error.get("all", [0.0])[0] <= 6, name
            continue
        few = name.startswith(("sparse/", "bmm/"))      # nearly in proportion to one size; small tables
        assert part.rows >= (50 if few else 1000), name
        assert part.error["held_out_rows"] >= (10 if few else 150), name
        assert part.error["large"][0] <= 8, name
        assert part.default in part.variants


@pytest.mark.parametrize("device", DEVICES)
def test_products_neither_beat_the_peak_nor_crawl(device):
    """Over a grid of training shapes; 1.15 allows for devices that boost above the clock of their data sheet."""
    model = kernels.load(device)
    m, n, k = np.array(np.meshgrid(*[[1024, 1536, 4096, 11008, 16384]] * 3), float).reshape(3, -1)
    part = 2 * m * n * k / model.latency_ns("gemm", "bf16", gemm(m, n, k)) / model.machine.peak("bf16")
    assert part.max() < 1.15
    assert part.min() > 0.15
    assert (model.latency_ns("gemm", "bf16", gemm(2 * m, 2 * n, 2 * k)) > 2.5 * model.latency_ns(
        "gemm", "bf16", gemm(m, n, k))).all()


@pytest.mark.parametrize("device", DEVICES)
def test_more_bytes_take_longer(device):
    from astrarium.compute.kernels.predict import stream_ns

    ns = stream_ns(kernels.load(device).machine, np.geomspace(1, 1e11, 300))
    assert (np.diff(ns) >= 0).all()
    assert ns[0] > 500
    assert 1e11 / ns[-1] < kernels.load(device).machine.bandwidth


def test_a_framework_is_chosen_by_name_and_version():
    model = kernels.load("h100_sxm")
    shape = gemm(4096.0, 4096.0, 4096.0)
    assert model.latency_ns("gemm", "bf16", shape, "vllm") == model.latency_ns("gemm", "bf16", shape, "vllm/0.24.0")
    assert model.latency_ns("gemm", "bf16", shape, "vllm") != model.latency_ns("gemm", "bf16", shape, "sglang")
    with pytest.raises(InputError, match="trtllm"):
        model.latency_ns("gemm", "bf16", shape, "trtlm")


def test_names_of_the_catalog_are_known_too():
    assert kernels.load("b200").machine.name == "b200_sxm"
    assert {kernels.named(name) for name in ("a100_sxm_40gb", "a100_sxm_80gb")} == {"a100_sxm"}
    assert kernels.named("mi300x") is None


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(InputError, match="h100_sxm"):
        kernels.load("h100_sxn")
    with pytest.raises(InputError, match="fp4"):
        kernels.load("a100_sxm").latency_ns("gemm", "fp4", gemm(4096.0, 4096.0, 4096.0))


def test_equal_models_make_equal_bytes(tmp_path):
    model = kernels.load("a100_sxm")
    for name in ("one", "two"):
        kernels.write(model, tmp_path / f"{name}.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    shape = gemm(4096.0, 12288.0, 1536.0)
    again = kernels.read(tmp_path / "one.npz")
    assert again.latency_ns("gemm", "bf16", shape) == model.latency_ns("gemm", "bf16", shape)
