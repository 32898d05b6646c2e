"""Measured collectives: against rows that were measured, by their own equations, and what they refuse."""

from __future__ import annotations

import csv
from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium import catalog
from astrarium.collective.bandwidth import bus_factor
from astrarium.collective.fabrics import fabric, names, read
from astrarium.collective.measured import Layout, best_busbw, measured_ns, message_ns
from astrarium.errors import InputError, UnsupportedError
from astrarium.vocab import CommOp

MiB = 1 << 20
HOSTS = Path(__file__).parents[2] / "benchmarks/data/nccl_hosts.csv"
# us of aiconfigurator-core 0.12.0's tables (half precision), rounded: (fabric, op, GPUs, bytes, us)
ROWS = [("dgx_a100_nvswitch", "all_reduce", 8, 512 * MiB, 4225.9),
        ("dgx_a100_nvswitch", "all_gather", 8, 64 * MiB, 351.6),
        ("dgx_h100_nvswitch", "all_reduce", 8, 512 * MiB, 2111.1), ("dgx_h100_nvswitch", "all_reduce", 8, 1024, 15.6),
        ("dgx_h100_nvswitch", "reduce_scatter", 4, 256 * MiB, 678.4),
        ("gb200_nvl72", "all_gather", 4, 512 * MiB, 714.4),
        ("dgx_b200_nvswitch", "all_to_all", 8, 512 * MiB, 834.2),
        ("dgx_h100_nvswitch", "all_reduce", 2, 128 * MiB, 466.2)]


@pytest.mark.parametrize(("name", "op", "ranks", "size", "us"), ROWS)
def test_rows_of_one_host_come_back(name: str, op: str, ranks: int, size: int, us: float) -> None:
    assert measured_ns(CommOp[op.upper()], size, Layout(ranks), fabric(name)) == pytest.approx(us * 1e3, rel=0.08)


def test_rows_of_several_hosts_come_back() -> None:
    with HOSTS.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if int(row["size_B"]) >= 256 * MiB and row["nic"]]
    errors = []
    for row in rows:
        time = measured_ns(CommOp[row["op"].upper()], int(row["size_B"]), Layout(8, 2), fabric(row["host"]),
                           fabric(row["nic"]))
        errors.append(abs(log(time / float(row["time_us"]) / 1e3)))
    assert len(rows) > 40
    assert np.median(errors) < 0.05
    assert max(errors) < log(1.25)


def test_groups_beyond_those_that_were_measured() -> None:
    """A switch that reduces keeps payload / time: 32 in an NVL72, 8 GiB: 18,551 us (a log in NVIDIA/aicr's tests)."""
    nvl = fabric("gb200_nvl72")
    assert measured_ns(CommOp.ALL_REDUCE, 8 << 30, Layout(32), nvl) == pytest.approx(18_551_000, rel=0.05)
    assert best_busbw(CommOp.ALL_GATHER, 32, nvl) == best_busbw(CommOp.ALL_GATHER, 8, nvl)
    times = [measured_ns(CommOp.ALL_GATHER, 1024, Layout(n), nvl) for n in (8, 16, 32, 64)]
    assert times == sorted(times)
    assert len(set(times)) == 4
    with pytest.raises(UnsupportedError, match="of 4 was not measured on mi300x_platform, whose least group has 8"):
        measured_ns(CommOp.ALL_REDUCE, 1024, Layout(4), fabric("mi300x_platform"))


def test_no_bus_passes_its_link() -> None:
    for name in names("host"):
        value = fabric(name)
        for op, by_ranks in value.ops.items():
            for ranks in by_ranks:
                # NVLS reduces inside the switch: nccl-tests' bus bandwidth may then pass the link, up to 8 / 7
                limit = value.link * (8 / 7 if op == CommOp.ALL_REDUCE else 1)
                assert best_busbw(op, ranks, value) < limit, (name, op, ranks)


SWITCHED = [name for name in names("host") if name != "mi300x_platform"]


@given(st.sampled_from(SWITCHED), st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]),
       st.integers(2, 16), st.integers(1, 8), st.integers(0, 1 << 33))
def test_more_bytes_or_slower_links_never_take_less(name: str, op: str, ranks: int, hosts: int, size: int) -> None:
    host, nics = fabric(name), fabric("ethernet_400g")
    def time(size: float, **links: float) -> float:
        return measured_ns(CommOp[op.upper()], size, Layout(ranks, hosts), host, nics, **links)
    assert time(size) <= time(2 * size + 1)
    assert time(size) <= time(size, host_link=host.link / 2) + 1e-6
    assert time(size) <= time(size, nic_link=nics.link / 2) + 1e-6
    assert time(0) > 0


