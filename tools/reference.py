#!/usr/bin/env python3
"""Write docs/reference from the code: knobs, command line, what there is to choose from, Python API, engine rules.

    python tools/reference.py            writes the pages
    python tools/reference.py --check    says which ones are not current, and fails if any

Only what the package itself brings is listed, not plug-ins that happen to be installed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from reference_api import SOURCE, api_page, namespaces

if __name__ == "__main__":
    sys.path.insert(0, str(SOURCE))      # the checkout, whatever is installed

from astrarium import catalog, registry
from astrarium.cli.arguments import Parser
from astrarium.cli.completion import command_line
from astrarium.cli.dispatch import VERBS
from astrarium.collective.algorithms import algorithm_of
from astrarium.config import FieldInfo, fields
from astrarium.design import Design
from astrarium.report.choices import OPERATIONS
from astrarium.units import Bandwidth, Bytes, FlopRate, Quantity, Time
from astrarium.vocab import TERMS, CommOp

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
MADE = "<!-- written by tools/reference.py from the code; do not edit -->\n\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; `|` in cells is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    cells = ([cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in lines)
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def code(text: str) -> str:
    """`text`, or nothing."""
    return f"`{text}`" if text else ""


# ------------------------------------------------------------ knobs
def shown_default(info: FieldInfo) -> str:
    """A default as it would be typed."""
    value = info.default
    if info.required:
        return "required"
    if value is None:
        return ""
    if isinstance(value, bool):
        return code(str(value).lower())
    return "" if value == () else code(str(value))


def knobs_page() -> str:
    """Every field of a design, by section."""
    text = "# Knobs\n\n" + MADE
    text += ("Every field of a design, by the path that it has in a design file, on the command line (`--set`) and in\n"
             "Python. `[]` stands for an entry of a list. *Where* names the variants that have the field.\n\n")
    text += "## Units\n\n"
    kinds: tuple[type[Quantity], ...] = (Time, Bytes, Bandwidth, FlopRate)
    text += table(("dimension", "units", "example"), [
        (kind.dimension, ", ".join(code(unit) for unit in kind.units), code(kind.example)) for kind in kinds])
    for section, rows in by_section(fields(Design)):
        text += f"\n## {section}\n\n" + table(("path", "takes", "default", "what it is", "where"), merged(rows))
    return text


def merged(rows: Iterable[FieldInfo]) -> Iterator[tuple[str, ...]]:
    """Rows of a table; a field that several variants have alike is one row that names them."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for row in rows:
        takes = row.takes.replace(f", such as {row.takes.partition(', such as ')[2].partition(' or ')[0]}", "")
        found.setdefault((code(row.path), takes, shown_default(row), row.help), []).append(row.when)
    for cells, variants in found.items():
        tag, _, first = variants[0].partition("=")
        where = ", ".join([first, *(variant.partition("=")[2] for variant in variants[1:])])
        yield (*cells, code(f"{tag.rpartition('.')[2]}: {where}" if tag else ""))


def by_section(rows: Iterable[FieldInfo]) -> Iterator[tuple[str, list[FieldInfo]]]:
    """Fields under their section, in the order of the design; those of the design itself under `design`."""
    found: dict[str, list[FieldInfo]] = {}
    for row in rows:
        first, dot, _ = row.path.partition(".")
        found.setdefault(first.removesuffix("[]") if dot else "design", []).append(row)
    yield from found.items()


# ------------------------------------------------------------ command line
def cli_page() -> str:
    """Every verb with its flags."""
    text = "# Command line\n\n" + MADE
    text += table(("verb", "what it does"), [(f"[`{verb}`](#{verb})", line) for verb, (_, line) in VERBS.items()])
    text += "\nExit codes: [errors](../guides/errors.md). `astrarium --version` prints the version.\n"
    return text + "".join(map(verb_section, verbs_of(command_line())))


def verbs_of(parser: argparse.ArgumentParser) -> list[Parser]:
    """The parsers of the verbs of a parser; none where it has no verbs."""
    return [each for action in parser._actions if isinstance(action, argparse._SubParsersAction)
            for each in action.choices.values()]


