"""Arguments that several verbs share, and a parser that says what was probably meant."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn

from astrarium.errors import InputError, nearest

__all__ = ["Parser", "apart", "fold", "idle", "json_flag", "note", "once", "outputs", "place", "rank",
           "seconds", "set_flag", "timeline", "truth", "whole"]

TRUE, FALSE = ("true", "True", "t", "T", "1"), ("false", "False", "f", "F", "0")


def _width() -> int:
    """Width of a line of help, as in argparse, which would import shutil and all compressors for it at every start."""
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    if columns <= 0:
        try:
            columns = os.get_terminal_size(sys.__stdout__.fileno()).columns     # type: ignore[union-attr]
        except (AttributeError, ValueError, OSError):
            columns = 0
    return (columns or 80) - 2


WRITTEN = ("out", "html", "timeline", "csv", "best", "certificate", "rows", "names")     # flags with a file to write


class Parser(argparse.ArgumentParser):
    """argparse without abbreviations; an unknown flag or choice names the nearest one. Usage errors exit with 2."""

    renamed: Mapping[str, str] = MappingProxyType({})      # old flag -> the one that has its meaning today
    ignores = False     # unknown arguments end in the namespace's `unknown` instead
    fill: Callable[[Parser], None] | None = None    # adds the arguments of a sub-verb when that is what was asked for

    _asked: Sequence[str] = ()      # the words that are being read

    def __init__(self, *, prog: str, description: str, usage: str | None = None, epilog: str | None = None,
                 raw: bool = False):
        style = argparse.RawDescriptionHelpFormatter if raw else argparse.HelpFormatter
        super().__init__(prog=prog, usage=usage, description=description, epilog=epilog, allow_abbrev=False,
                         formatter_class=partial(style, width=_width()))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's, of a sub-verb: its parser is filled first, and says itself what it does not know."""
        fill, self.fill = self.fill, None
        if fill is not None:
            fill(self)
        options, unknown = super().parse_known_args(None if args is None else self.today(args), namespace)
        if unknown:
            self.error(self._unknown(unknown[0]))
        self._keep_inputs(options)
        return options, unknown

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """`arguments` as a namespace, whose `command` is the whole command line; SystemExit(2) with a message for
        anything unknown."""
        options: argparse.Namespace
        options, unknown = super().parse_known_args(self.today(arguments))
        if self.ignores:
            options.unknown = [self._unknown(word) for word in unknown]
        elif unknown:
            self.error(self._unknown(unknown[0]))
        options.command = [*self.prog.split(), *arguments]
        self._keep_inputs(options)
        return options

    def _keep_inputs(self, options: argparse.Namespace) -> None:
        """InputError where a file to write is one that the command line names without a flag, so one to read."""
        given = vars(options)
        values = [given.get(action.dest) for action in self._actions if not action.option_strings]
        read = [path for value in values for path in (value if isinstance(value, list) else [value])
                if isinstance(path, str) and os.path.isfile(path)]
        for flag, path in outputs(options):
            apart(flag, path, read)
        once(outputs(options))

    def today(self, words: Sequence[str]) -> list[str]:
        """Words with old flags under their present names, which a note says."""
        found = []
        for word in words:
            flag, equals, value = word.partition("=")
            if flag in self.renamed:
                note(f"{flag} is now {self.renamed[flag]}")
            found.append(self.renamed.get(flag, flag) + equals + value)
        self._asked = found
        return found

    def _unknown(self, word: str) -> str:
        """A sentence about an unknown argument, with the flag that was probably meant."""
        name = word.partition("=")[0]
        place = next((str(action.metavar or action.dest) for action in self._actions if not action.option_strings
                      and name.lstrip("-") == str(action.metavar or action.dest).partition(".")[0].lower()), None)
        if place is not None and word.startswith("-"):
            return f"unknown argument {word}; {place} is written without a flag"
        flags = [flag for action in self._actions for flag in action.option_strings]
        guess = nearest(name, flags) if word.startswith("-") else None
        return f"unknown argument {word}" + (f"; did you mean {guess}?" if guess else "")

    def _wrong_choice(self, message: str) -> str:
        """The choice that was probably meant, for argparse's message about one that does not exist."""
        match = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)$", message)
        guess = nearest(match[1], re.findall(r"[^\s',]+", match[2])) if match else None
        return f"; did you mean {guess}?" if guess else ""

    def error(self, message: str) -> NoReturn:
        """One line to stderr; SystemExit(2). A flag that does not exist comes before arguments that are missing."""
        if message.startswith("the following arguments are required"):
            known = self._option_string_actions
            unknown = next((word for word in self._asked if word.startswith("--") and word != "--"
                            and word.partition("=")[0] not in known), None)
            message = message if unknown is None or self.ignores else self._unknown(unknown)
        message += self._wrong_choice(message)
        self.exit(2, f"{self.prog}: error: {message} ({self.prog} --help prints what it takes)\n")


