"""What a stream costs and draws, as the table and the notes that `astrarium serve` prints."""

from __future__ import annotations

from collections.abc import Iterator

from astrarium.cost.shares import SHOWN
from astrarium.market import Cost
from astrarium.report.tables.table import Table
from astrarium.serving.prices import Prices

__all__ = ["price_notes", "price_table"]

HEADS = {"per_mega_tokens": "of 10^6 output tokens", "per_mega_input_tokens": "of 10^6 input tokens",
         "per_request": "of a request"}


def price_table(prices: Prices) -> Iterator[Table]:
    """Money, energy and CO2 of tokens and requests, as far as they are known."""
    rows = [(name, *(SHOWN[name](each[key]) if key in each else "" for key in HEADS))
            for name, each in prices.amounts.items()]
    if rows:
        yield Table("money and energy (each column has all of it)", "<>>>", rows, ("", *HEADS.values()))


def price_notes(prices: Prices, stated: Cost) -> Iterator[str]:
    """What prices rest on; and why some are not known, of a design with a `cost` section."""
    if prices.assumed:
        yield "money and energy: " + "; ".join(prices.assumed)
    if stated != Cost():
        yield from prices.unknown.values()