def verb_section(parser: Parser, depth: int = 2) -> str:
    """A verb with its flags, and its own verbs below it."""
    name, subs = parser.prog.removeprefix("astrarium "), verbs_of(parser)
    text = f"\n{'#' * depth} {name}\n\n{parser.description}\n"
    rows = [argument(each) for each in parser._actions[1:] if not isinstance(each, argparse._SubParsersAction)]
    text += "\n" + table(("argument", "what it is"), rows) if rows else ""
    return text + "".join(verb_section(each, depth + 1) for each in subs)


def argument(action: argparse.Action) -> tuple[str, str]:
    """A row of a verb's table: names with what follows them, and the help (with choices and whether it is needed)."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    takes = "" if action.nargs == 0 else choices or str(action.metavar or action.dest.upper())
    names = ", ".join(action.option_strings)
    needed = action.required if action.option_strings else action.nargs not in ("?", "*")
    words = f"{names} {takes}".strip()
    return code(words) + (" (required)" if needed else ""), (action.help or "").replace("<", "&lt;").replace("%%", "%")


# ------------------------------------------------------------ choices
def choices_page() -> str:
    """Everything of the registry and the catalogue."""
    text = f"# What there is to choose from\n\n{MADE}`astrarium list` prints it too, with installed plug-ins.\n"
    for kind in registry._BUILT_IN:
        rows = [(code(entry.name), entry.sentence) for entry in registry.entries(kind).values() if not entry.package]
        text += f"\n## {kind}\n\n" + table(("name", "what it is"), rows)
    text += "\n## Operations\n\n" + table(("name", "what it does"), [(code(n), s) for n, s in OPERATIONS.items()])
    ops = [op for op in CommOp if op.name.lower() in OPERATIONS]
    text += "\n## Operations of the algorithms\n\n" + table(("algorithm", *(code(op.name.lower()) for op in ops)), [
        (code(name), *("yes" if op in algorithm_of(name).ops else "" for op in ops))
        for name in registry.built_ins("algorithm")])
    text += "\n## Devices\n\n" + table(("name", "device", "peak", "memory", "bandwidth", "source"), [
        (code(name), row["title"], row["peak"], row["capacity"], row["bandwidth"], row["source"])
        for name, row in catalog.load("devices").items()])
    text += "\n## Networks\n\n" + table(("name", "network", "shape", "NPUs", "bandwidth", "source"), [
        (code(name), row["title"], code(row["shape"]), str(row.get("npus", "")), bandwidth(row), row["source"])
        for name, row in catalog.load("networks").items()])
    return text


def bandwidth(row: object) -> str:
    """Of one link, or of all of an NPU's."""
    assert hasattr(row, "get")
    return str(row["bandwidth"]) if row.get("bandwidth") else f"{row['bandwidth_per_npu']} per NPU"  # type: ignore[index]


def engine_page() -> str:
    """The design note of the engine."""
    title, text = (ROOT / "design" / "0001-engine.md").read_text(encoding="utf-8").split("\n", 1)
    return f"# Rules of the engine ({title.removeprefix('# ')})\n\n{MADE}{text.lstrip()}"


def glossary_page() -> str:
    """The words of the product, a heading each: the search of the site finds headings first."""
    return "# Glossary\n\n" + MADE + "\n".join(f"## {term}\n\n{meaning}\n" for term, meaning in TERMS.items())


PAGES: dict[str, Callable[[], str]] = {"knobs.md": knobs_page, "cli.md": cli_page, "choices.md": choices_page,
                                       "engine_rules.md": engine_page, "glossary.md": glossary_page}
PAGES.update({module.replace("astrarium", "python").replace(".", "_") + ".md": partial(api_page, module)
              for module in namespaces()})


def outdated() -> list[str]:
    """Names of pages that are not what the code says."""
    return [name for name, make in PAGES.items()
            if not (FOLDER / name).exists() or (FOLDER / name).read_text(encoding="utf-8") != make()]


def main(arguments: Sequence[str]) -> int:
    """Write or check; 1 where a checked page is not current."""
    old = outdated()
    for name in old:
        if "--check" not in arguments:
            FOLDER.mkdir(parents=True, exist_ok=True)
            (FOLDER / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"docs/reference/{name}: " + ("not current" if "--check" in arguments else "written"))
    return 1 if old and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
