#!/usr/bin/env python3
"""The limits of tools/limits.py for the compiled core: length of files, functions and classes, and complexity.

A class counts whole, wherever its code stands: its definition, and what is defined outside of it, of its member
functions and of its nested classes, in all files. Lengths are lines, comments too. Complexity counts what ruff counts
in Python: branches, loops, cases and handlers, not `&&`, `||` and `?`.

What is over a limit stands in tools/cpp_breaches.txt, a list that may only shrink: the check fails where a breach is
not listed, has grown, or is none any more. `--lower` writes figures that fell, and drops what is gone.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import lizard
from lizard_languages import CLikeReader

LIMITS = {"file": 400, "class": 500, "function": 60, "complexity": 14}      # complexity: as for Python, pyproject.toml
SUFFIXES = {".cpp", ".hpp", ".inl", ".h"}
ROOT = Path(__file__).resolve().parent.parent
BREACHES = ROOT / "tools" / "cpp_breaches.txt"
HEAD = "# What is over a limit of tools/cpp_limits.py: kind, figure, name, file. It may only shrink.\n"


class Span(NamedTuple):
    """Where one class or function is defined: lines `first` to `last` of a file; names without namespaces."""

    where: str
    name: str
    first: int
    last: int
    complexity: int = 0

    @property
    def lines(self) -> int:
        """Its length."""
        return self.last - self.first + 1

    def holds(self, other: Span) -> bool:
        """Whether the other is defined inside of this one."""
        return self.where == other.where and self.first <= other.first and other.last <= self.last and self != other


class Thing(NamedTuple):
    """What a limit is for; `kind` is a key of LIMITS. Names may come twice in a file (overloads)."""

    kind: str
    name: str
    where: str

    @property
    def key(self) -> tuple[str, ...]:
        """What it is listed by: a file may move to another folder."""
        return self.kind, self.name, Path(self.where).name


Breaches = list[tuple[Thing, int]]


def classes(where: str, text: str) -> Iterator[Span]:
    """The definitions of classes and structs in one file; nested ones too, as `Outer::Inner`."""
    line, began, before = 1, 0, ""
    head: list[str] = []                    # tokens since `class` or `struct`
    braces: list[tuple[str, int]] = []      # those that are open: the class, or nothing; its first line
    for token in CLikeReader.generate_tokens(text):
        if token in ("class", "struct") and before not in ("enum", "<", ","):
            head, began = [token], line
        elif token == "{":
            braces.append((_class_of(head, braces), began))
            head = []
        elif token == "}" and braces:
            name, first = braces.pop()
            if name:
                yield Span(where, name, first, line)
        elif token in (";", "(", ")", "="):
            head = []
        elif head and not token.isspace() and not token.startswith(("//", "/*")):
            head.append(token)
        line += token.count("\n")
        before = before if token.isspace() else token


def _class_of(head: list[str], braces: list[tuple[str, int]]) -> str:
    """The qualified name of the class whose definition begins with these tokens; nothing where they begin none."""
    own = head[1:]
    for end in ("final", ":", "<"):
        own = own[:own.index(end)] if end in own else own
    outer = next((name for name, _ in reversed(braces) if name), "")
    return "::".join(part for part in (outer, "".join(own)) if part) if own else ""


def _as_ruff_counts(tokens: Iterable[str], reader: Any) -> Iterable[str]:
    """An extension of lizard: conditions within an expression do not count."""
    reader.conditions -= {"&&", "||", "?"}
    return tokens


ANALYZER = lizard.FileAnalyzer(lizard.get_extensions([_as_ruff_counts]))


def functions(where: str, text: str) -> Iterator[Span]:
    """The functions of one file."""
    found = ANALYZER.analyze_source_code(f"{where}.cpp", text)      # .inl is no ending that lizard knows
    for each in found.function_list:
        *outer, last = each.name.split("::")
        name = "::".join([*(part for part in outer if part[:1].isupper()), last])     # namespaces are lower case
        yield Span(where, name, each.start_line, each.end_line, each.cyclomatic_complexity)


def whole_classes(defined: Iterable[Span], bodies: Iterable[Span]) -> dict[Span, int]:
    """Lines of each class with all that belongs to it."""
    defined = list(defined)
    lines = {each: each.lines for each in defined}
    named: dict[str, list[Span]] = defaultdict(list)
    for each in defined:
        named[each.name].append(each)
    for part in [*defined, *bodies]:
        names = part.name.split("::")[:-1]
        for end in range(1, len(names) + 1):
            able = named["::".join(names[:end])]
            owner = next((each for each in able if each.where == part.where), able[0] if able else None)
            if owner is not None and not owner.holds(part):
                lines[owner] += part.lines
    return lines


def breaches(root: Path) -> Breaches:
    """What under `root`/native and `root`/ns3 is over a limit, the largest first."""
    files = sorted(path for folder in ("native", "ns3") for path in (root / folder).rglob("*")
                   if path.suffix in SUFFIXES)
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files}
    bodies = [each for where, text in texts.items() for each in functions(where, text)]
    whole = whole_classes((each for where, text in texts.items() for each in classes(where, text)), bodies)
    found = [(Thing("file", Path(where).name, where), text.count("\n")) for where, text in texts.items()]
    found += [(Thing("class", each.name, each.where), lines) for each, lines in whole.items()]
    found += [(Thing("function", each.name, each.where), each.lines) for each in bodies]
    found += [(Thing("complexity", each.name, each.where), each.complexity) for each in bodies]
    return sorted(((thing, value) for thing, value in found if value > LIMITS[thing.kind]),
                  key=lambda each: (list(LIMITS).index(each[0].kind), -each[1], each[0]))


def complaints(found: Breaches, listed: Breaches) -> list[str]:
    """One sentence for each breach that is not listed or has grown, and for each listed one that is none any more."""
    left: dict[tuple[str, ...], Breaches] = defaultdict(list)
    for thing, value in sorted(listed, key=lambda each: -each[1]):
        left[thing.key].append((thing, value))
    said = []
    for thing, value in found:
        limit = left[thing.key].pop(0)[1] if left[thing.key] else None
        if limit is None:
            said.append(f"{thing.where}: {thing.kind} {thing.name}: {value}, limit {LIMITS[thing.kind]}")
        elif value > limit:
            said.append(f"{thing.where}: {thing.kind} {thing.name}: {value}, was {limit}: breaches may only shrink")
    said += [f"{thing.where}: {thing.kind} {thing.name} is no breach any more: take it off with --lower"
             for rest in left.values() for thing, _ in rest]
    return said


def read(text: str) -> Breaches:
    """The list of breaches."""
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return [(Thing(kind, name, where), int(value)) for kind, value, name, where in rows]


def written(found: Breaches) -> str:
    """The list of breaches as text."""
    return HEAD + "".join(f"{thing.kind} {value} {thing.name} {thing.where}\n" for thing, value in found)


def main(arguments: list[str]) -> int:
    """Print the complaints, 1 when there are any; with `--lower` write down what fell."""
    found, listed = breaches(ROOT), read(BREACHES.read_text(encoding="utf-8"))
    said = complaints(found, listed)
    if "--lower" in arguments and not any("no breach any more" not in each for each in said):
        BREACHES.write_text(written(found), encoding="utf-8")
        said = []
    for each in said:
        print(each)
    print(f"limits of C++: {len(said)} complaints; {len(listed)} listed breaches")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
