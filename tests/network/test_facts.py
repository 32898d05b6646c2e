"""`packets` beside what ns-3 and csg-htsim gave for the same flows (facts/README.md)."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.network.facts import measure_htsim, measure_ns3
from tests.network.facts.flows import ends, quantiles

from astrarium import engine
from astrarium.engine.plan import FIRST_LINK, NetworkPlan, PacketRules

FACTS = Path(__file__).parent / "facts"
NS3_HEADER = 30                     # bytes: PPP 2, IP 20, UDP 8
COLUMNS = ("first_ps", "median_ps", "p99_ps", "last_ps", "mean_ps")
pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")

Row = dict[str, str]


def rows(name: str) -> list[Row]:
    with (FACTS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def over(found: dict[str, int], row: Row) -> list[float]:
    """Ours over theirs, column by column."""
    return [found[name] / int(row[name]) for name in COLUMNS]


def beside_ns3(case: measure_ns3.Case) -> tuple[dict[str, int], Row]:
    """Ours, with queues of any length, and ns-3's over UDP."""
    row = next(row for row in rows("ns3.csv") if (row["case"], row["fabric"], row["transport"]) == (
        case.name, case.fabric, "udp"))
    network = NetworkPlan("packets", case.dims, packets=PacketRules(header=NS3_HEADER), ecmp=FIRST_LINK,
                          graph=case.graph)
    return quantiles(ends(network, case.npus, case.flows, measure_ns3.SIZE)), row


@pytest.mark.parametrize("case", [case for case in measure_ns3.cases() if "ring" not in case.fabric],
                         ids=lambda case: f"{case.name} {case.fabric}")
def test_where_switches_pass_packets_on_it_is_ns3_to_the_ps(case: measure_ns3.Case) -> None:
    """All but the mean, which depends on which of two packets goes first that come in one instant."""
    found, row = beside_ns3(case)
    assert [found[name] for name in COLUMNS[:4]] == [int(row[name]) for name in COLUMNS[:4]]
    assert over(found, row)[4] == pytest.approx(1, abs=0.001)


@pytest.mark.parametrize("case", [case for case in measure_ns3.cases() if "ring" in case.fabric],
                         ids=lambda case: f"{case.name} {case.fabric}")
def test_where_npus_pass_packets_on_it_is_near_ns3(case: measure_ns3.Case) -> None:
    """Here an NPU's own packets and those that it passes on take turns; in ns-3 its own join the end of one queue. The
    same flows over a torus of switches, where no NPU passes anything on, end at the same ps."""
    found, row = beside_ns3(case)
    _, median, p99, _, mean = over(found, row)
    assert 0.9 <= median <= 1
    assert 0.8 <= p99 <= 1
    assert 0.9 <= mean <= 1


def beside_htsim(name: str, flows: int, transport: str, seeds: int = 0) -> dict[str, float]:
    """Ours over htsim's, over as many seeds or fewer."""
    case = next(case for case in measure_htsim.cases() if case.name == name and len(case.pairs) == flows)
    row = next(row for row in rows("htsim.csv") if row["case"] == name and int(row["flows"]) == flows)
    used = case.seeds[:seeds] if seeds else case.seeds
    found = sorted(end for seed in used for end in measure_htsim.ours(replace(case, seeds=used), transport, seed))
    return dict(zip(COLUMNS, over(quantiles(found), row), strict=True))


@pytest.mark.parametrize("transport", ["credits", "roce"])
@pytest.mark.parametrize(("name", "flows", "within"), [
    ("incast_leaf", 8, (0.01, 0.001, 0.01)), ("incast", 8, (0.15, 0.001, 0.01)), ("incast", 32, (0.01, 0.001, 0.02)),
    ("permutation", 128, (0.02, 0.12, 0.07))], ids=lambda value: str(value) if isinstance(value, (str, int)) else "")
def test_flows_end_when_those_of_htsim_do(name: str, flows: int, within: tuple[float, ...], transport: str) -> None:
    """Median, 99th percentile and mean. The eight flows of an incast from elsewhere meet on the way by chance, and
    some end at 151, some at 172 us: the median jumps from one to the other, the mean does not."""
    found = beside_htsim(name, flows, transport)
    off = [abs(found[column] - 1) for column in ("median_ps", "p99_ps", "mean_ps")]
    assert all(a <= b for a, b in zip(off, within, strict=True)), found


def test_what_differs_in_a_permutation_is_the_way_of_acks() -> None:
    """htsim's ACKs queue with data that goes the other way, and a flow ends with its ACK. Where all data goes one way,
    first, median, p99 and mean are the same; in the permutation of 1,024 NPUs htsim's mean is 5 % later."""
    found = beside_htsim("one_way", 512, "credits")
    assert [found[name] for name in COLUMNS if name != "last_ps"] == pytest.approx([1] * 4, abs=0.01)
    both = beside_htsim("permutation", 1024, "credits", seeds=1)
    assert 0.92 < both["mean_ps"] < 0.98
    assert both["p99_ps"] == pytest.approx(1, abs=0.2)


def test_what_differs_in_an_all_to_all_is_the_order_of_an_npus_messages() -> None:
    """With credits an NPU sends one message after the other, so that half of them are there in little more than half of
    the time; under roce, as in htsim, one packet of each in turn. All of them take as long."""
    in_order, in_turn = (beside_htsim("all_to_all", 16_256, transport) for transport in ("credits", "roce"))
    assert in_order["median_ps"] < 0.7
    assert in_order["p99_ps"] == pytest.approx(1, abs=0.05)
    assert in_turn["median_ps"] == pytest.approx(1, abs=0.1)
    assert in_turn["p99_ps"] == pytest.approx(1, abs=0.2)
