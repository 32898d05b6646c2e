"""Which rows the stack constants were fitted on: those that cannot judge them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from astrarium import catalog
from astrarium.validate.collectives import fitted_collectives
from astrarium.validate.kernel_times import fitted_kernels
from astrarium.validate.micro_times import fitted_micro
from astrarium.validate.rows import Row
from astrarium.validate.serving.silicon import judges

__all__ = ["fitted_on", "halves"]


def halves(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """(rows to fit on, rows that judge): within every source the 1st, 3rd, ... are fitted, the 2nd, 4th, ... judge."""
    seen: dict[str, int] = {}
    found: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        number = seen.get(row.source, 0)
        found[number % 2].append(row)
        seen[row.source] = number + 1
    return found


def fitted_on(rows: Iterable[Row]) -> list[bool]:
    """Whether each row is one on which a stack, a fabric's collectives, a device's kernels or a GPU of the catalog were
    fitted (of the silicon table: may have been)."""
    known = {(source, case) for sources in catalog.load("fitted").values()
             for source, cases in sources.items() for case in cases}
    every = list(rows)
    parts = zip(every, fitted_collectives(every), fitted_kernels(every), fitted_micro(every), strict=True)
    return [(row.source, row.case) in known or any(others) or (row.kind == "silicon" and not judges(row))
            for row, *others in parts]
