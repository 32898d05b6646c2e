"""Published memory of training beside the footprint: error per figure, median, p90 and bias per source; and rows of
measured training steps that ran, each against the memory of its device.

usage: memory_rows.py [VALIDATION.csv]      (a file as `astrarium validate` reads it; without one only the first part)
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from _measure import median
from _memory_rows import Cell, korthikanti, simumax

from astrarium.errors import AstrariumError
from astrarium.validate.designs import candidates
from astrarium.validate.room import fits, fullest
from astrarium.validate.rows import read_rows

GIB = 2.0**30


def scored(name: str, cells: Sequence[Cell]) -> None:
    errors = [cell.error for cell in cells for _ in range(cell.times)]
    sizes = sorted(abs(error) for error in errors)
    p90 = sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]
    print(f"{name:<44} {len(errors):>3} figures: median {median(sizes):.2%}, p90 {p90:.2%}, "
          f"worst {sizes[-1]:.2%}, bias {sum(errors) / len(errors):+.2%}")


def printed(cells: Iterable[Cell]) -> list[Cell]:
    found = list(cells)
    for cell in found:
        print(f"  {cell.case:<78} {cell.published:8.2f} {cell.predicted:8.2f} GiB {cell.error:+7.2%}")
    return found


def rooms(path: str) -> None:
    """Rows that ran: how many fit by our footprint."""
    count, no = Counter[tuple[str, str]](), list[str]()
    for row in read_rows(path):
        try:
            meant = candidates(row)
            fitting = [each for each in meant if fits(each.design)]
            best = (fitting or meant)[0]
        except AstrariumError as error:
            count[row.source, "not predictable"] += 1
            no.append(f"  {row.case}: {error}")
            continue
        again = any(text.startswith("recompute") and "none" not in text for text in best.assumed)
        count[row.source, "fits" if fitting else "out of memory"] += 1
        count[row.source, "recomputation assumed"] += again
        if not fitting or again:
            no.append(f"  {row.case}: {fullest(best.design).total / GIB:.1f} GiB on {best.device}; "
                      + "; ".join(best.assumed))
    for source in dict.fromkeys(source for source, _ in count):
        print(f"{source:<44} " + ", ".join(f"{count[source, what]} {what}" for what in
                                           ("fits", "out of memory", "recomputation assumed", "not predictable")))
    print("\n".join(no))


def main(arguments: Sequence[str]) -> None:
    scored("Korthikanti et al., figure 1", printed(korthikanti()))
    scored("SimuMax v1.2, 43 rows on B200, by stage", printed(simumax()))
    plain = {"cross_entropy": "plain", "weight_gradients": "in_place", "overhead": "0 B"}
    scored("  the same with the defaults of training", list(simumax(**plain)))
    for path in arguments:
        rooms(path)


if __name__ == "__main__":
    main(sys.argv[1:])
