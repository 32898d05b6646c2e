"""Streams in CSV tables: our own columns, those of Azure's LLM inference traces and of BurstGPT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from msgspec import Struct

from astrarium.errors import InputError, nearest
from astrarium.serving.requests.files import seconds, table_rows, whole
from astrarium.serving.requests.stream import LONGEST, Requests
from astrarium.serving.requests.traces import Recorded, Rows

__all__ = ["RequestTrace"]


class Columns(Struct, frozen=True):
    """Names of the columns of arrival, prompt and output; `others` may be there and are not read, which is said with
    a reason where there is one. `failed`: rows without an answer are requests that failed."""

    names: tuple[str, str, str]
    others: Mapping[str, str] = MappingProxyType({})
    failed: bool = False


RESULTS = MappingProxyType({
    **dict.fromkeys(("request", "preempted", "ttft_ms", "tpot_ms", "latency_ms", "group", "instance", "retried"), ""),
    "cached": "which prompts are alike is not in the file, so none share a prefix"})
BURST = {"Model": "all requests go to the design's model", "Total tokens": "", "Log Type": "", "Elapsed time": "",
         "Session ID": "turns come at their times, and share no prefix"}
KINDS = (Columns(("arrival", "prompt", "output")), Columns(("arrival_s", "prompt", "output"), RESULTS),
         Columns(("TIMESTAMP", "ContextTokens", "GeneratedTokens")),
         Columns(("Timestamp", "Request tokens", "Response tokens"), MappingProxyType(BURST), failed=True))
"""Our own, `serve --csv`, Azure, BurstGPT."""


class RequestTrace(Recorded, frozen=True, kw_only=True):
    """A CSV file: arrival (seconds), prompt, output; Azure's LLM inference traces, BurstGPT, and the file of `serve
    --csv` are read as they are.

    Rows of BurstGPT without an answer (requests that failed) are left out.
    """

    tag: ClassVar[str] = "trace"

    def requests(self) -> Requests:
        """The requests."""
        lines, rows = table_rows(self.path), Rows()
        header = [name.strip() for name in next(lines, (1, []))[1]]
        kind, left = _kind(header, f"{self.path}, line 1"), 0
        places = [header.index(name) for name in kind.names]
        for line, row in lines:
            if self.first is not None and len(rows.prompt) >= self.first:
                break
            found = _row(f"{self.path}, line {line}", row, places, header, int(not kind.failed))
            if found[2]:
                rows.add(*found)
            else:
                left += 1
        notes = [f"{self.path}: column {name!r} is not read: {why}" for name, why in kind.others.items()
                 if why and name in header]
        if left:
            notes.append(f"{self.path}: {left:,} of {left + len(rows.prompt):,} requests have no answer (0 tokens: "
                         "they failed), and are left out")
        return rows.requests(self, notes=notes)


def _kind(header: Sequence[str], where: str) -> Columns:
    """Which of KINDS a file with this header is. Raises InputError for missing, unknown and repeated columns."""
    if not header:
        raise InputError(where, "is empty", expected="a header with the names of the columns")
    kind = next((kind for kind in KINDS if set(kind.names) <= set(header)), None)
    if kind is None:
        raise InputError(where, f"columns {', '.join(header)[:80]!r}",
                         expected=" or ".join(", ".join(each.names) for each in KINDS))
    for place, name in enumerate(header):
        if name in header[:place]:
            raise InputError(where, f"column {name[:40]!r} is there twice", expected="one column of a name")
        if name not in kind.names and name not in kind.others:
            names = (*kind.names, *kind.others)
            raise InputError(where, f"unknown column {name[:40]!r}", expected=f"{', '.join(names)} (priorities, groups "
                             "and sessions: a file of kind: jsonl)", did_you_mean=nearest(name, names))
    return kind


def _row(where: str, row: Sequence[str], places: Sequence[int], header: Sequence[str], least: int
         ) -> tuple[float, int, int]:
    """Time, prompt, output; with BurstGPT, 0 tokens of output say that there is none."""
    if len(row) != len(header):
        raise InputError(where, f"{len(row)} values", expected=f"{len(header)}, as the header has")
    when, prompt, output = (row[place].strip() for place in places)
    columns = [f"{where}, column {header[place]}" for place in places]
    asked = whole(prompt, columns[1], least, LONGEST)
    answered = whole(output, columns[2], least, LONGEST)
    return seconds(when, columns[0]), asked, answered if asked else 0
