"""Kernels that exchange tokens of experts: rows that were measured, groups between them, and what has no rows."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from astrarium import config
from astrarium.collective.config import Collective
from astrarium.collective.exchange import exchange_ns, phase_ns
from astrarium.collective.fabrics import fabric
from astrarium.collective.measured import Layout
from astrarium.collective.timers import Way, named, times
from astrarium.config import ConfigError
from astrarium.design import Design
from astrarium.errors import UnsupportedError
from astrarium.simulate import simulate
from astrarium.vocab import CommOp

DEEPEP = Collective(model="measured", exchange="deepep")
FP8 = 1 + 4 / 128       # DeepEP: a scale of 4 bytes for 128 elements
# us of aiconfigurator-core 0.12.0 (wideep_deepep_*, trtllm_alltoall), hidden 7,168, 8 of 256 experts:
# (fabric, kernel, phase, hosts, ranks, tokens of a rank, bytes of an element, us)
ROWS = [("dgx_h200_nvswitch", "deepep", "dispatch", 1, 8, 4096, FP8, 491.0),
        ("dgx_h200_nvswitch", "deepep", "combine", 1, 8, 4096, 2, 973.0),
        ("dgx_h200_nvswitch", "deepep_low_latency", "dispatch", 1, 8, 128, FP8, 35.1),
        ("dgx_h200_nvswitch", "deepep_low_latency", "combine", 1, 8, 128, 2, 67.7),
        ("gb200_nvl72", "deepep_low_latency", "combine", 1, 4, 512, 2, 92.0),
        ("gb200_nvl72", "nvlink_one_sided", "dispatch", 1, 8, 1024, 0.5625, 64.2),
        ("gb200_nvl72", "nvlink_one_sided", "combine", 1, 8, 64, 2, 30.7),
        ("gb200_nvl72", "nvlink_one_sided", "combine", 1, 32, 2048, 2, 396.9),
        ("gb200_nvl72", "nvlink_two_sided", "combine", 1, 64, 1024, 2, 250.6),
        ("infiniband_ndr", "deepep_low_latency", "dispatch", 2, 8, 128, FP8, 102.1),
        ("infiniband_ndr", "deepep_low_latency", "combine", 8, 8, 128, 2, 304.7),
        ("infiniband_ndr", "deepep", "dispatch", 4, 8, 4096, FP8, 1853.0)]


def copies(kernel: str, ranks: int) -> float:
    """Ranks, or experts, to which a token goes, its own rank among them."""
    return 8.0 if kernel == "deepep_low_latency" else ranks * (1 - comb(256 - 256 // ranks, 8) / comb(256, 8))


@pytest.mark.parametrize(("name", "kernel", "phase", "hosts", "ranks", "tokens", "width", "us"), ROWS)
def test_rows_come_back(name: str, kernel: str, phase: str, hosts: int, ranks: int, tokens: int, width: float,
                        us: float) -> None:
    group, over = Layout(ranks, hosts), fabric(name)
    sent = tokens * 7168 * width * copies(kernel, group.ranks) * (group.ranks - 1) / group.ranks
    host = over if over.kind == "host" else fabric("dgx_h100_nvswitch")
    assert phase_ns(kernel, phase, sent, group, host, over) == pytest.approx(us * 1e3, rel=0.16)


def test_an_all_to_all_is_half_of_both_phases() -> None:
    """The two of a layer together take what its phases do."""
    host, group, payload = fabric("dgx_h200_nvswitch"), Layout(8), 128 * 7168 * 2.0 * 8
    phases = [phase_ns("deepep_low_latency", phase, payload * 7 / 8, group, host) for phase in ("dispatch", "combine")]
    assert exchange_ns("deepep_low_latency", payload, group, host) == sum(phases) / 2
    assert exchange_ns("deepep", payload, Layout(1), host) == 0


def test_numbers_between_and_beyond_those_with_rows() -> None:
    rack = fabric("gb200_nvl72")
    each = [exchange_ns("nvlink_one_sided", 1e6, Layout(n), rack) for n in (16, 24, 32, 72)]
    assert each[0] < each[1] < each[2]
    assert each[3] == pytest.approx(each[2], rel=0.05)      # lines of 32, some more bytes to others
    way = Way(8, 450.0, "dgx_h200_nvswitch", "network.dims[0]")
    four, nics = way._replace(ranks=4), Way(2, 50.0, "infiniband_hdr", "network.dims[1]")
    assert named([way], CommOp.ALL_TO_ALL, DEEPEP) == "dgx_h200_nvswitch: deepep"
    assert named([four], CommOp.ALL_TO_ALL, DEEPEP) == "dgx_h200_nvswitch: deepep (rows of 8 GPUs)"
    assert named([way, nics._replace(ranks=16)], CommOp.ALL_TO_ALL, DEEPEP) == (
        "dgx_h200_nvswitch + infiniband_hdr (rows of infiniband_ndr): deepep (rows of 8x8 GPUs)")
    with pytest.raises(UnsupportedError, match="among 2 hosts with 4 ranks in each; expected 8 ranks in each"):
        named([four, nics], CommOp.ALL_TO_ALL, DEEPEP)


def test_arrays_take_what_each_payload_takes() -> None:
    ways = [Way(8, 450.0, "dgx_h200_nvswitch", "network.dims[0]")]
    sizes = np.array([0.0, 1e3, 1e6, 1e9])
    each = [exchange_ns("deepep", size, Layout(8), fabric("dgx_h200_nvswitch")) for size in sizes.tolist()]
    assert times(DEEPEP, CommOp.ALL_TO_ALL, sizes, ways) == pytest.approx(each)


def test_a_design_names_the_kernel() -> None:
    design = config.decode(Design, {
        "workload": {"source": "collective", "op": "all_to_all", "payload": "16 MB"},
        "network": {"dims": [{"like": "dgx_h200_nvswitch", "npus": 8}]},
        "collective": {"model": "measured", "exchange": "deepep_low_latency"}})
    assert simulate(design).makespan == pytest.approx(
        exchange_ns("deepep_low_latency", 16e6, Layout(8), fabric("dgx_h200_nvswitch")), abs=1)


def test_what_was_not_measured_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="deepep was not measured on dgx_a100_nvswitch; expected one of all_to_"):
        exchange_ns("deepep", 1024.0, Layout(8), fabric("dgx_a100_nvswitch"))
    with pytest.raises(ConfigError, match="exchange: deepep with model simulated"):
        Collective(exchange="deepep")