def test_two_hosts_send_a_sum_once_and_more_hosts_in_a_ring() -> None:
    host, nics = fabric("dgx_h100_nvswitch"), fabric("efa_p4de")
    size, share = 64 << 30, nics.lines[-1][1]
    two = measured_ns(CommOp.ALL_REDUCE, size, Layout(8, 2), host, nics)
    four = measured_ns(CommOp.ALL_REDUCE, size, Layout(8, 4), host, nics)
    assert two == pytest.approx(size / (8 * nics.link * share), rel=0.01)
    assert four == pytest.approx(bus_factor(CommOp.ALL_REDUCE, 32) * size / (8 * nics.link * share), rel=0.01)


def test_nothing_over_links_without_latency_takes_no_time() -> None:
    rows = {"it": {"kind": "hosts", "link": "50 GB/s", "lines": [[0, 0.9]], "ops": {"all_reduce": {"2x1": [[0, 0.8]]}}}}
    host, nics = fabric("dgx_h100_nvswitch"), read("it", rows)
    assert measured_ns(CommOp.ALL_REDUCE, 0.0, Layout(1, 2), host, nics) == 0
    assert measured_ns(CommOp.ALL_REDUCE, 4e9, Layout(1, 2), host, nics) == pytest.approx(1e8)


def test_one_rank_a_host_has_one_nic() -> None:
    host, nics = fabric("dgx_h100_nvswitch"), fabric("gcp_a3_mega")
    one, eight = (measured_ns(CommOp.ALL_GATHER, 8 << 30, Layout(each, 4), host, nics) for each in (1, 8))
    assert one / eight == pytest.approx(8 * (3 / 4) / (31 / 32), rel=0.05)


def test_a_number_of_ranks_between_two_that_were_measured() -> None:
    host = fabric("dgx_h200_nvswitch")
    times = [measured_ns(CommOp.ALL_REDUCE, 8192, Layout(ranks), host) for ranks in (4, 5, 6, 7, 8)]
    assert times == sorted(times)


def test_other_link_rates_scale_the_bandwidth_and_keep_the_latency() -> None:
    host = fabric("dgx_h100_nvswitch")
    small, large = (measured_ns(CommOp.ALL_GATHER, size, Layout(8), host) for size in (1, 1 << 33))
    assert measured_ns(CommOp.ALL_GATHER, 1, Layout(8), host, host_link=900) == pytest.approx(small, rel=0.01)
    assert measured_ns(CommOp.ALL_GATHER, 1 << 33, Layout(8), host, host_link=900) == pytest.approx(large / 2, rel=0.01)


def test_a_message_takes_the_rate_of_its_links() -> None:
    host, nics = fabric("dgx_a100_nvswitch"), fabric("efa_p5")
    assert 0.5 * 300 < (1 << 30) / message_ns(1 << 30, host) < 0.75 * 300     # sendrecv_perf: 195 GB/s
    assert 0.85 * 50 < (1 << 30) / message_ns(1 << 30, nics) < 50
    assert message_ns(8, nics) > message_ns(8, host)


def test_what_was_not_measured_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'dgx_h100_nvswitch'"):
        fabric("dgx_h100_nvlink")
    with pytest.raises(UnsupportedError, match="broadcast was not measured on dgx_h100_nvswitch"):
        measured_ns(CommOp.BROADCAST, 1024, Layout(8), fabric("dgx_h100_nvswitch"))
    with pytest.raises(UnsupportedError, match="the fabric between them"):
        measured_ns(CommOp.ALL_REDUCE, 1024, Layout(8, 2), fabric("dgx_h100_nvswitch"))


def test_every_row_has_its_error_and_lines_or_stand_ins() -> None:
    for name, row in catalog.load("collectives").items():
        assert row["error"].startswith(("fit: median", "no rows")), name
        assert ("like" in row) != bool(row.get("ops") or row.get("lines")), name


def test_a_stand_in_whose_switch_reduces_lends_no_rate_of_that() -> None:
    """A100's switch adds nothing up: predicted from H100 an all_reduce is no faster than a reduce_scatter."""
    rows = catalog.load("collectives")
    bare = {key: value for key, value in rows["dgx_a100_nvswitch"].items() if key != "ops"}
    made = read("it", {**rows, "it": {**bare, "like": ["dgx_h100_nvswitch"]}})
    assert best_busbw(CommOp.ALL_REDUCE, 8, made) == best_busbw(CommOp.REDUCE_SCATTER, 8, made)
    same = read("it", {**rows, "it": {**bare, "like": ["dgx_h100_nvswitch"], "in_network": True}})
    assert best_busbw(CommOp.ALL_REDUCE, 8, same) > 1.2 * best_busbw(CommOp.REDUCE_SCATTER, 8, same)
