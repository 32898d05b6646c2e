"""All_reduces of serving engines: rows that were measured, changes of kernel, versions, and what has no rows."""

from __future__ import annotations

import numpy as np
import pytest

import astrarium as ar
from astrarium import config
from astrarium.collective.config import Collective
from astrarium.collective.engines import rows_of
from astrarium.collective.fabrics import fabric
from astrarium.collective.measured import Layout, measured_ns
from astrarium.collective.timers import Way, named, times
from astrarium.config import ConfigError
from astrarium.errors import UnsupportedError
from astrarium.vocab import CommOp

KiB, MiB = 1 << 10, 1 << 20
# us of aiconfigurator-core 0.12.0, custom_allreduce_perf.parquet, CUDA graphs, rounded: (fabric, library, GPUs, bytes)
ROWS = [("dgx_h100_nvswitch", "vllm/0.14.0", 8, 128 * KiB, 7.7), ("dgx_h100_nvswitch", "vllm/0.24.0", 8, MiB, 15.0),
        ("dgx_h100_nvswitch", "sglang/0.5.14", 2, 4 * KiB, 2.5), ("dgx_h200_nvswitch", "trtllm", 4, MiB, 12.8),
        ("dgx_b200_nvswitch", "vllm/0.24.0", 8, 256 * KiB, 25.8), ("dgx_b200_nvswitch", "vllm", 8, 16 * MiB, 63.2),
        ("rtx_pro_6000_pcie5_host", "vllm/0.19.0", 2, MiB, 91.5), ("rtx_pro_6000_pcie5", "vllm", 2, MiB, 30.1),
        ("dgx_a100_nvswitch", "vllm", 8, 64 * KiB, 8.4), ("l40s_pcie4", "trtllm", 2, MiB, 78.5),
        ("gb200_nvl72", "sglang/0.5.14", 4, 64 * KiB, 4.6), ("gb300_nvl72", "trtllm", 8, 64 * KiB, 4.6),
        ("gb300_nvl72", "vllm", 16, 8 * MiB, 97.2), ("dgx_b300_nvswitch", "vllm", 4, 64 * MiB, 188.0)]


def took(name: str, library: str, ranks: int, size: float) -> float:
    return measured_ns(CommOp.ALL_REDUCE, size, Layout(ranks), fabric(name), library=library)


@pytest.mark.parametrize(("name", "library", "ranks", "size", "us"), ROWS)
def test_rows_come_back(name: str, library: str, ranks: int, size: float, us: float) -> None:
    assert took(name, library, ranks, size) == pytest.approx(us * 1e3, rel=0.025)


def test_without_peer_access_every_engine_has_nccl_through_the_host_s_memory() -> None:
    """Three engines take the same time, a gathering half of it (a ring's all_reduce is a reduce_scatter and one)."""
    name = "rtx_pro_6000_pcie5_host"
    times = [took(name, library, 2, 4 * MiB) for library in ("vllm", "sglang", "trtllm", "nccl")]
    assert times == [pytest.approx(296_000, rel=0.02)] * 4
    half = measured_ns(CommOp.ALL_GATHER, 4 * MiB, Layout(2), fabric(name), library="vllm")
    assert half == pytest.approx(times[-1] / 2, rel=0.001)


def test_a_kernel_is_taken_up_to_its_limit() -> None:
    """Eight B200, vLLM: one-shot (9.4 us at 128 KiB), from 256 KiB two-shot (25.8), from 1 MiB multimem (17.2)."""
    one, two, last = (took("dgx_b200_nvswitch", "vllm/0.24.0", 8, size) for size in
                      (250 * KiB, 256 * KiB, MiB))
    assert one < 12_000 < last < 17_500 < two
    assert took("dgx_b200_nvswitch", "vllm/0.24.0", 8, MiB - 1024) == pytest.approx(two, rel=0.05)
    # SGLang's limit of 8 MiB includes it; then NCCL (126.8 us at 16 MiB on A100)
    below, above = (took("dgx_a100_nvswitch", "sglang", 2, 8 * MiB + more) for more in (0, 64))
    assert below == pytest.approx(44_650, rel=0.01)
    assert above > 1.7 * below


