"""How often loops run: a law of the conditions for each place in a program, by what is before it there.

Most loops need no more than their body: a loop over layers runs layers / pp times wherever it is. Where the first or
last rounds of a loop differ (weights that are gathered ahead), the loop comes in parts, and the same body runs
elsewhere another number of times. So a body has one law where one holds, else laws by the symbols before, as many as it
takes for each law to hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from astrarium.trace.synthesise.fold import END, Program, loops
from astrarium.trace.synthesise.laws import Count, Form, fit_count, forms_of

__all__ = ["Counts", "Loop", "learn_loops", "loop_sites"]

F64 = npt.NDArray[np.float64]
Site = tuple[int, int, int]     # (example, where the loop opens in its program, rounds)
FEWEST = 8                      # examples that a law of its own needs


class Loop(msgspec.Struct, frozen=True):
    """How often a loop runs: by its body and the symbols before it (END: the start; none: wherever it is)."""

    body: list[int]
    before: list[int]
    count: Count


class Counts:
    """Laws of loops, to be looked up: of those that fit a place the one with the longest context."""

    def __init__(self, laws: Sequence[Loop]) -> None:
        self.laws: dict[Program, dict[Program, Count]] = defaultdict(dict)
        for each in laws:
            self.laws[tuple(each.body)][tuple(each.before)] = each.count
        self.lengths = {body: sorted({len(before) for before in found}, reverse=True)
                        for body, found in self.laws.items()}

    def at(self, program: Program, opened: int, body: Program) -> Count | None:
        """The law of the loop that opens there; None where none is known."""
        before = _prefix(program, opened)
        for length in self.lengths.get(body, ()):
            law = self.laws[body].get(_end(before, length))
            if law is not None:
                return law
        return None


def loop_sites(program: Program) -> Iterator[tuple[int, Program]]:
    """(position of the OPEN, body) of every loop, in the order of the CLOSEs."""
    for at, body in sorted(loops(program).items()):
        yield at - len(body) - 1, body


def learn_loops(programs: Sequence[tuple[Program, list[int]]], x: F64) -> list[Loop]:
    """Laws of all loops; x [programs, conditions]."""
    found: dict[Program, list[Site]] = defaultdict(list)
    for row, (program, counts) in enumerate(programs):
        for (opened, body), count in zip(loop_sites(program), counts, strict=True):
            found[body].append((row, opened, count))
    forms, prefixes = forms_of(x), {}
    for row, (program, _) in enumerate(programs):
        prefixes[row] = program
    return [law for body, sites in found.items() for law in _laws(body, sites, prefixes, x, forms)]


def _laws(body: Program, sites: Sequence[Site], programs: Mapping[int, Program], x: F64,
          forms: Sequence[Form]) -> Iterator[Loop]:
    """Of one body: a law for all of its sites, then laws for those of them for which it does not hold."""
    held: list[tuple[int, Count]] = []      # laws that hold, with the number of examples that say so
    todo: list[tuple[Program, list[Site]]] = [((), list(sites))]
    while todo:
        later: list[tuple[Program, list[Site]]] = []
        for context, mine in todo:
            law, holds = _law(mine, held, x, forms)
            yield Loop(list(body), list(context), law)
            if holds:
                held.append((len({row for row, _, _ in mine}), law))
            else:
                later += _longer(context, mine, programs)
        todo = later


def _law(sites: Sequence[Site], held: Sequence[tuple[int, Count]], x: F64, forms: Sequence[Form]) -> tuple[Count, bool]:
    """The law of some sites, and whether it holds for all. Of few examples, one that holds elsewhere goes first."""
    rows = np.array([row for row, _, _ in sites], np.int64)
    rounds = np.array([count for _, _, count in sites], np.int64)
    every, where = np.unique(rows, return_inverse=True)
    if every.size < FEWEST:
        for _, law in sorted(held, key=lambda each: -each[0]):
            if (law.at(x[rows]) == rounds).all():
                return law, True
    middle = np.array([float(np.median(rounds[where == at])) for at in range(every.size)])
    law = fit_count(x[every], middle, forms)
    return law, bool((law.at(x[rows]) == rounds).all())


def _longer(context: Program, sites: Sequence[Site], programs: Mapping[int, Program]) -> list[tuple[Program, list[Site]]]:
    """Sites by a context half as long again, and more where that tells none apart; none where all are before them."""
    length = len(context)
    whole = {site: _prefix(programs[site[0]], site[1]) for site in sites}
    longest = max(map(len, whole.values()))
    while length < longest:
        length = min(longest, length + 1 + length // 2)
        parts: dict[Program, list[Site]] = defaultdict(list)
        for site in sites:
            parts[_end(whole[site], length)].append(site)
        if len(parts) > 1:
            return list(parts.items())
    return []


def _prefix(program: Program, opened: int) -> Program:
    return (END, *program[:opened])


def _end(before: Program, length: int) -> Program:
    return before[max(0, len(before) - length):]
