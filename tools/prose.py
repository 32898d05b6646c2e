#!/usr/bin/env python3
"""Code blocks of README and docs: find them, run them, and write what they print into the page.

- A `python` block followed by a `text` block (at most one line of prose between them) must print exactly that text.
- A `python` block without one must run.
- In a `console` block every `$ astrarium ...` line is run; the lines up to the next `$` are its standard output.
- `...` in expected output stands for anything, as in doctest.
- `<!-- not run: why -->` on the line before a block leaves it out.

Blocks run in the checkout, each in a process of its own. `python tools/prose.py` rewrites the output of every block
that prints something else than its page says, and examples/quickstart/expected.txt: read the difference.
"""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: .+ -->\s*$")
CLI = (sys.executable, "-c", "import sys; from astrarium.cli import main; sys.exit(main())")
QUICKSTART = ROOT / "examples" / "quickstart"


@dataclass(frozen=True)
class Block:
    """A command; the standard output that the page promises, if it does, is page[start:end]."""

    where: str
    command: tuple[str, ...]
    expected: str | None
    start: int = 0
    end: int = 0

    def run(self) -> subprocess.CompletedProcess[str]:
        """The finished process."""
        return subprocess.run(self.command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def pages() -> list[Path]:
    """README and every page of docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def same(expected: str, got: str) -> bool:
    """Whether `got` is `expected`, up to `...` and spaces at line ends."""
    want, have = ("\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n" for text in (expected, got))
    return doctest.OutputChecker().check_output(want, have, doctest.ELLIPSIS)


def console_blocks(where: str, text: str, at: int) -> list[Block]:
    """The `$ astrarium` lines of a console block (which starts at `at`) with their output."""
    found = []
    for line in re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, flags=re.MULTILINE):
        words = shlex.split(line.group(1), comments=True)
        if words and words[0] == "astrarium":
            output = line.group(2) if line.group(2).strip() else None
            found.append(Block(where, (*CLI, *words[1:]), output, at + line.start(2), at + line.end(2)))
    return found


def blocks(name: str, text: str) -> list[Block]:
    """The blocks of one page that are to run."""
    fences = list(FENCE.finditer(text))
    found: list[Block] = []
    for fence, following in zip(fences, [*fences[1:], None]):
        language, body = fence.groups()
        where = f"{name}:{text.count(chr(10), 0, fence.start()) + 1}"
        if NOT_RUN.search(text[:fence.start()]):
            continue
        if language == "python":
            command = (sys.executable, "-c", body)
            between = text[fence.end():following.start()].strip() if following else ""
            if following and following.group(1) == "text" and "\n" not in between and not between.startswith("#"):
                found.append(Block(where, command, following.group(2), following.start(2), following.end(2)))
            else:
                found.append(Block(where, command, None))
        elif language == "console":
            found += console_blocks(where, body, fence.start(2))
    return found


def refreshed(name: str, text: str) -> str:
    """The page with the output that its blocks really print. Raises RuntimeError where one fails."""
    for block in reversed(blocks(name, text)):
        run = block.run()
        if run.returncode != 0:
            raise RuntimeError(f"{block.where} failed:\n{run.stderr}")
        if block.expected is not None and not same(block.expected, run.stdout):
            text = text[:block.start] + run.stdout.strip("\n") + "\n" + text[block.end:]
    return text


def main() -> int:
    """Refresh every page and the quick start."""
    for page in pages():
        old = page.read_text(encoding="utf-8")
        new = refreshed(page.relative_to(ROOT).as_posix(), old)
        if new != old:
            print(f"rewrote {page.relative_to(ROOT)}")
            page.write_text(new, encoding="utf-8")
    table = Block("quickstart", (*CLI, "run", "examples/quickstart/design.yaml"), None).run()
    if table.returncode != 0:
        raise RuntimeError(table.stderr)
    (QUICKSTART / "expected.txt").write_text(table.stdout, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
