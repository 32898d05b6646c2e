#!/usr/bin/env python3
"""Code blocks of README and docs: find them, run them, and write what they print into the page.

- A `python` block followed by a `text` block (at most one line of prose between them) must print exactly that text.
- A `python` block without one must run.
- In a `console` block every `$ astrarium ...` and `$ python FILE` line is run; the lines up to the next `$` are its
  standard output.
- A block with a title (```yaml title="own/design.yaml") is a file, which later blocks of the page find there.
- `...` in expected output stands for anything, as in doctest.
- `<!-- not run: why -->` on the line before a block leaves it out; `<!-- exam: why -->` leaves it to `make exam`, which
  runs the whole page (for blocks that take seconds and write no file that a later block needs); `<!-- exits 1 -->` says
  that its command fails with that code, and the page then shows what it prints to standard output, then to standard
  error.

The blocks of a page run in order, each in a process of its own, in an empty folder in which `examples` is the
checkout's. `python tools/prose.py [PAGE...]` rewrites the output of every block that prints something else than its
page says, and examples/quickstart/expected.txt: read the difference.
"""

from __future__ import annotations

import argparse
import doctest
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forks import Forks, started

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'^```\w* title="([\w./-]+)"$', re.MULTILINE)
NOT_RUN = re.compile(r"<!-- not run: .+ -->\s*$")
EXAM = re.compile(r"<!-- exam: .+ -->\s*$")
EXITS = re.compile(r"<!-- exits ([0-9]+) -->\s*$")
CLI = (sys.executable, "-c", "import sys; from astrarium.cli import main; sys.exit(main())")
PROGRAMS = {"astrarium": CLI, "python": (sys.executable,)}
QUICKSTART = ROOT / "examples" / "quickstart"
Start = Callable[[Sequence[str], Path], "subprocess.CompletedProcess[str]"]      # runs a command in a folder


@dataclass(frozen=True)
class Block:
    """A command, or a file to write; the output that the page promises, if it does, is page[start:end]."""

    where: str
    command: tuple[str, ...]
    expected: str | None
    start: int = 0
    end: int = 0
    exits: int = 0
    exam: bool = False
    file: str = ""
    text: str = ""

    def run(self, folder: Path = ROOT, start: Start = started) -> subprocess.CompletedProcess[str]:
        """The finished process; its standard output is what the page shows."""
        if self.file:
            path = folder / self.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.text, encoding="utf-8")
            return subprocess.CompletedProcess((), 0, "", "")
        run = start(self.command, folder)
        if self.exits and run.returncode == self.exits:
            run.stdout += run.stderr
        return run


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder for the blocks of one page, in which `examples` is the checkout's."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "examples").symlink_to(ROOT / "examples", target_is_directory=True)
        yield Path(name)


def pages() -> list[Path]:
    """README and every page of docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def same(expected: str, got: str) -> bool:
    """Whether `got` is `expected`, up to `...` and spaces at line ends."""
    want, have = ("\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n" for text in (expected, got))
    return doctest.OutputChecker().check_output(want, have, doctest.ELLIPSIS)


def console_blocks(where: str, text: str, at: int, exits: int = 0, exam: bool = False) -> list[Block]:
    """The `$ astrarium` and `$ python` lines of a console block (which starts at `at`) with their output."""
    found = []
    for line in re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, flags=re.MULTILINE):
        words = shlex.split(line.group(1), comments=True)
        if words and words[0] in PROGRAMS:
            output = line.group(2) if line.group(2).strip() else None
            found.append(Block(where, (*PROGRAMS[words[0]], *words[1:]), output, at + line.start(2), at + line.end(2),
                               exits, exam))
    return found


def blocks(name: str, text: str) -> list[Block]:
    """The blocks of one page that are to run, or to be written, in order."""
    fences = list(FENCE.finditer(text))
    found: list[Block] = []
    for fence, following in zip(fences, [*fences[1:], None]):
        language, body = fence.groups()
        where = f"{name}:{text.count(chr(10), 0, fence.start()) + 1}"
        before, title = text[:fence.start()], TITLE.match(text, fence.start())
        exam = EXAM.search(before) is not None
        if NOT_RUN.search(before):
            continue
        if title:
            found.append(Block(where, (), None, file=title.group(1), text=body))
        elif language == "python":
            command = (sys.executable, "-c", body)
            between = text[fence.end():following.start()].strip() if following else ""
            if following and following.group(1) == "text" and "\n" not in between and not between.startswith("#"):
                found.append(Block(where, command, following.group(2), following.start(2), following.end(2),
                                   exam=exam))
            else:
                found.append(Block(where, command, None, exam=exam))
        elif language == "console":
            exits = EXITS.search(before)
            found += console_blocks(where, body, fence.start(2), int(exits.group(1)) if exits else 0, exam)
    return found


def complaints(name: str, text: str, start: Start = started, exam: bool = True) -> list[str]:
    """What the blocks of a page do otherwise than it says, one text each; none after one that failed.

    `exam`: run the blocks that are left to `make exam` as well.
    """
    found: list[str] = []
    with scratch() as folder:
        for block in blocks(name, text):
            if block.exam and not exam:
                continue
            run = block.run(folder, start)
            if run.returncode != block.exits:
                return [*found, f"{block.where} failed with {run.returncode}:\n{run.stderr}"]
            if block.expected is not None and not same(block.expected, run.stdout):
                found.append(f"{block.where} prints:\n{run.stdout}")
    return found


def refreshed(name: str, text: str, start: Start = started) -> str:
    """The page with the output that its blocks really print. Raises RuntimeError where one fails."""
    outputs = []
    with scratch() as folder:
        for block in blocks(name, text):
            run = block.run(folder, start)
            if run.returncode != block.exits:
                raise RuntimeError(f"{block.where} failed:\n{run.stderr}")
            outputs.append((block, run.stdout))
    for block, output in reversed(outputs):
        if block.expected is not None and not same(block.expected, output):
            text = text[:block.start] + output.strip("\n") + "\n" + text[block.end:]
    return text


def main() -> int:
    """Refresh every page and the quick start, or the pages that are named."""
    parser = argparse.ArgumentParser(description="Write what the blocks of pages print into them.")
    parser.add_argument("pages", nargs="*", type=Path, help="such as docs/guides/plan.md (default: all, and the quick "
                                                            "start)")
    chosen = [page.resolve() for page in parser.parse_args().pages]
    with Forks() as forks:
        for page in chosen or pages():
            old = page.read_text(encoding="utf-8")
            new = refreshed(page.relative_to(ROOT).as_posix(), old, forks)
            if new != old:
                print(f"rewrote {page.relative_to(ROOT)}")
                page.write_text(new, encoding="utf-8")
    if chosen:
        return 0
    table = Block("quickstart", (*CLI, "run", "examples/quickstart/design.yaml"), None).run()
    if table.returncode != 0:
        raise RuntimeError(table.stderr)
    (QUICKSTART / "expected.txt").write_text(table.stdout, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