def test_a_stall_is_no_kernel() -> None:
    """38.1 us at 1 KiB between rows of 3.3 and 3.5 (H100, eight GPUs, SGLang 0.5.14)."""
    assert took("dgx_h100_nvswitch", "sglang/0.5.14", 8, KiB) == pytest.approx(3_400, rel=0.03)


def test_groups_and_payloads_that_were_not_measured() -> None:
    assert took("dgx_h200_nvswitch", "vllm", 1, MiB) == 0
    sizes = [took("dgx_h200_nvswitch", "vllm", ranks, MiB) for ranks in (4, 6, 8)]
    assert sizes == sorted(sizes)
    assert took("dgx_h200_nvswitch", "vllm", 8, 1.0) == took("dgx_h200_nvswitch", "vllm", 8, 256)
    assert took("dgx_h200_nvswitch", "vllm", 8, 4 << 30) == pytest.approx(
        4 * took("dgx_h200_nvswitch", "vllm", 8, 1 << 30))


def test_half_the_link_halves_the_rate_and_keeps_the_latency() -> None:
    host = fabric("dgx_h200_nvswitch")
    small, large = (measured_ns(CommOp.ALL_REDUCE, size, Layout(8), host, host_link=225, library="vllm")
                    for size in (256, 1 << 30))
    assert small == pytest.approx(took(host.name, "vllm", 8, 256))
    assert large == pytest.approx(2 * took(host.name, "vllm", 8, 1 << 30), rel=0.01)


@pytest.mark.parametrize(("library", "text"), [
    ("vllm", "vllm 0.24.0"), ("vllm/0.19.0", "vllm 0.19.0"), ("vllm/0.18.1", "vllm 0.18.0 (for 0.18.1)"),
    ("sglang/0.5.6.post2", "sglang 0.5.9 (for 0.5.6.post2)"), ("trtllm/1.2.0rc6", "trtllm 1.2.0rc5 (for 1.2.0rc6)"),
    ("fastest", "vllm 0.24.0, sglang 0.5.14, trtllm 1.3.0rc20")])
def test_versions(library: str, text: str) -> None:
    assert ", ".join(rows.text for rows in rows_of(fabric("dgx_h200_nvswitch"), library, 8)) == text


def test_vllm_fuses_small_all_reduces_with_the_norm() -> None:
    """FlashInfer's kernels, which are TensorRT-LLM's, up to 1 MiB among eight B200 (17.8 us there); vLLM's above."""
    name, sizes = "dgx_b200_nvswitch", np.array([4096.0, MiB, MiB + 1.0, 8 * MiB])
    found = measured_ns(CommOp.ALL_REDUCE, sizes, Layout(8), fabric(name), library="vllm_fused/0.19.0")
    assert found.tolist() == [took(name, library, 8, size) for library, size in
                              zip(["trtllm", "trtllm", "vllm/0.19.0", "vllm/0.19.0"], sizes.tolist(), strict=True)]
    assert found[1] == took(name, "vllm_fused", 8, MiB) == pytest.approx(17_800, rel=0.01)
    assert ", ".join(rows.text for rows in rows_of(fabric(name), "vllm_fused", 8)) == (
        "trtllm 1.3.0rc20 (up to 1 MiB), vllm 0.24.0")
    with pytest.raises(UnsupportedError, match="vllm_fused on dgx_a100_nvswitch, where vLLM fuses no all_reduce"):
        took("dgx_a100_nvswitch", "vllm_fused", 8, MiB)


def test_fastest_is_the_least_of_all_and_of_nccl() -> None:
    for size in (4 * KiB, MiB, 64 * MiB):
        each = [took("dgx_b200_nvswitch", library, 8, size) for library in ("nccl", "vllm", "sglang", "trtllm")]
        assert took("dgx_b200_nvswitch", "fastest", 8, size) == min(each)


