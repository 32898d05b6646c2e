"""COSMIC's rewards and costs against the rows of its public logs."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import astrarium as ar
from astrarium.errors import UnsupportedError
from astrarium.network.cost import network_cost
from astrarium.search.cosmic import public_bandwidth, reward

SHAPES = {"Ring": ar.Ring, "FullyConnected": ar.FullyConnected, "Switch": ar.Switch}


@pytest.mark.shared
def test_every_logged_reward_and_cost(shared: Path) -> None:
    with open(shared / "reference" / "cosmic_log_rows.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    costs = 0
    for row in rows:
        memory = float(row["mem_bytes"])
        observed = [float(row["cycles_ns"]), *([memory] if memory else [])]
        assert reward(*observed) == pytest.approx(float(row["reward"]), rel=1e-12)
        if float(row["net_cost"] or 0):
            dims = zip(row["topology"].split("|"), row["npus"].split("|"), row["bw_GBps"].split("|"))
            network = ar.Network([SHAPES[shape](int(npus), bandwidth=f"{bandwidth} GB/s", latency="0 ns")
                                  for shape, npus, bandwidth in dims])
            assert network_cost(network) == pytest.approx(float(row["net_cost"]), rel=1e-4)      # 6.667 is rounded
            costs += 1
    assert len(rows) == 18
    assert costs == 1


def test_published_values() -> None:
    assert reward(88_489_897_541, 12_512_919_552) == pytest.approx(1.118941e-11, rel=1e-6)
    assert reward(455_680 * 99_516_739_375) == pytest.approx(2.205179e-17, rel=1e-6)


def test_the_bandwidth_of_system_2() -> None:
    """Per link 187.5, 25, 75, 100 GB/s: 2 * 187.5 + 7 * 25 + 2 * 75 + 100 over 2000."""
    network = ar.Network([ar.Ring(4, bandwidth="187.5 GB/s", latency="20 ns"),
                          ar.FullyConnected(8, bandwidth="25 GB/s", latency="700 ns"),
                          ar.Ring(4, bandwidth="75 GB/s", latency="700 ns"),
                          ar.Switch(8, bandwidth="100 GB/s", latency="1700 ns")])
    assert public_bandwidth(network) == 800 / 2000
    with pytest.raises(UnsupportedError, match="no mesh"):
        public_bandwidth(ar.Network([ar.Mesh(4, bandwidth="1 GB/s", latency="1 us")]))
