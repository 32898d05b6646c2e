"""A stream of requests as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import I64
from astrarium.config import Config
from astrarium.config.spec import Variants
from astrarium.errors import InputError
from astrarium.registry import Kind

__all__ = ["LONGEST", "MOST", "PS", "Arrivals", "Prefixes", "Requests", "Turns", "busiest", "requests_of"]

PS = 10**12
MOST = 1_000_000            # requests
LONGEST = 10_000_000        # tokens of one request
MOST_TOKENS = 1_000_000_000
OPEN = 2**62


class Prefixes(Struct, frozen=True, eq=False):
    """What prompts have in common: request i begins with the segments `start[i]` to `start[i + 1]`, each with a `key`
    (equal keys: equal tokens up to there) and its `end` in tokens."""

    start: I64
    key: I64
    end: I64


class Turns(Struct, frozen=True, eq=False):
    """Conversations: the request that is the `next` turn of each (-1: none), which comes `think` ps after the answer;
    the `session` of each: its prompt begins with the prompt and the answer of the turn before."""

    next: I64
    think: I64
    session: I64


class Requests(Struct, frozen=True, eq=False):
    """Arrival in ps (ascending but for later turns, which come by themselves), tokens of the prompt, tokens to generate
    [requests].

    `concurrency`: of a closed loop; then `arrival` is 0, and a request (or conversation) begins when one has ended.
    `priority`: smaller ones first. `group` (into `groups`) of each, for which hits of the cache are counted. `notes`:
    what of a file was left out.
    """

    arrival: I64
    prompt: I64
    output: I64
    concurrency: int | None = None
    priority: I64 | None = None
    prefixes: Prefixes | None = None
    turns: Turns | None = None
    group: I64 | None = None
    groups: Sequence[str] = ()
    notes: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.arrival)

    def segments(self, number: int) -> tuple[list[tuple[int, int]], bool]:
        """Segments of a request (key, end in tokens), the last one open, and whether it has any but that."""
        found: list[tuple[int, int]] = []
        if self.prefixes is not None:
            place = slice(int(self.prefixes.start[number]), int(self.prefixes.start[number + 1]))
            found = list(zip(self.prefixes.key[place].tolist(), self.prefixes.end[place].tolist(), strict=True))
        own = -1 - (number if self.turns is None else int(self.turns.session[number]))
        found.append((own, OPEN))
        return found, len(found) > 1

    def priority_of(self, number: int) -> int:
        """Priority of a request."""
        return 0 if self.priority is None else int(self.priority[number])

    def next_turn(self, number: int) -> tuple[int, int] | None:
        """The request that follows a request's answer, and after how many ps."""
        if self.turns is None or self.turns.next[number] < 0:
            return None
        return int(self.turns.next[number]), int(self.turns.think[number])

    def roots(self) -> list[int]:
        """Requests that follow no answer, in order of arrival."""
        first = np.ones(len(self), np.bool_)
        if self.turns is not None:
            first[self.turns.next[self.turns.next >= 0]] = False
        found = np.flatnonzero(first)
        ordered: list[int] = found[np.argsort(self.arrival[found], kind="stable")].tolist()
        return ordered


class Arrivals(Config, frozen=True):
    """A stream of requests: a concrete class has a method `requests` (`Stream`)."""

    variants: ClassVar[Variants | None] = Kind("arrivals")
    tag_key: ClassVar[str] = "kind"


@runtime_checkable
class Stream(Protocol):
    """Whatever gives requests."""

    def requests(self) -> Requests:
        """The requests. Raises InputError for a file that cannot be read."""
        ...


def requests_of(arrivals: Arrivals) -> Requests:
    """The stream. Raises InputError for a file that cannot be read, and for more than MOST_TOKENS to generate."""
    if not isinstance(arrivals, Stream):
        raise InputError("requests", f"{type(arrivals).__name__} has no method `requests`", expected="a stream")
    found = arrivals.requests()
    total = int(found.output.sum())
    if total > MOST_TOKENS:
        raise InputError("requests", f"{total:,} tokens to generate", expected=f"at most {MOST_TOKENS:,}")
    if int(found.prompt.max()) >= LONGEST:
        raise InputError("requests", f"a prompt of {int(found.prompt.max()):,} tokens", expected=f"below {LONGEST:,}")
    return found


def busiest(requests: Requests, count: int) -> Requests:
    """The `count` successive requests that come in the shortest time; all of them where there are fewer, or
    conversations."""
    total = len(requests)
    if total <= count or requests.turns is not None or requests.concurrency is not None:
        return requests
    start = int(np.argmin(requests.arrival[count - 1:] - requests.arrival[:total - count + 1]))
    part, prefixes = slice(start, start + count), requests.prefixes
    if prefixes is not None:
        inside = slice(int(prefixes.start[start]), int(prefixes.start[start + count]))
        prefixes = Prefixes(prefixes.start[start:start + count + 1] - inside.start, prefixes.key[inside],
                            prefixes.end[inside])
    chosen = {name: None if getattr(requests, name) is None else getattr(requests, name)[part]
              for name in ("priority", "group")}
    return replace(requests, arrival=requests.arrival[part] - requests.arrival[start], prompt=requests.prompt[part],
                   output=requests.output[part], prefixes=prefixes, **chosen)
