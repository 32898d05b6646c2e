"""What an operation gives, and what it says when it refuses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from astrarium.config.base import ConfigError
from astrarium.errors import AstrariumError, InputError, nearest
from astrarium.report.tables.table import Table, text_of

__all__ = ["Answer", "Number", "Progress", "Refusal", "RefusedError", "misread", "refusal"]

LONGEST = 2000      # characters of a message
UNKNOWN = re.compile("Object contains unknown field `(.{0,200})`")


class Number(Struct, frozen=True):
    """A figure: its `name` in expressions, a `label`, the exact `value` in `unit`, and `text` for people."""

    name: str
    label: str
    value: float | int | None
    unit: str
    text: str


class Answer(Struct, frozen=True, kw_only=True):
    """What an operation gives.

    `numbers` are exact, `tables` for people; `notes`: what was assumed, and what a model does not see. `command`: the
    command line that gives the same, in the folder. `files`: names of the files that it wrote. `found`: plain data of
    the operation (`--json` of the command line, or messages of the agents' protocol). `seconds`: CPU time.

    `result` is the object that the product gave (`ShownRun`, `Shortlist`, `StudyReport`...), of which the page and the
    plots that are named `page` (`astrarium list page`) are made. It never leaves its process: messages lack it."""

    title: str
    numbers: tuple[Number, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    command: str = ""
    files: tuple[str, ...] = ()
    found: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    page: str = ""
    result: Any = None

    @property
    def text(self) -> str:
        """As the command line prints it, with its notes, files and command."""
        parts = [text_of(table) for table in self.tables]
        ends = [*(f"note: {each}" for each in self.notes), *(f"wrote {each}" for each in self.files),
                *([f"the same in a shell: {self.command}"] if self.command else [])]
        return "\n\n".join([*([] if parts else [self.title]), *parts, *(["\n".join(ends)] if ends else [])])


class Progress(Struct, frozen=True):
    """How far an operation is: `done` of `total` (None: unknown), in words; `best`: the value of the objective that a
    search has reached so far; `table`: what was found, and what may come."""

    done: float
    total: float | None
    text: str
    best: Number | None = None
    table: Table | None = None


class Refusal(Struct, frozen=True):
    """Why an operation has no answer. `kind`: `input` (the request is wrong: change it), `limit` (it costs more than is
    allowed: make it smaller), `stopped` (it was cancelled), `bug` (ours). `path` names the wrong value, `expected` what
    is right there, `nearest` what was probably meant; `problems`: all of them where there are several."""

    kind: str
    message: str
    path: str = ""
    expected: str | None = None
    nearest: str | None = None
    problems: tuple[Refusal, ...] = ()

    @property
    def text(self) -> str:
        """One line a problem, with what to do."""
        where = f"{self.path}: " if self.path else ""
        said = f"{where}{self.message}" + (f"; expected {self.expected}" if self.expected else "") + (
            f"; did you mean {self.nearest!r}?" if self.nearest else "")
        return "\n".join([said] if not self.problems else [each.text for each in self.problems])


class RefusedError(AstrariumError):
    """An operation that was refused; `refusal` says why."""

    def __init__(self, refusal: Refusal):
        self.refusal = refusal
        super().__init__(refusal.text)


def refusal(error: Exception) -> Refusal:
    """An error as a refusal."""
    if isinstance(error, RefusedError):
        return error.refusal
    if isinstance(error, ConfigError):
        every = tuple(Refusal("input", _cut(each.message), each.path, each.expected, each.did_you_mean)
                      for each in error.problems)
        first = every[0]
        return Refusal("input", first.message, first.path, first.expected, first.nearest, every if every[1:] else ())
    if isinstance(error, InputError):
        return Refusal("input", _cut(error.message), error.path, error.expected, error.did_you_mean)
    return Refusal("input", _cut(str(error)))


def misread(error: Exception, known: Sequence[str]) -> Refusal:
    """A request that has another form than its class, as msgspec words it; `known`: the names of its fields."""
    message, _, place = str(error).partition(" - at `$")
    path = place.rstrip("`").lstrip(".")
    field = UNKNOWN.fullmatch(message)
    if field is None:
        return Refusal("input", _cut(message), path)
    if path:
        return Refusal("input", f"unknown field {field[1]!r}", path)
    return Refusal("input", "unknown field", field[1], "one of " + ", ".join(known) if known else "no fields",
                   nearest(field[1], known))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST - 1] + "…"
