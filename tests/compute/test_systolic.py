"""`compute.model: systolic`: kernels to products, the section's rules, whole designs."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import astrarium as ar
from astrarium import catalog
from astrarium.compute.arrays import Dataflow, product_cycles
from astrarium.compute.config import Compute
from astrarium.compute.systolic_times import Product, kernel_ns, products_of
from astrarium.config import ConfigError, decode
from astrarium.engine.plugins import ComputeNodes, LocalMemory
from astrarium.engine.plugins.compute import durations_of
from astrarium.errors import InputError
from astrarium.vocab import Kernel

V6E = ar.Systolic(device="tpu_v6e")
OWN: dict[str, Any] = {"rows": 128, "columns": 64, "arrays": 2, "clock": "1 GHz", "buffer": "24 MiB"}
GEMM = Kernel("gemm", "bf16", (1, 4096, 4096, 4096), 1.0, 2.0 * 4096**3, 3 * 2 * 4096**2)
NORM = Kernel("normalisation", "bf16", (), 1.0, 1e9, 2**30)
ATTENTION = Kernel("attention", "bf16", (2, 8, 2, 1024, 1024, 128, 128), 0.5, 4.0 * 2 * 8 * 1024**2 * 128 * 0.5, 2**24)

MEMORY = LocalMemory(1600.0)


def nodes(*some: Kernel, memory: LocalMemory = MEMORY, named: bool = True) -> ComputeNodes:
    return ComputeNodes(np.full(len(some), 1e9), np.full(len(some), 2**20), np.zeros(len(some), np.int64),
                        ["n"] * len(some), np.zeros(len(some), np.bool_), 0, memory=memory,
                        kernel=np.arange(len(some), dtype=np.int32) if named else None, kernels=some if named else ())


def refused(match: str, **given: Any) -> None:
    with pytest.raises(ConfigError, match=match):
        ar.Systolic(**given)


def test_bad_input_is_named_by_its_path() -> None:
    refused("rows: 0 is impossible", **OWN | {"rows": 0})
    refused("weight_stationry.*did you mean 'weight_stationary'", **OWN | {"dataflow": "weight_stationry"})
    refused("buffer: .*impossible.*above 0", **OWN | {"buffer": "0 MiB"})
    refused("ofmap_buffer: .*impossible.*above 0", **OWN | {"ofmap_buffer": "0 MiB"})
    refused("arrays: 1000000000 is impossible; expected 1 or more, below 65536", **OWN | {"arrays": 10**9})
    refused("clock: is missing.*or `device`", **{key: value for key, value in OWN.items() if key != "clock"})
    refused("rows: is missing", **{key: value for key, value in OWN.items() if key != "rows"})
    refused("filter_buffer: is missing", **{key: value for key, value in OWN.items() if key != "buffer"},
            ifmap_buffer="1 MiB", ofmap_buffer="1 MiB")
    refused("device: .*tpu_v6'.*tpu_v4.*did you mean 'tpu_v6e'", device="tpu_v6")
    refused("device: h100_sxm has no systolic arrays", device="h100_sxm")


def test_like_a_device_of_the_catalog() -> None:
    """`like` beside another model: the device by its name where the model takes one, else its peak."""
    assert decode(Compute, {"like": "tpu_v6e", "model": "systolic", "arrays": 1}) == ar.Systolic(device="tpu_v6e",
                                                                                                arrays=1)
    assert decode(Compute, {"like": "h100_sxm", "model": "measured"}) == ar.Measured(device="h100_sxm")
    assert ar.get(decode(Compute, {"like": "mi300x", "model": "analytic", "units": 304}), "peak") == 1307.4e3
    with pytest.raises(ConfigError, match=r"compute.device: h100_sxm has no systolic arrays .*one of tpu_v4"):
        ar.replace(design(V6E), "compute", {"like": "h100_sxm", "model": "systolic"})


def test_a_device_gives_what_is_left_out() -> None:
    for name, row in catalog.load("devices").items():
        if "systolic" in row:
            made, sheet = ar.Systolic(device=name), catalog.device(name)
            assert float(made.peak) == pytest.approx(float(sheet.peak("bf16")), rel=1e-12)
            assert all(made.peak_at(each) == pytest.approx(float(sheet.peak(each))) for each in sheet.precisions)
    own = ar.Systolic(device="tpu_v6e", rows=128, dataflow="output_stationary", ofmap_buffer="1 MiB").geometry
    assert (own.rows, own.columns, own.count, own.dataflow, own.ofmap) == (128, 256, 2, "output_stationary", 2**20)
    assert own.overlapped
    assert own.ifmap == 128 * 2**20 / 3
    assert float(ar.Systolic(**OWN).peak) == 2.0 * 128 * 64 * 2


def test_a_column_of_the_catalog_is_checked(tmp_path: Any) -> None:
    row = 'title = "t"\nsource = "s"\npeak = "1 TFLOP/s"\ncapacity = "1 GB"\nbandwidth = "1 GB/s"\n'
    for text, match in (("{ rows = 8, columns = 8 }", "systolic.arrays: is missing"),
                        ("{ rows = 0, columns = 8, arrays = 1 }", "systolic.rows"),
                        ('{ rows = 8, columns = 8, arrays = 1, tiles = "apartt" }', "did you mean 'apart'"),
                        ("{ row = 8, columns = 8, arrays = 1 }", "did you mean 'rows'")):
        file = tmp_path / "mine.toml"
        file.write_text(f"[devices.mine]\n{row}systolic = {text}\n")
        with pytest.raises(InputError, match=match), catalog.overlay(file):
            pass


def test_kernels_are_the_products_that_they_run() -> None:
    assert products_of(GEMM) == (Product(1, 4096, 4096, 4096),)
    assert products_of(Kernel("grouped_gemm", "bf16", (8, 100, 64, 32), 1.0, 0.0, 0)) == (Product(8, 13, 64, 32),)
    layer = Kernel("grouped_gemm", "bf16", (8, 100, 64, 32, 24, 4, 0), 1.0, 0.0, 0)     # inner length 24, back to 32
    assert products_of(layer) == (Product(8, 13, 64, 32), Product(8, 13, 32, 24))
    assert products_of(ATTENTION) == (Product(4, 4096, 1024, 128), Product(4, 4096, 128, 1024))
    back = products_of(ATTENTION._replace(kind="attention_backward"))
    assert len(back) == 5
    assert sum(2.0 * np.prod(each) for each in back) == 2.5 * ATTENTION.flops / ATTENTION.work
    with pytest.raises(InputError, match=r"kernel\.shape"):
        products_of(GEMM._replace(shape=(1, 2, 3)))


def test_a_product_takes_its_cycles_and_attention_what_is_not_masked() -> None:
    found = V6E.geometry
    cycles = product_cycles(found, 1, 4096, 4096, 4096, bandwidth=1600.0 / V6E.rate)[0]
    assert kernel_ns(V6E.chip, [GEMM], 1600.0)[0] == pytest.approx(cycles / V6E.rate)
    twice = GEMM._replace(flops=2 * GEMM.flops, bytes=2 * GEMM.bytes, launches=2)
    assert kernel_ns(V6E.chip, [twice], 1600.0)[0] == pytest.approx(2 * cycles / V6E.rate)
    added = GEMM._replace(bytes=GEMM.bytes + 1600 * 10**6)
    assert kernel_ns(V6E.chip, [added], 1600.0)[0] == pytest.approx(cycles / V6E.rate + 1e6)
    scores = sum(product_cycles(found, *each)[0] for each in products_of(ATTENTION))
    assert kernel_ns(V6E.chip, [ATTENTION], 1e9)[0] == pytest.approx(0.5 * scores / V6E.rate)
    assert kernel_ns(V6E.chip, [ATTENTION], 1.0)[0] == pytest.approx(2.0**24)


def test_what_is_no_product_takes_its_bytes_or_the_vector_unit() -> None:
    assert kernel_ns(V6E.chip, [NORM], 1600.0)[0] == pytest.approx(2**30 / 1600)
    slow = ar.Systolic(device="tpu_v6e", vector="1 GFLOP/s")
    assert kernel_ns(slow.chip, [NORM], 1600.0)[0] == pytest.approx(1e9)
    assert kernel_ns(V6E.chip, [NORM], 1600.0, 500.0)[0] == pytest.approx(2**30 / 1600 + 500)


def test_formats_take_their_rate_or_are_refused() -> None:
    bf16, int8 = (kernel_ns(V6E.chip, [GEMM._replace(precision=each)], 1e9)[0] for each in ("bf16", "int8"))
    assert int8 == pytest.approx(bf16 / 2, rel=1e-3)
    with pytest.raises(InputError, match=r"compute\.fp8_rate: fp8 products have no rate"):
        kernel_ns(ar.Systolic(device="tpu_v5e").chip, [GEMM._replace(precision="fp8")], 1600.0)
    given = ar.Systolic(device="tpu_v6e", fp8_rate=2.0)
    assert kernel_ns(given.chip, [GEMM._replace(precision="fp8")], 1e9)[0] == pytest.approx(int8, rel=1e-3)
    with pytest.raises(InputError, match="fp4 products"):
        kernel_ns(V6E.chip, [GEMM._replace(precision="fp4")], 1600.0)
    with pytest.raises(InputError, match=r"'gem' has no time on systolic arrays.*did you mean 'gemm'"):
        kernel_ns(V6E.chip, [GEMM._replace(kind="gem")], 1600.0)


def test_nodes_without_a_kernel_are_refused_by_name_or_take_a_roofline() -> None:
    with pytest.raises(InputError, match=r"compute node 0: names no kernel.*compute\.unknown: roofline"):
        durations_of(V6E, nodes(GEMM, named=False))
    given = ar.Systolic(device="tpu_v6e", unknown="roofline")
    assert durations_of(given, nodes(GEMM, named=False))[0] == round(1000 * max(1e9 / float(V6E.peak), 2**20 / 1600))
    with pytest.raises(InputError, match=r"memory\.bandwidth: is missing"):
        durations_of(V6E, nodes(GEMM, memory=LocalMemory()))
    some = nodes(GEMM, NORM, ATTENTION)
    assert durations_of(V6E, some).tolist() == np.rint(kernel_ns(V6E.chip, some.kernels, 1600.0) * 1000).tolist()


@given(st.sampled_from(["gemm", "grouped_gemm", "attention", "attention_backward"]),
       st.tuples(*[st.integers(1, 300)] * 3), st.sampled_from([1.0, 100.0, 1e6]), st.sampled_from(get_args(Dataflow)))
def test_no_kernel_is_faster_than_its_flops_at_the_peak_or_its_bytes(kind: str, size: tuple[int, int, int], rate: float,
                                                                     dataflow: Any) -> None:
    a, b, c = size
    shape = (2, a, b, c) if "gemm" in kind else (1, 4, 2, a, b, c, c)
    rows = a if kind == "grouped_gemm" else 2 * a
    flops = 2.0 * rows * b * c if "gemm" in kind else 8.0 * 2 * a * b * c * (2.5 if "backward" in kind else 1.0)
    moved = 2 * (rows * c + 2 * b * c + rows * b) if "gemm" in kind else 10**5
    kernel, setting = Kernel(kind, "bf16", shape, 1.0, flops, moved), ar.Systolic(**OWN, dataflow=dataflow)
    assert kernel_ns(setting.chip, [kernel], rate)[0] * (1 + 1e-12) >= max(flops / float(setting.peak), moved / rate)


def design(compute: ar.Systolic) -> ar.Design:
    return ar.Design(workload=ar.Transformer("gpt2-small", global_batch=16, dp=4, tp=4, seq=256), compute=compute,
                     memory=ar.Memory(**catalog.device("tpu_v5e").memory),
                     network=ar.Network([ar.Torus([4, 4], bandwidth="100 GB/s", latency="1 us")]))


def test_a_generated_workload_runs_on_a_torus_of_tpus() -> None:
    base = design(ar.Systolic(device="tpu_v5e"))
    one = ar.simulate(base).makespan
    slow = ar.simulate(ar.replace(base, "compute.arrays", 1)).makespan
    apart = ar.simulate(ar.replace(base, "compute.tiles", "apart")).makespan
    assert one < min(slow, apart)
    plain = ar.simulate(replace_compute(base, ar.Roofline(**catalog.device("tpu_v5e").compute))).makespan
    assert one >= plain


def replace_compute(base: ar.Design, compute: ar.Roofline) -> ar.Design:
    return ar.Design(workload=base.workload, compute=compute, memory=base.memory, network=base.network)


def test_rows_and_dataflow_are_knobs_of_a_search() -> None:
    space = ar.Space(design(ar.Systolic(device="tpu_v5e")), {
        "compute.rows": [32, 128], "compute.dataflow": ["weight_stationary", "output_stationary"]})
    found = ar.search(space, minimize="makespan", agent="grid", trials=4, seed=0)
    assert found.best is not None
    assert ar.get(space.design(found.best.point), "compute.rows") == 128


def test_geometry_is_frozen_and_equal_for_equal_settings() -> None:
    assert V6E.geometry == ar.Systolic(device="tpu_v6e").geometry
    assert replace(V6E.geometry, count=3).splits() == ((1, 1, 3), (1, 3, 1), (3, 1, 1))
