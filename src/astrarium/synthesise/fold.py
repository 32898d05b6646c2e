"""Orders as programs: what repeats becomes a loop around a body, found over all examples, and back.

A program is a tuple of token numbers with OPEN ... CLOSE around every body; how often each loop runs is kept apart, in
the order of the CLOSEs. So a trace of 128 layers and one of 2 are the same few words with other counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from astrarium.arrays import I64
from astrarium.errors import InputError

__all__ = ["CLOSE", "END", "OPEN", "Folder", "Program", "bodies_of", "expand", "loops"]

END, OPEN, CLOSE = -1, -2, -3
FIRST = -10             # numbers of bodies and loops go down from here
Program = tuple[int, ...]
LONGEST = 4096          # symbols of a body; longer repeats stay as they are
MOST_BODIES = 1 << 12
MOST_SYMBOLS = 1 << 18  # of an order without its loops
ALL = 1 << 12           # symbols up to which every period is looked at in full
MIX = np.int64(0x2545F4914F6CDD1D)


def bodies_of(orders: Sequence[I64]) -> list[tuple[int, ...]]:
    """The bodies of all loops in the orders, as tokens, shortest first; loops inside are written as two rounds.

    InputError for more than MOST_BODIES, and for an order of which more than MOST_SYMBOLS are left once its loops are
    taken out: a model of it would be a copy.
    """
    found: set[tuple[int, ...]] = set()
    for order in orders:
        found |= set(_repeats(order))
        if len(found) > MOST_BODIES:
            raise InputError("synthesise", f"more than {MOST_BODIES:,} different stretches of nodes that repeat",
                             expected="traces in which a few do: layers, micro-batches, steps")
    kept: list[tuple[int, ...]] = []
    sizes: dict[tuple[int, ...], list[int]] = {}        # what a body repeats, begun at its least -> sizes of those kept
    for body in sorted(found, key=lambda body: (len(body), body)):
        known = sizes.setdefault(_least(body), [])
        if not any(len(body) % size == 0 for size in known):
            known.append(len(body))
            kept.append(body)
    return kept


def _least(body: tuple[int, ...]) -> tuple[int, ...]:
    """The shortest part that a body repeats, begun where that is least: equal for bodies begun elsewhere."""
    size = len(body)
    ahead = [0] * size                  # the longest border of every beginning (Knuth, Morris, Pratt)
    for at in range(1, size):
        far = ahead[at - 1]
        while far and body[at] != body[far]:
            far = ahead[far - 1]
        ahead[at] = far + (body[at] == body[far])
    part = size - ahead[-1]
    line = body[:part if size % part == 0 else size] * 2
    size = len(line) // 2
    first, other, same = 0, 1, 0        # two beginnings, compared so far (Shiloach, J. Algorithms 2, 1981)
    while first < size and other < size and same < size:
        one, two = line[(first + same) % size], line[(other + same) % size]
        if one == two:
            same += 1
            continue
        if one > two:
            first += same + 1
        else:
            other += same + 1
        other += first == other
        same = 0
    begin = min(first, other)
    return line[begin:begin + size]


def _repeats(order: I64) -> Iterator[tuple[int, ...]]:
    """Bodies of tandem repeats, innermost first: each run found is replaced by one symbol before the next search."""
    symbols: dict[int, tuple[int, ...]] = {}
    number: dict[tuple[int, ...], int] = {}
    line = order.copy()
    while runs := _shortest(line):
        period, found = runs
        kinds, at = [], []
        for start, _ in found:
            body = tuple(t for s in line[start:start + period].tolist() for t in symbols.get(s, (s,)))
            if body not in number:
                number[body] = FIRST - len(number)
                symbols[number[body]] = body * 2        # a loop inside that begins elsewhere in its body is there too
                yield body
            kinds.append(number[body])
            at.append(start)
        line = _shortened(line, np.array(at), period * np.array([count for _, count in found]), np.array(kinds))
    if line.size > MOST_SYMBOLS:
        raise InputError("synthesise", f"of {order.size:,} nodes in order {line.size:,} are left once what repeats is "
                         "taken out", expected=f"at most {MOST_SYMBOLS:,}; a model of more would be a copy")


def _shortened(line: I64, starts: I64, sizes: I64, symbols: I64) -> I64:
    """A line with one symbol in place of each of some stretches, which are in order and apart."""
    out = line.copy()
    out[starts] = symbols
    edge = np.zeros(line.size + 1, np.int8)
    edge[starts + 1] += 1
    edge[starts + sizes] -= 1
    kept: I64 = out[np.cumsum(edge[:-1], dtype=np.int8) == 0]
    return kept


def _shortest(line: I64) -> tuple[int, list[tuple[int, int]]] | None:
    """The shortest period that repeats somewhere, and its runs (see `_runs`); None where none does."""
    longest = min(line.size // 2, LONGEST)
    window, code = 1, line
    for period in range(1, longest + 1):
        while line.size > ALL and period >= 4 * window:
            code = code[:-window] * MIX + code[window:]     # of twice as many symbols; it may be the same by chance
            window *= 2
        if window == 1 or _may_repeat(code, window, period):
            runs = _runs(line, period)
            if runs:
                return period, runs
    return None


def _may_repeat(code: I64, window: int, period: int) -> bool:
    """Whether a stretch of `period` symbols may come twice in a row. Among as many beginnings of windows as fit into
    it is one of every `period - window + 1`: those are compared with what comes a period later, not all."""
    step = period - window + 1
    return bool((code[:-period:step] == code[period::step]).any())


def _runs(line: I64, period: int) -> list[tuple[int, int]]:
    """(start, count) of stretches that are `count` >= 2 times what their first `period` symbols are."""
    same = np.concatenate([[False], line[:-period] == line[period:], [False]])
    edges = np.flatnonzero(same[1:] != same[:-1])
    out, free = [], 0
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        begin = max(start, free)
        count = (end - begin) // period + 1
        if count >= 2:
            out.append((begin, count))
            free = begin + count * period
    return out


class Folder:
    """Turns orders into programs by a list of bodies, shortest first. A body is listed even if it occurs
    once; a loop inside a loop must run equally often every time round, else the outer one is written out."""

    def __init__(self, bodies: Sequence[tuple[int, ...]]) -> None:
        self.bodies = bodies
        self.shapes: list[I64] = []                                   # body -> words: tokens, and bodies inside
        self.loops: dict[tuple[int, tuple[int, ...]], int] = {}       # (body, items inside) -> its number
        self.made: list[tuple[int, tuple[int, ...]]] = []
        for body in bodies:
            words, _ = self._replaced(np.array(body, np.int64))
            if words.size > 1 or words[0] > FIRST:      # else it is a loop already
                self.shapes.append(words)

    def fold(self, order: I64) -> tuple[Program, list[int]]:
        """The program of an order, and how often each of its loops runs."""
        _, items = self._replaced(order)
        out: list[int] = []
        counts: list[int] = []
        self._write(items.tolist(), out, counts)
        return tuple(out), counts

    def _replaced(self, order: I64) -> tuple[I64, I64]:
        """Words and items of an order. A word is a token, or FIRST - number of a body; an item is a token, or FIRST -
        number of a loop, twice: what is in one round, and how many rounds."""
        words, items = order, order
        for number, shape in enumerate(self.shapes):
            if shape.size <= words.size:
                words, items = self._one(words, items, number, shape)
        return words, items

    def _one(self, words: I64, items: I64, number: int, shape: I64) -> tuple[I64, I64]:
        starts = np.flatnonzero(words[:words.size - shape.size + 1] == shape[0])
        for at in range(1, shape.size):
            if not starts.size:
                break
            starts = starts[words[starts + at] == shape[at]]
        if not starts.size:
            return words, items
        counts = _rounds(items, starts, shape.size)
        listed, left = starts.tolist(), counts.tolist()
        runs, place = [], 0
        while place < len(listed):
            runs.append(place)
            place = bisect_left(listed, listed[place] + left[place] * shape.size, place + 1)
        begin, rounds = starts[runs], counts[runs]
        kinds = np.array([self._loop(int(count), items[start:start + shape.size])
                          for start, count in zip(begin.tolist(), rounds.tolist(), strict=True)], np.int64)
        sizes = rounds * shape.size
        return (_shortened(words, begin, sizes, np.full(begin.size, FIRST - number)),
                _shortened(items, begin, sizes, FIRST - kinds))

    def _loop(self, count: int, inside: I64) -> int:
        """The number of a loop."""
        key = (count, tuple(inside.tolist()))
        if key not in self.loops:
            self.loops[key] = len(self.made)
            self.made.append(key)
        return self.loops[key]

    def _write(self, items: Sequence[int], out: list[int], counts: list[int]) -> None:
        for item in items:
            if item > FIRST:
                out.append(item)
                continue
            count, inside = self.made[FIRST - item]
            out.append(OPEN)
            self._write(inside, out, counts)
            out.append(CLOSE)
            counts.append(count)


def _rounds(items: I64, starts: I64, size: int) -> I64:
    """[starts] how often the `size` items at each come one after the other, at places that are starts too."""
    after = np.searchsorted(starts, starts + size)
    follows = np.append(starts, -1)[after] == starts + size
    for at in range(size):
        mine = np.flatnonzero(follows)
        follows[mine] = items[starts[mine] + at] == items[starts[mine] + size + at]
    row = np.lexsort((starts, starts % size))       # starts that may follow each other are neighbours
    ends = np.flatnonzero(~follows[row])
    counts = np.empty(starts.size, np.int64)
    counts[row] = ends[np.searchsorted(ends, np.arange(row.size))] - np.arange(row.size) + 1
    return counts


def expand(program: Program, counts: Sequence[int], most: int) -> I64:
    """[nodes] tokens of a program; ValueError where they would be more than `most`, or brackets do not match."""
    stack: list[list[I64]] = [[]]
    sizes = [0]
    left = iter(counts)
    for symbol in program:
        if symbol == OPEN:
            stack.append([])
            sizes.append(0)
            continue
        if symbol == CLOSE:
            if len(stack) < 2:
                raise ValueError("a loop ends that has not begun")
            body, count, size = stack.pop(), next(left), sizes.pop()
            part = np.concatenate(body) if body else np.zeros(0, np.int64)
            if size * count + sizes[-1] > most:
                raise ValueError(f"more than {most:,} nodes")
            part = np.tile(part, count)
        else:
            part = np.array([symbol], np.int64)
        stack[-1].append(part)
        sizes[-1] += part.size
    if len(stack) != 1:
        raise ValueError("a loop does not end")
    return np.concatenate(stack[0]) if stack[0] else np.zeros(0, np.int64)


def loops(program: Program) -> Mapping[int, Program]:
    """Position of each CLOSE -> its body, without the brackets around it."""
    open_at: list[int] = []
    found = {}
    for at, symbol in enumerate(program):
        if symbol == OPEN:
            open_at.append(at)
        elif symbol == CLOSE:
            found[at] = program[open_at.pop() + 1:at]
    return found
