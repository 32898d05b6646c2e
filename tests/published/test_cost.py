"""Published prices and budgets: a street sheet of H100 clusters, Epoch AI's model, DeepSeek-V3's bill."""

from __future__ import annotations

import pytest
from tests.cost.buildings import cluster

from astrarium.config import replace_all
from astrarium.cost.capital import bill, capital_cost
from astrarium.cost.rent import rent_per_hour

SHEET = [(64, 8, 288_000, 675_840, 20_803_840), (128, 48, 1_728_000, 2_621_440, 44_029_440),
         (256, 96, 3_456_000, 5_242_880, 88_058_880), (2048, 768, 27_648_000, 41_943_040, 704_471_040),
         (4096, 2560, 92_160_000, 124_518_400, 1_486_438_400), (8192, 5120, 184_320_000, 249_036_800, 2_972_876_800),
         (16384, 10240, 368_640_000, 498_073_600, 5_945_753_600), (65536, 40960, 1_474_560_000, 1_992_294_400,
                                                                  23_783_014_400)]
"""Hosts of eight; switches, dollars of switches, of connectors and cables, and of both with hosts at 310 k$: rows of
the H100 cluster cost sheet of August 2024 (source of the parts in the catalog), without its column "facility and
operations" (50 k$ a host for its lifetime). Its rows of 512 and 1,024 hosts compute with 300 k$ a host, that of 2 hosts
with no switch, that of 13,107 with rounded ratios."""


@pytest.mark.parametrize(("hosts", "switches", "of_switches", "of_cables", "total"), SHEET)
def test_street_prices_of_h100_clusters(hosts: int, switches: int, of_switches: int, of_cables: int,
                                        total: int) -> None:
    """Every row to the dollar. Only the price of a link was taken from the sheet: two of its totals."""
    design = cluster(hosts)
    lines = {line.what: line for line in bill(design)}
    assert lines["switches"].count == switches
    assert lines["switches"].total == of_switches
    cables = lines["links"].total + (lines["links between switches"].total if "links between switches" in lines else 0)
    assert cables == of_cables
    assert capital_cost(design) == total


def test_a_fabric_of_1024_npus_per_bandwidth() -> None:
    """85 $ per GB/s of an NPU's card; with all of the sheet 49,248 $ an H100."""
    design = cluster(128)
    fabric = sum(line.total for line in bill(design) if line.what != "hosts")
    assert fabric / (1024 * 50) == pytest.approx(85, abs=0.5)
    assert (capital_cost(design) + 128 * 50_000) / 1024 == pytest.approx(49_248, abs=1)
    cheaper = capital_cost(cluster(512)) - 512 * 10_000     # the row that computes with 300 k$
    assert (cheaper + 512 * 50_000) / 4096 == pytest.approx(47_998, abs=1)


def test_the_fabric_is_less_than_epochs_share() -> None:
    """Epoch AI takes 19 % of a cluster's cost for its interconnect; a rail fabric of 400 Gb/s is 10 to 13 %, cards and
    NVLink not counted, which the sheet has in the host."""
    for hosts, share in ((128, 0.099), (4096, 0.146)):
        design = cluster(hosts)
        fabric = sum(line.total for line in bill(design) if line.what != "hosts")
        assert fabric / capital_cost(design) == pytest.approx(share, abs=0.005)
        assert fabric / capital_cost(design) < 0.19


@pytest.mark.parametrize(("hours", "dollars"), [(2.664e6, 5.328e6), (0.119e6, 0.238e6), (0.005e6, 0.01e6),
                                               (2.788e6, 5.576e6)])
def test_deepseek_v3(hours: float, dollars: float) -> None:
    """Pre-training, context extension, post-training and all of it: GPU hours at 2 $ (arXiv 2412.19437, table 1)."""
    design = replace_all(cluster(256), {"cost": "deepseek_v3"})
    rent = rent_per_hour(design)
    assert rent == 2048 * 2.0
    assert hours / 2048 * rent == pytest.approx(dollars)