WAYS = [Way(8, 450.0, "dgx_h200_nvswitch", "network.dims[0]")]


@pytest.mark.parametrize("library", ["nccl", "vllm", "fastest"])
@pytest.mark.parametrize("op", [CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.ALL_TO_ALL])
@pytest.mark.parametrize("hosts", [1, 2])
def test_arrays_take_what_each_payload_takes(library: str, op: CommOp, hosts: int) -> None:
    ways = [*WAYS, Way(2, 50.0, "infiniband_ndr", "network.dims[1]")][:hosts]
    sizes = np.array([0.0, 1.0, 300.0, 131_072.0, 262_144.0, 3e6, 9e7, 3e9])
    layout = Layout(8, hosts)
    each = [measured_ns(op, size, layout, fabric("dgx_h200_nvswitch"), fabric("infiniband_ndr"), library=library)
            for size in sizes.tolist()]
    assert times(Collective(model="measured", library=library), op, sizes, ways) == pytest.approx(each, rel=1e-12)


def test_larger_groups() -> None:
    """An engine without rows of so many GPUs takes those of a rack that has them, or NCCL, and the run says so."""
    rack = [Way(8, 900.0, "gb200_nvl72", "network.dims[0]")]
    trtllm, vllm = (Collective(model="measured", library=name) for name in ("trtllm", "vllm"))
    assert named(rack, CommOp.ALL_REDUCE, trtllm) == ("gb200_nvl72: trtllm 1.3.0rc20 (rows of gb300_nvl72, for want of "
                                                      "8 GPUs)")
    assert named([rack[0]._replace(ranks=32)], CommOp.ALL_REDUCE, vllm) == ("gb200_nvl72: nccl, 32 GPUs from rows of "
                                                                            "up to 8")
    both = [*WAYS, Way(2, 50.0, "infiniband_ndr", "network.dims[1]")]
    assert named(both, CommOp.ALL_REDUCE, vllm) == "dgx_h200_nvswitch + infiniband_ndr"
    assert named([*WAYS, both[1]._replace(ranks=4)], CommOp.ALL_REDUCE, vllm).endswith(
        ": nccl, 4 hosts from rows of up to 2")
    assert times(vllm, CommOp.ALL_REDUCE, np.array([1e5]), both) == \
        times(Collective(model="measured"), CommOp.ALL_REDUCE, np.array([1e5]), both)


def test_sixteen_in_a_rack_extrapolated() -> None:
    """NCCL among 16 GB300: 51.8 us at 128 KiB (SGLang's row, which takes NCCL there), from rows of 2, 4 and 8."""
    assert took("gb300_nvl72", "nccl", 16, 128 * KiB) == pytest.approx(51_800, rel=0.12)


def test_what_has_no_rows() -> None:
    with pytest.raises(UnsupportedError, match="vllm has no rows on mi300x_platform; expected one of nccl"):
        took("mi300x_platform", "vllm", 8, MiB)
    with pytest.raises(ConfigError, match=r"library: 'vlm' is not known; .*did you mean 'vllm'"):
        Collective(model="measured", library="vlm")
    with pytest.raises(ConfigError, match="library: vllm with model simulated"):
        Collective(library="vllm")


@pytest.mark.parametrize(("name", "npus", "us"), [
    ("dgx_h200_nvswitch", 8, 7.9), ("dgx_h200_nvswitch", 4, 5.8), ("dgx_h200_nvswitch", 1, 0.0),
    ("gb200_nvl72", 4, 6.0), ("dgx_b200_nvswitch", 8, 9.4)])
def test_a_design_names_its_library(name: str, npus: int, us: float) -> None:
    design = config.decode(ar.Design, {
        "workload": {"source": "collective", "op": "all_reduce", "payload": "128 KiB"},
        "network": {"dims": [{"like": name, "npus": npus}]},
        "collective": {"model": "measured", "library": "vllm/0.24.0"}})
    assert ar.simulate(design).makespan == pytest.approx(us * 1e3, rel=0.02)
