"""Prose is tested: the code blocks of README and docs run, and print what the page says.

- A `python` block followed by a `text` block (at most one line of prose between them) must print exactly that text.
- A `python` block without one must run.
- In a `console` block every `$ astrarium ...` line is run; the lines up to the next `$` are its standard output.
- `...` in expected output stands for anything, as in doctest.
- `<!-- not run: why -->` on the line before a block leaves it out.

Blocks run in the checkout, each in a process of its own.
"""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CLI = (sys.executable, "-c", "import sys; from astrarium.cli import main; sys.exit(main())")
NOT_RUN = re.compile(r"<!-- not run: .+ -->\s*$")


@dataclass(frozen=True)
class Block:
    """A command and the standard output that the page promises, if it promises one."""

    where: str
    command: tuple[str, ...]
    expected: str | None


def same(expected: str, got: str) -> bool:
    """Whether `got` is `expected`, up to `...` and trailing spaces."""
    want, have = ("\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n" for text in (expected, got))
    return doctest.OutputChecker().check_output(want, have, doctest.ELLIPSIS)


def console_blocks(where: str, text: str) -> list[Block]:
    """The `$ astrarium` lines of a console block with their output; other commands are for the reader."""
    found = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        words = shlex.split(line, comments=True)
        if words[0] == "astrarium":
            found.append(Block(where, (*CLI, *words[1:]), output if output.strip() else None))
    return found


def blocks(name: str, text: str) -> list[Block]:
    """The blocks of one page that are to run."""
    fences = list(FENCE.finditer(text))
    found: list[Block] = []
    for k, fence in enumerate(fences):
        language, body = fence.groups()
        where = f"{name}:{text.count(chr(10), 0, fence.start()) + 1}"
        if NOT_RUN.search(text[:fence.start()]):
            continue
        if language == "python":
            following = fences[k + 1] if k + 1 < len(fences) else None
            expected = None
            if following is not None and following.group(1) == "text":
                between = text[fence.end():following.start()].strip()
                expected = following.group(2) if "\n" not in between and not between.startswith("#") else None
            found.append(Block(where, (sys.executable, "-c", body), expected))
        elif language == "console":
            found += console_blocks(where, body)
    return found


ALL = [block for page in PAGES for block in blocks(page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("block", ALL, ids=lambda block: block.where)
def test_block_prints_what_the_page_says(block: Block) -> None:
    run = subprocess.run(block.command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, f"{block.where} failed:\n{run.stderr}"
    if block.expected is not None:
        assert same(block.expected, run.stdout), f"{block.where} prints:\n{run.stdout}"


def test_the_readme_starts_with_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = FENCE.search(text)
    assert first is not None
    assert [line.split("#")[0].strip() for line in first.group(2).splitlines()] == ["make run", "make test"]


def test_blocks_are_found_and_compared() -> None:
    page = "```python\nprint(1)\n```\nprints\n\n```text\n1\n```\n<!-- not run: slow -->\n```python\n1/0\n```\n" \
           "```console\n$ astrarium list\nab\n$ make run\n```\n"
    found = blocks("page", page)
    assert [b.where for b in found] == ["page:1", "page:13"]
    assert found[0].expected == "1\n"
    assert found[1].command == (*CLI, "list")
    assert found[1].expected == "ab\n"
    assert same("1\n", "1 \n")
    assert same("a ... c", "a b c\n")
    assert not same("1\n", "2\n")


def test_links_to_files_of_the_checkout_exist() -> None:
    broken = []
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert broken == []
