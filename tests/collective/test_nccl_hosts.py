"""Logs of several hosts: read, fitted, and given back by a design's collectives."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from astrarium.catalog import overlay
from astrarium.collective.bandwidth import bus_factor
from astrarium.collective.fabrics import Fabric, fabric, names, read
from astrarium.collective.measured import Layout, measured_ns, rule_ns
from astrarium.collective.nccl_hosts import hosts_text
from astrarium.collective.nccl_log import read_log
from astrarium.errors import InputError
from astrarium.vocab import CommOp

from .logs import SIZES, log, ranks

HOST = "dgx_h100_nvswitch"
FOLD = {"all_reduce": 2.0, "all_gather": 1.0}


def time_us(op: str, hosts: int, size: int) -> float:
    """Two protocols, not what the rule makes of other numbers of hosts."""
    bus = size * FOLD[op] * (8 * hosts - 1) / (8 * hosts)
    return min(30 * hosts + bus / 60e3, 90 * hosts**0.5 + bus / (350e3 * (1.2 - hosts / 20)))


def made(folder: Path, *hosts: int, ops: tuple[str, ...] = ("all_reduce", "all_gather")) -> Fabric:
    """The fabric that logs of these numbers of hosts make."""
    logs = [read_log(str(log(folder / f"{op}_{n}.log", lambda size, op=op, n=n: time_us(op, n, size), ranks(n, 8))))
            for n in hosts for op in ops]
    text, errors = hosts_text("nccl_hosts_test", "50 GB/s", 50.0, logs, fabric(HOST))
    assert max(error for name, error in errors.items() if "rule" not in name) < 0.02
    (folder / "mine.toml").write_text(text)
    with overlay(folder / "mine.toml"):
        fabric.cache_clear()
        return fabric("nccl_hosts_test")


def test_logged_medians_come_back_at_the_logged_sizes(tmp_path: Path) -> None:
    mine = made(tmp_path, 2, 4)
    for op in FOLD:
        for hosts in (2, 4):
            found = [measured_ns(CommOp[op.upper()], size, Layout(8, hosts), fabric(HOST), mine) for size in SIZES]
            wanted = [1e3 * time_us(op, hosts, size) for size in SIZES]
            assert np.max(np.abs(np.array(found) / wanted - 1)) < 0.03
            rule = [rule_ns(CommOp[op.upper()], size, Layout(8, hosts), fabric(HOST), mine) for size in SIZES]
            assert np.max(np.abs(np.array(rule) / wanted - 1)) > 0.03 or (op, hosts) == ("all_reduce", 2)


def test_other_numbers_of_hosts_lie_between_and_go_on(tmp_path: Path) -> None:
    mine = made(tmp_path, 2, 8)

    def quotient(hosts: int, per_host: int = 8) -> float:
        group = Layout(per_host, hosts)
        return (measured_ns(CommOp.ALL_GATHER, 1 << 28, group, fabric(HOST), mine)
                / rule_ns(CommOp.ALL_GATHER, 1 << 28, group, fabric(HOST), mine))

    assert quotient(4) == pytest.approx((quotient(2) * quotient(8)) ** 0.5)     # 4 lies midway on a logarithmic scale
    assert quotient(16) == pytest.approx(quotient(8)) != pytest.approx(1)
    assert quotient(4, per_host=4) == quotient(4, per_host=1) == 1              # nothing was measured there
    other = fabric("dgx_a100_nvswitch")
    assert measured_ns(CommOp.ALL_GATHER, 1 << 28, Layout(8, 2), other, mine) == rule_ns(
        CommOp.ALL_GATHER, 1 << 28, Layout(8, 2), other, mine)


def test_the_median_of_several_logs_counts(tmp_path: Path) -> None:
    logs = [read_log(str(log(tmp_path / f"all_reduce_{n}.log", lambda size, n=n: n * time_us("all_reduce", 2, size),
                             ranks(2, 8)))) for n in (1, 2, 30)]
    text, _ = hosts_text("it", "50 GB/s", 50.0, logs, fabric(HOST))
    (tmp_path / "mine.toml").write_text(text)
    with overlay(tmp_path / "mine.toml"):
        fabric.cache_clear()
        mine = fabric("it")
    found = measured_ns(CommOp.ALL_REDUCE, 1 << 28, Layout(8, 2), fabric(HOST), mine)
    assert found == pytest.approx(2000 * time_us("all_reduce", 2, 1 << 28), rel=0.02)


def test_one_rank_in_each_host_needs_no_host(tmp_path: Path) -> None:
    def us(size: int) -> float:
        return 20 + size * bus_factor(CommOp.ALL_REDUCE, 2) / 45e3

    text, errors = hosts_text("it", "50 GB/s", 50.0, [read_log(str(log(tmp_path / "all_reduce.log", us, ranks(2, 1))))],
                              None)
    assert "host =" not in text
    assert max(errors.values()) < 0.01
    assert float(text.partition("lines = [[")[2].partition(",")[0]) == pytest.approx(20_000, rel=0.01)


def test_without_the_host_or_with_a_slower_one_it_is_refused(tmp_path: Path) -> None:
    logs = [read_log(str(log(tmp_path / "all_reduce.log", lambda size: 1 + size / 200e3, ranks(2, 8), SIZES[:10])))]
    with pytest.raises(InputError, match="--inside: is missing"):
        hosts_text("it", "50 GB/s", 50.0, logs, None)
    with pytest.raises(InputError, match="more than what the logs took"):
        hosts_text("it", "50 GB/s", 50.0, logs, fabric(HOST))
    flat = [read_log(str(log(tmp_path / "all_reduce.log", lambda size: 30, ranks(2, 8))))]
    with pytest.raises(InputError, match=r"do not grow with sizes|times this bandwidth"):
        hosts_text("it", "50 GB/s", 50.0, flat, fabric(HOST))
    good = [read_log(str(log(tmp_path / "all_reduce.log", lambda size: 30 + size / 400e3, ranks(2, 8))))]
    with pytest.raises(InputError, match="--link-bandwidth: the logs have 15 times this bandwidth"):
        hosts_text("it", "6.25 GB/s", 6.25, good, fabric(HOST))


@pytest.mark.parametrize(("header", "why"), [
    (ranks(2, 4, host="localhost"), "two ranks of one host name and device were"),
    ("".join(f"#  Rank {n} Pid 1\n" for n in range(8)), "does not say on which host each of its 8 ranks was"),
    (ranks(2, 4) + ranks(2, 4, host="other-{}"), "does not say on which host each of its 8 ranks was"),
    (ranks(2, 4) + "#  Rank  8 Group  0 Pid 9 on node-9 device  0 [0x1] NVIDIA\n", "hosts with 1 and 4 ranks"),
    (ranks(2, 4).replace("Rank  3 Group  0", "Rank  3 Group  1"), "ran in 2 groups at once"),
])
def test_logs_whose_hosts_are_not_known_are_refused(tmp_path: Path, header: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_log(str(log(tmp_path / "all_reduce.log", lambda size: 1 + size / 1e5, header)))


def test_headers_of_older_and_short_forms(tmp_path: Path) -> None:
    """Without groups; two devices of one bus number, as nccl-tests once printed it."""
    header = "".join(f"#   Rank  {n} Pid  {n} on   gpu-1-{n // 2} device  {n % 2} [0x10] NVIDIA A100\n"
                     for n in range(4))
    found = read_log(str(log(tmp_path / "all_gather.log", lambda size: 1 + size / 1e5, header)))
    assert (found.ranks, found.hosts) == (4, 2)


def test_a_run_with_wrong_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="3 wrong results of 1024 bytes"):
        read_log(str(log(tmp_path / "all_reduce.log", lambda size: 1 + size / 1e5, ranks(2, 4), wrong=3)))


def test_a_bad_layout_of_a_fabric_is_refused() -> None:
    row = {"kind": "hosts", "link": "50 GB/s", "ops": {"all_reduce": {"1x8": [[1, 1]]}}}
    with pytest.raises(InputError, match="is no group of several hosts"):
        read("it", {"it": row})


@pytest.mark.shared
def test_a_public_log_of_two_hosts_makes_the_catalogs_lines(tmp_path: Path, shared: Path) -> None:
    """GCP A3 Mega, 2 x 8 H100: every row; the catalog has every second one."""
    with (shared / "reference" / "validation_collectives.csv").open(encoding="utf-8") as file:
        times = {int(row["size_B"]): float(row["time_us"]) for row in csv.DictReader(file)
                 if row["source"].startswith("GCP A3-mega")}
    path = log(tmp_path / "all_reduce.log", times.__getitem__, ranks(2, 8), sizes=sorted(times))
    text, errors = hosts_text("it", "25 GB/s", 25.0, [read_log(str(path))], fabric(HOST))
    assert max(errors.values()) < 0.01
    (tmp_path / "mine.toml").write_text(text)
    with overlay(tmp_path / "mine.toml"):
        fabric.cache_clear()
        mine = fabric("it")
    assert "gcp_a3_mega" in names("hosts")
    found = [[measured_ns(CommOp.ALL_REDUCE, size, Layout(8, 2), fabric(HOST), nics) / times[size] / 1e3
              for size in sorted(times)] for nics in (mine, fabric("gcp_a3_mega"))]
    assert np.median(np.abs(np.array(found) - 1), axis=1).max() < 0.02
