"""Streams that were recorded: Mooncake's traces, JSON lines, ShareGPT's conversations (`table`: CSV)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Struct, field

from astrarium.arrays import I64
from astrarium.config import Knob
from astrarium.errors import InputError, nearest
from astrarium.serving.requests.files import json_lines, read_text, seconds, whole
from astrarium.serving.requests.stream import LONGEST, MOST, PS, Arrivals, Prefixes, Requests, Turns

__all__ = ["JsonLines", "Mooncake", "Recorded", "Rows", "ShareGpt"]

HASH_BLOCK = 512        # tokens of one hash of Mooncake's traces
KEYS = ("arrival", "prompt", "output", "priority", "session", "think", "group", "prefix", "hashes", "hash_block")


class Rows(Struct):
    """Requests as they are read: columns of time (s), prompt, output, and (key, end) segments of each."""

    time: array[float] = field(default_factory=lambda: array("d"))
    prompt: array[int] = field(default_factory=lambda: array("q"))
    output: array[int] = field(default_factory=lambda: array("q"))
    start: array[int] = field(default_factory=lambda: array("q", [0]))
    key: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))

    def add(self, time: float, prompt: int, output: int, segments: Iterable[tuple[int, int]] = ()) -> None:
        """One more request."""
        if len(self.prompt) >= MOST:
            raise InputError("requests", f"more than {MOST:,} requests", expected="fewer, or first:")
        self.time.append(time)
        self.prompt.append(prompt)
        self.output.append(output)
        for key, end in segments:
            self.key.append(key)
            self.end.append(end)
        self.start.append(len(self.key))

    def requests(self, of: Recorded, priority: I64 | None = None, group: I64 | None = None,
                 notes: Sequence[str] = ()) -> Requests:
        """The stream in order of arrival, the first one at 0; `priority` and `group` are in the order of the file."""
        path, speed = of.path, of.speed
        if not self.prompt:
            raise InputError(path, "has no requests", expected="at least one row")
        if of.first is not None and len(self.prompt) < of.first:
            notes = [*notes, f"{path}: has {len(self.prompt):,} requests, fewer than first: {of.first:,}"]
        time = np.array(self.time)
        order = np.argsort(time, kind="stable")
        arrival = np.rint((time[order] - time[order[0]]) / speed * PS)
        if arrival[-1] > 2**62:
            raise InputError(path, f"{(time.max() - time.min()) / speed:g} s from first to last",
                             expected="at most 53 days")
        start, key, end = (np.array(each, np.int64) for each in (self.start, self.key, self.end))
        sizes = np.diff(start)[order]
        place = np.repeat(start[:-1][order] - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(key))
        prefixes = Prefixes(np.concatenate(([0], np.cumsum(sizes))), key[place], end[place]) if len(key) else None
        return Requests(arrival.astype(np.int64), np.array(self.prompt, np.int64)[order],
                        np.array(self.output, np.int64)[order], prefixes=prefixes,
                        priority=None if priority is None else priority[order],
                        group=None if group is None else group[order], notes=tuple(notes))


class Recorded(Arrivals, frozen=True, kw_only=True):
    """A file of requests."""

    path: Annotated[str, Knob("The file.", file=True)]
    first: Annotated[int | None, Knob("Number of requests to take from the start of the file; left out: "
                                      "all.", ge=1)] = None
    speed: Annotated[float, Knob("How many times faster than recorded requests arrive.", gt=0, lt=1e6)] = 1.0


class Mooncake(Recorded, frozen=True, kw_only=True):
    """Mooncake's traces (arXiv 2407.00079): a JSON object a line with timestamp (ms), input_length, output_length and
    hash_ids, one for each 512 tokens of the prompt; equal ids, equal prefixes."""

    tag: ClassVar[str] = "mooncake"

    def requests(self) -> Requests:
        """The requests."""
        rows = Rows()
        for where, given in json_lines(self.path):
            if self.first is not None and len(rows.prompt) >= self.first:
                break
            _known(given, ("timestamp", "input_length", "output_length", "hash_ids"), where)
            prompt = whole(given["input_length"], f"{where}, input_length", 1, LONGEST)
            output = whole(given["output_length"], f"{where}, output_length", 1, LONGEST)
            time = seconds(given["timestamp"], f"{where}, timestamp") / 1000
            rows.add(time, prompt, output, _hashed(given["hash_ids"], prompt, HASH_BLOCK, f"{where}, hash_ids"))
        return rows.requests(self)


def _known(given: Mapping[str, Any], keys: Sequence[str], where: str, needed: int | None = None) -> None:
    for name in keys[:needed]:
        if name not in given:
            raise InputError(where, f"{name} is missing", expected=", ".join(keys[:needed]))
    for name in given:
        if name not in keys:
            raise InputError(where, f"unknown key {name[:40]!r}", expected="one of " + ", ".join(keys),
                             did_you_mean=nearest(name, keys))


def _hashed(hashes: object, prompt: int, block: int, where: str) -> Iterator[tuple[int, int]]:
    """Segments of hashes of `block` tokens each."""
    if not isinstance(hashes, list):
        raise InputError(where, f"{str(hashes)[:40]!r} is no list", expected="a list of whole numbers")
    if len(hashes) > -(-prompt // block):
        raise InputError(where, f"{len(hashes)} hashes", expected=f"at most {-(-prompt // block)}: one for each "
                         f"{block} of {prompt} tokens")
    for place, each in enumerate(hashes):
        yield whole(each, f"{where}[{place}]", 0, 2**62), min((place + 1) * block, prompt)


class JsonLines(Recorded, frozen=True, kw_only=True):
    """A JSON object a line: arrival (s), prompt, output (tokens); and as wished priority (smaller first), group and
    prefix (a name, and how many tokens of the prompt all requests of that name begin with), hashes and hash_block
    (whole numbers, one for each hash_block tokens of the prompt, 16 if left out), session and think (a name, and
    seconds from the answer before to this turn, in place of arrival; its prompt begins with all that was said)."""

    tag: ClassVar[str] = "jsonl"

    def requests(self) -> Requests:
        """The requests."""
        rows, more = Rows(), _More()
        for where, given in json_lines(self.path):
            if self.first is not None and len(rows.prompt) >= self.first:
                break
            _known(given, KEYS, where, 0)
            prompt, output = (whole(given.get(name), f"{where}, {name}", 1, LONGEST) for name in ("prompt", "output"))
            segments = more.segments(given, prompt, where)
            rows.add(more.time(given, where, len(rows.prompt), rows), prompt, output, segments)
            more.priority.append(whole(given.get("priority", 0), f"{where}, priority", -2**31, 2**31))
        return more.requests(rows, self)


class _More(Struct):
    """What requests of JSON lines have beside times and lengths."""

    priority: list[int] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    groups: dict[str, int] = field(default_factory=dict)
    keys: dict[object, int] = field(default_factory=dict)
    sessions: dict[str, int] = field(default_factory=dict)      # name -> its last request
    session: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    think: list[int] = field(default_factory=list)

    def segments(self, given: Mapping[str, Any], prompt: int, where: str) -> list[tuple[int, int]]:
        """What the prompt shares."""
        name, found = given.get("group"), []
        self.group.append(-1 if name is None else self.groups.setdefault(_name(name, f"{where}, group"),
                                                                         len(self.groups)))
        if "prefix" in given:
            if name is None:
                raise InputError(f"{where}, prefix", "belongs to no group", expected="group: a name")
            length = whole(given["prefix"], f"{where}, prefix", 0, prompt + 1)
            if length:
                found.append((self.keys.setdefault(("group", name), len(self.keys)), length))
        if "hash_block" in given and "hashes" not in given:
            raise InputError(f"{where}, hash_block", "has no effect without hashes",
                             expected="hashes, or no hash_block")
        if "hashes" in given:
            if found:
                raise InputError(f"{where}, hashes", "have no effect together with prefix", expected="one of the two")
            block = whole(given.get("hash_block", 16), f"{where}, hash_block", 1, LONGEST)
            found += [(self.keys.setdefault(("hash", block, key), len(self.keys)), end)
                      for key, end in _hashed(given["hashes"], prompt, block, f"{where}, hashes")]
        return found

    def time(self, given: Mapping[str, Any], where: str, number: int, rows: Rows) -> float:
        """When it arrives: in seconds, or after the turn before it in the same session (whose time it takes)."""
        name, self_after, wait = given.get("session"), -1, 0.0
        if name is not None:
            self_after = self.sessions.get(_name(name, f"{where}, session"), -1)
            self.sessions[name] = number
        self.session.append(number if self_after < 0 else self.session[self_after])
        if self_after >= 0:
            if "arrival" in given:
                raise InputError(f"{where}, arrival", "has no effect for a later turn of a session", expected="think")
            wait = seconds(given.get("think", 0), f"{where}, think")
            before = rows.prompt[self_after] + rows.output[self_after]
            if whole(given["prompt"], where, 1, LONGEST) <= before:
                raise InputError(f"{where}, prompt", f"{given['prompt']} tokens", expected=f"more than {before}: the "
                                 "prompt and the answer of the turn before it, and the new ones")
        elif "think" in given:
            raise InputError(f"{where}, think", "comes before no turn", expected="arrival")
        self.after.append(self_after)
        self.think.append(round(wait * PS))
        return rows.time[self_after] if self_after >= 0 else seconds(given.get("arrival"), f"{where}, arrival")

    def requests(self, rows: Rows, of: Recorded) -> Requests:
        """All requests in order of arrival."""
        priority = np.array(self.priority, np.int64) if any(self.priority) else None
        group = np.array(self.group, np.int64) if self.groups else None
        found = rows.requests(of, priority, group)
        groups = tuple(self.groups)
        if max(self.after, default=-1) < 0:
            return msgspec.structs.replace(found, groups=groups)
        order = np.argsort(np.array(rows.time), kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        after, think = np.array(self.after, np.int64), np.zeros(len(order), np.int64)
        follows, later = np.full(len(order), -1, np.int64), np.flatnonzero(after >= 0)
        follows[place[after[later]]] = place[later]
        think[place[after[later]]] = np.array(self.think, np.int64)[later]
        session = place[np.array(self.session, np.int64)][order]
        return msgspec.structs.replace(found, groups=groups, turns=Turns(follows, think, session))


def _name(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(where, f"{str(value)[:40]!r} is no text", expected="a name")
    return value


class ShareGpt(Arrivals, frozen=True, kw_only=True):
    """Prompts and answers of ShareGPT's JSON file (the first two turns of each conversation, as vLLM's benchmark takes
    them), at random times. The file has text: tokens are its characters over `characters_per_token`."""

    tag: ClassVar[str] = "sharegpt"
    path: Annotated[str, Knob("The file.", file=True)]
    characters_per_token: Annotated[float, Knob("Of the model's tokenizer; English is near 4.", gt=0, lt=100)]
    rate: Annotated[float, Knob("Requests per second.", gt=0)]
    count: Annotated[int, Knob("Requests, drawn with replacement.", ge=1, lt=MOST + 1)]
    seed: Annotated[int, Knob("Seed of what is drawn (NumPy's PCG64).", ge=0, lt=2**63)]

    def requests(self) -> Requests:
        """The requests."""
        try:
            given = msgspec.json.decode(read_text(self.path, "a JSON file"))
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InputError(self.path, f"is no JSON ({error})", expected="a list of conversations") from error
        if not isinstance(given, list):
            raise InputError(self.path, "is no list", expected="a list of conversations")
        pairs = [self._tokens(each, f"{self.path}, conversation {number}") for number, each in enumerate(given)]
        table = np.array([pair for pair in pairs if pair is not None], np.int64).reshape(-1, 2)
        if not len(table):
            raise InputError(self.path, "has no conversation of two turns", expected="at least one")
        generator = np.random.Generator(np.random.PCG64(self.seed))
        arrival = np.cumsum(generator.exponential(PS / self.rate, self.count))
        if arrival[-1] > 2**62:
            raise InputError("requests.rate", f"{self.rate:g} per second is too slow for the clock",
                             expected="all requests within 53 days")
        chosen = table[generator.integers(0, len(table), self.count)]
        left = len(pairs) - len(table)
        notes = (f"{self.path}: {left:,} of {len(pairs):,} conversations have no two turns of legal length, and are "
                 "left out",) if left else ()
        return Requests(np.rint(arrival).astype(np.int64), chosen[:, 0].copy(), chosen[:, 1].copy(), notes=notes)

    def _tokens(self, given: object, where: str) -> tuple[int, int] | None:
        turns = given.get("conversations", given.get("conversation")) if isinstance(given, dict) else None
        if not isinstance(turns, list):
            raise InputError(where, "has no list of turns", expected="conversations: [{from, value}, ...]")
        texts = [turn.get("value") if isinstance(turn, dict) else None for turn in turns[:2]]
        if len(texts) < 2:
            return None
        if not all(isinstance(text, str) for text in texts):
            raise InputError(where, "has a turn without text", expected="value: text")
        lengths = [max(1, round(len(str(text)) / self.characters_per_token)) for text in texts]
        return (lengths[0], lengths[1]) if max(lengths) < LONGEST else None