def set_flag(parser: Parser, what: str) -> None:
    """`--set path=value`, which may be repeated; `what` it changes."""
    parser.add_argument("--set", metavar="path=value", action="append", default=[], help=what + "; may be repeated")


def note(text: str) -> None:
    """A remark to stderr."""
    print(f"astrarium: note: {text}", file=sys.stderr)


def wrote(path: str) -> None:
    """The remark that a file was written."""
    note(f"wrote {path}")


def idle(flag: str, given: object, needed: str) -> None:
    """Raise InputError if a flag without effect is given. `needed`: what would give it an effect."""
    if given:
        raise InputError(flag, "has no effect here", expected=needed)


def place(flag: str, path: str | None) -> None:
    """InputError where no file `path` can be written, said before the work rather than after it."""
    if path is None or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)):
        return      # nothing to write, or a device
    folder = os.path.dirname(path) or "."
    fault = ("is empty" if not path else "is a folder" if os.path.isdir(path) else
             f"there is no folder {folder!r}" if not os.path.isdir(folder) else
             f"{folder!r} is not writable" if not os.access(folder, os.W_OK) else "")
    if fault:
        raise InputError(f"{flag} {path}".strip(), f"cannot be written ({fault})",
                         expected="the name of a file that can be written")


def apart(flag: str, path: str | None, read: Iterable[str | None]) -> None:
    """InputError where the file to write is one of those that are read."""
    if path and os.path.exists(path) and any(each and os.path.exists(each) and os.path.samefile(path, each)
                                             for each in read):
        raise InputError(f"{flag} {path}", "is one of the files that are read", expected="another name")


def outputs(options: argparse.Namespace) -> list[tuple[str, str]]:
    """(flag, path) of each file to write."""
    given = vars(options)
    found = [(f"--{name}", given.get(name)) for name in WRITTEN]
    found += [("--plot", text.partition("=")[2]) for text in given.get("plot") or ()]
    return [(flag, path) for flag, path in found if isinstance(path, str) and path]


def once(files: Iterable[tuple[str, str]]) -> None:
    """InputError where two of the files to write, (flag, path) each, are one."""
    seen: dict[str, str] = {}
    for flag, path in files:
        if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
            continue    # standard output, a device
        real = os.path.realpath(path)
        if real in seen:
            raise InputError(f"{flag} {path}", f"is written by {seen[real]}, too", expected="another name")
        seen[real] = flag


def truth(text: str) -> bool:
    """`true` or `false`, as ASTRA-sim's command line reads it."""
    if text in TRUE + FALSE:
        return text in TRUE
    raise argparse.ArgumentTypeError(f"{text!r}; expected true or false")


def seconds(text: str) -> float:
    """A time limit in seconds: `10`, or with a unit, as in `10 s` and `2 min`."""
    from astrarium.units import Time

    try:
        value = float(text)
    except ValueError:
        try:
            value = float(Time(text)) / 1e9
        except (InputError, ValueError):
            value = 0.0
    if 0 < value < float("inf"):
        return value
    raise argparse.ArgumentTypeError(f"{text!r}; expected a time above 0, such as '10 s'")


def whole(text: str) -> int:
    """A whole number above 0."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if 0 < value < 2**31:
        return value
    raise argparse.ArgumentTypeError(f"{text[:40]!r}; expected a whole number above 0")


def rank(text: str) -> int:
    """A rank, 0 or more."""
    if text.isdecimal() and len(text) < 10:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text[:40]!r}; expected a rank, 0 or more")


def fold(parser: Parser, default: str | None) -> None:
    """`--fold auto|off`."""
    parser.add_argument("--fold", choices=("auto", "off"), default=default,
                        help="auto: simulate equal ranks once if that is exact; off: every rank, every message")


def json_flag(parser: Parser) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def timeline(parser: Parser) -> None:
    """`--timeline FILE` and `--timeline-ranks`."""
    parser.add_argument("--timeline", metavar="FILE", help="write a trace for ui.perfetto.dev (.json or .json.gz)")
    parser.add_argument("--timeline-ranks", metavar="0-7,12", type=ranks,
                        help="ranks in the timeline (default: all, or one of each class in a folded run)")


def ranks(text: str) -> tuple[int, ...]:
    """`0-7,12` as numbers, ascending and distinct."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise argparse.ArgumentTypeError(f"{text[:40]!r}; expected ranks such as 0-7,12")
        low, high = int(first), int(last or first)
        if not low <= high < low + 2**20 or high >= 2**31:
            raise argparse.ArgumentTypeError(f"{part.strip()[:40]!r}; expected at most 2^20 ranks, ascending")
        found.update(range(low, high + 1))
    return tuple(sorted(found))
