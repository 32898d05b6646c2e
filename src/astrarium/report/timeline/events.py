"""The Chrome trace event format (JSON), which ui.perfetto.dev reads, written as a stream.

Every event carries `ph` (what it is), `ts` (us; fractions keep the ps), `pid` and `tid`. X is a slice with `dur`, s and
f are the ends of an arrow with the same `id`, `cat` and `name`, C a counter, M a name.
Format: "Trace Event Format", Google, docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Any

__all__ = ["TraceEvents", "quoted", "us"]

PS_PER_US = 1_000_000
BLOCK = 4096       # events held before they are written

quoted = json.dumps
"""A string as JSON."""


def us(ps: int) -> float:
    """ps as us; what is printed of it is exact to the ps, up to 2^33 us (2.4 hours)."""
    return ps / PS_PER_US


class TraceEvents:
    """Writes events to a binary stream, holding `BLOCK` of them at most. A context manager: its end closes the list."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._held, self.written = stream, list[str](), 0

    def __enter__(self) -> TraceEvents:
        self._stream.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if kind is None:
            self._flush()
            self._stream.write(b"\n]}\n")

    def process(self, pid: int, name: str) -> None:
        """Names a process; processes are shown in order of pid."""
        self._meta("process_name", pid, 0, {"name": name})
        self._meta("process_sort_index", pid, 0, {"sort_index": pid})

    def thread(self, pid: int, tid: int, name: str) -> None:
        """Names a track; tracks of a process are shown in order of tid."""
        self._meta("thread_name", pid, tid, {"name": name})
        self._meta("thread_sort_index", pid, tid, {"sort_index": tid})

    def slice(self, pid: int, tid: int, name: str, category: str, start: int, end: int, args: str = "{}") -> None:
        """What a track did from `start` to `end` (ps). `name` and `args` are JSON already."""
        self._add(f'{{"ph":"X","name":{name},"cat":"{category}","ts":{us(start)},"dur":{us(end - start)},'
                  f'"pid":{pid},"tid":{tid},"args":{args}}}')

    def flow_start(self, pid: int, tid: int, number: int, at: int) -> None:
        """The tail of arrow `number`, in the slice that covers `at` on this track."""
        self._add(f'{{"ph":"s","name":"message","cat":"message","id":{number},"ts":{us(at)},"pid":{pid},"tid":{tid}}}')

    def flow_end(self, pid: int, tid: int, number: int, at: int) -> None:
        """The head of arrow `number`."""
        self._add(f'{{"ph":"f","bp":"e","name":"message","cat":"message","id":{number},"ts":{us(at)},'
                  f'"pid":{pid},"tid":{tid}}}')

    def counter(self, pid: int, name: str, at: int, values: Mapping[str, float]) -> None:
        """The value of counter `name` from `at` on."""
        self._add(json.dumps({"ph": "C", "name": name, "ts": us(at), "pid": pid, "tid": 0, "args": dict(values)},
                             separators=(",", ":")))

    def _meta(self, what: str, pid: int, tid: int, args: Mapping[str, Any]) -> None:
        self._add(json.dumps({"ph": "M", "name": what, "ts": 0, "pid": pid, "tid": tid, "args": dict(args)},
                             separators=(",", ":")))

    def _add(self, event: str) -> None:
        self._held.append(event)
        if len(self._held) >= BLOCK:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            text = ",\n".join(self._held)
            self._stream.write(((",\n" if self.written else "") + text).encode())
            self.written += len(self._held)
            self._held.clear()
