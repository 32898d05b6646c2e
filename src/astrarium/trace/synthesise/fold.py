"""Orders as programs: what repeats becomes a loop around a body, found over all examples, and back.

A program is a tuple of token numbers with OPEN ... CLOSE around every body; how often each loop runs is kept apart, in
the order of the CLOSEs. So a trace of 128 layers and one of 2 are the same few words with other counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["CLOSE", "END", "OPEN", "Folder", "Program", "bodies_of", "expand", "loops"]

I64 = npt.NDArray[np.int64]
END, OPEN, CLOSE = -1, -2, -3
FIRST = -10             # numbers of bodies and loops go down from here
Program = tuple[int, ...]
LONGEST = 4096          # symbols of a body; longer repeats stay as they are


def bodies_of(orders: Sequence[I64]) -> list[tuple[int, ...]]:
    """The bodies of all loops in the orders, as tokens, shortest first; each is written without loops inside."""
    found: set[tuple[int, ...]] = set()
    for order in orders:
        found |= set(_repeats(order))
    ordered = sorted(found, key=lambda body: (len(body), body))
    kept: list[tuple[int, ...]] = []
    for body in ordered:
        if not _rotation(body, kept):
            kept.append(body)
    return kept


def _rotation(body: tuple[int, ...], kept: Sequence[tuple[int, ...]]) -> bool:
    """Whether a body is another one, begun elsewhere, or repeats of a shorter one."""
    text = f",{','.join(map(str, body * 2))},"
    return any(len(body) % len(each) == 0 and f",{','.join(map(str, each * (len(body) // len(each))))}," in text
               for each in kept)


def _repeats(order: I64) -> Iterator[tuple[int, ...]]:
    """Bodies of tandem repeats, innermost first: each run found is replaced by one symbol before the next search."""
    symbols: dict[int, tuple[int, ...]] = {}
    number: dict[tuple[int, ...], int] = {}
    line, period = order.copy(), 1
    while period <= min(len(line) // 2, LONGEST):
        runs = _runs(line, period)
        if not runs:
            period += 1
            continue
        parts, at = [], 0
        for start, count in runs:
            body = tuple(t for s in line[start:start + period].tolist() for t in symbols.get(s, (s,)))
            if body not in number:
                number[body] = FIRST - len(number)
                symbols[number[body]] = body
                yield body
            parts += [line[at:start], np.array([number[body]], np.int64)]
            at = start + period * count
        line, period = np.concatenate([*parts, line[at:]]), 1


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
    """Turns orders into programs by a list of bodies, shortest first. A body stands for itself even where it comes
    once; a loop inside a loop must run equally often every time round, else the outer one is written out."""

    def __init__(self, bodies: Sequence[tuple[int, ...]]) -> None:
        self.bodies = bodies
        self.shapes: list[I64] = []                                   # body -> words: tokens, and bodies inside
        self.loops: dict[tuple[int, tuple[int, ...]], int] = {}       # (body, items inside) -> its number
        self.made: list[tuple[int, tuple[int, ...]]] = []
        for body in bodies:
            words, _ = self._replaced(np.array(body, np.int64))
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
        if starts.size:
            starts = starts[(words[starts[:, None] + np.arange(shape.size)] == shape).all(axis=1)]
        if not starts.size:
            return words, items
        parts, kinds, at = [], [], 0
        good = set(starts.tolist())
        for start in starts.tolist():
            if start < at:
                continue
            inside, count = items[start:start + shape.size], 1
            while start + count * shape.size in good and \
                    (items[start + count * shape.size:start + (count + 1) * shape.size] == inside).all():
                count += 1
            key = (count, tuple(inside.tolist()))
            if key not in self.loops:
                self.loops[key] = len(self.made)
                self.made.append(key)
            parts += [items[at:start], np.array([FIRST - self.loops[key]], np.int64)]
            kinds += [words[at:start], np.array([FIRST - number], np.int64)]
            at = start + count * shape.size
        return np.concatenate([*kinds, words[at:]]), np.concatenate([*parts, items[at:]])

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
