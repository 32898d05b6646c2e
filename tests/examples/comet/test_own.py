"""The report of a book of one's own clusters: who is fastest, for what money, within a budget."""

from __future__ import annotations

from pathlib import Path

import pytest
from comet import Lab, bought, terms_of
from own import own_report
from tests.examples.comet.book import TEXT, book

from astrarium.errors import InputError

MINE = TEXT[:TEXT.index("published:")] + """
money:
  budget: {value: 90 k$, mark: A, source: ours}
  lifetime: {value: 2 years, mark: A, source: ours}
"""
OFFER = "    price: {{value: {} k$, mark: A, source: an offer}}\n"
PRICED = MINE.replace("    title: first\n", "    title: first\n" + OFFER.format(20)) \
    .replace("    peak: {value: 200", OFFER.format(11) + "    peak: {value: 200")


def test_the_report_has_every_cluster_and_its_money(tmp_path: Path) -> None:
    lab = Lab(book(tmp_path, PRICED))
    text, drawn = own_report(lab)
    assert set(drawn) == {"small"}
    rows = {line.split(" | ")[0].lstrip("| "): line.split(" | ") for line in text.splitlines() if line.startswith("| ")}
    assert {"A0", "A1", "B0"} <= set(rows)
    point = lab.best(lab.case("small"), lab.cluster("B0"))
    assert point is not None
    dollars = 8 * 11e3 * point.seconds / (2 * 8760 * 3600)
    assert f"$88,000 | ${dollars:,.4g} |" in text
    assert "clusters.B0.price" in text      # with its source, as every number


def test_a_budget_buys_the_fastest_that_it_pays_for(tmp_path: Path) -> None:
    lab = Lab(book(tmp_path, PRICED))
    case = lab.case("small")
    four = bought(lab, "small", "A1", 90e3)
    assert (four.most, four.price) == (4, 80e3)
    assert four.point is not None
    assert four.point.nodes == 4
    assert four.point.seconds == min(lab.point(case, lab.cluster("A1"), split, nodes=4).seconds for split in (4, 2, 1))
    assert bought(lab, "small", "B0", 90e3).price == 88e3      # all eight
    assert bought(lab, "small", "A0", 19e3).point is None


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"clusters.A0.price: is missing; expected US dollars of a node"):
        bought(Lab(book(tmp_path, MINE)), "small", "A0", 90e3)
    with pytest.raises(InputError, match=r"money.budget: '90' is a number without a unit"):
        terms_of(Lab(book(tmp_path, PRICED.replace("90 k$", "'90'"))))
    with pytest.raises(InputError, match=r"money.bugdet: unknown key; expected money.budget or money.lifetime"):
        terms_of(Lab(book(tmp_path, PRICED.replace("budget:", "bugdet:"))))
