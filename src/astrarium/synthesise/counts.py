"""How often loops run: a law of the conditions for each place in a program, by what is around it there.

Most loops need no more than their body: a loop over layers runs layers / pp times wherever it is. Where the first or
last rounds of a loop differ (weights that are gathered ahead), the loop comes in parts, and the same body runs
elsewhere another number of times. So a body has one law where one holds, else laws by the symbols before and after it,
as many as it takes for each law to hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.synthesise.fold import END, Program, loops
from astrarium.synthesise.laws import Count, Form, fit_count, forms_of

__all__ = ["Counts", "Loop", "learn_loops", "loop_sites"]

Around = tuple[Program, Program]    # symbols before a loop and after it
Site = tuple[int, int, int]         # (example, where the loop opens in its program, rounds)
FEWEST = 8                          # examples for each further form of a law


class Loop(msgspec.Struct, frozen=True):
    """How often a loop runs: by its body and as many symbols before and after it (END: none; both empty: wherever it
    is)."""

    body: list[int]
    before: list[int]
    after: list[int]
    count: Count


class Counts:
    """Laws of loops, to be looked up: of those that fit a place the one with the longest context."""

    def __init__(self, laws: Sequence[Loop]) -> None:
        self.laws: dict[Program, dict[Around, Count]] = defaultdict(dict)
        for each in laws:
            self.laws[tuple(each.body)][tuple(each.before), tuple(each.after)] = each.count
        self.lengths = {body: sorted({max(map(len, around)) for around in found}, reverse=True)
                        for body, found in self.laws.items()}

    def at(self, program: Program, opened: int, body: Program) -> Count | None:
        """The law of the loop that opens there; None where none is known."""
        for length in self.lengths.get(body, ()):
            law = self.laws[body].get(_around(program, opened, len(body), length))
            if law is not None:
                return law
        return None


def loop_sites(program: Program) -> Iterator[tuple[int, Program]]:
    """(position of the OPEN, body) of every loop, in the order of the CLOSEs."""
    for at, body in sorted(loops(program).items()):
        yield at - len(body) - 1, body


class _Group(Struct, frozen=True, eq=False):
    """Sites of one body that have the same symbols around them."""

    body: Program
    around: Around
    sites: Sequence[Site]

    @property
    def examples(self) -> int:
        """How many there are."""
        return len({row for row, _, _ in self.sites})


class _Held(Struct, frozen=True):
    """A law that holds for all sites of a group: names in its body, and how many examples say so."""

    names: frozenset[str]
    examples: int
    law: Count


def learn_loops(programs: Sequence[tuple[Program, list[int]]], names: Sequence[str], x: F64) -> list[Loop]:
    """Laws of all loops; `names` [tokens], x [programs, conditions]. For each body a law for all of its sites, and
    where that does not hold further ones; those first of which there are more examples."""
    found: dict[Program, list[Site]] = defaultdict(list)
    for row, (program, counts) in enumerate(programs):
        for (opened, body), count in zip(loop_sites(program), counts, strict=True):
            found[body].append((row, opened, count))
    forms, held, out = forms_of(x), list[_Held](), list[Loop]()
    todo = [_Group(body, ((), ()), sites) for body, sites in found.items()]
    while todo:
        later: list[_Group] = []
        for group in sorted(todo, key=lambda each: -each.examples):
            known = frozenset(names[symbol] for symbol in group.body if symbol >= 0)
            law, holds = _law(group, known, held, x, forms)
            out.append(Loop(list(group.body), list(group.around[0]), list(group.around[1]), law))
            if holds:
                held.append(_Held(known, group.examples, law))
            else:
                later += _longer(group, programs)
        todo = later
    return out


def _law(group: _Group, names: frozenset[str], held: Sequence[_Held], x: F64,
         forms: Sequence[Form]) -> tuple[Count, bool]:
    """The law of a group, and whether it holds for all of its sites. Many may hold for few sites: first come those that
    hold elsewhere, of the bodies that are most alike."""
    rows = np.array([row for row, _, _ in group.sites], np.int64)
    rounds = np.array([count for _, _, count in group.sites], np.int64)
    for each in sorted(held, key=lambda each: (-_alike(each.names, names), -each.examples)):
        if (each.law.at(x[rows]) == rounds).all():
            return each.law, True
    every, where = np.unique(rows, return_inverse=True)
    middle = np.array([float(np.median(rounds[where == at])) for at in range(every.size)])
    law = fit_count(x[every], middle, forms)
    enough = len(law.form) < 2 or every.size >= FEWEST * len(law.form)
    return law, enough and bool((law.at(x[rows]) == rounds).all())


def _alike(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of names that both have (Jaccard)."""
    return len(one & other) / max(1, len(one | other))


def _longer(group: _Group, programs: Sequence[tuple[Program, list[int]]]) -> list[_Group]:
    """The group by contexts half as long again, and more where these tell none apart; none where none do."""
    length = max(map(len, group.around))
    longest = max(len(programs[row][0]) for row, _, _ in group.sites)
    while length < longest:
        length = min(longest, length + 1 + length // 2)
        parts: dict[Around, list[Site]] = defaultdict(list)
        for site in group.sites:
            parts[_around(programs[site[0]][0], site[1], len(group.body), length)].append(site)
        if len(parts) > 1:
            return [_Group(group.body, around, sites) for around, sites in parts.items()]
    return []


def _around(program: Program, opened: int, size: int, length: int) -> Around:
    """`length` symbols before and after a loop, and its body of `size` symbols; END where the program begins and
    ends."""
    before, after = opened - length, opened + size + 2 + length
    return ((END,) * -before + program[max(0, before):opened],
            program[opened + size + 2:after] + (END,) * (after - len(program)))
