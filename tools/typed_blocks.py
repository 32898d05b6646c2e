#!/usr/bin/env python3
"""Types of what README, docs and examples show: mypy over every Python block and every example (`make types`).

Each block of a page is a module of its own. A block with a title (```py title="own/mine.py"``) is the file that later
blocks of its page import, so pages with such files are checked apart. Blocks after `<!-- not run: why -->` are checked,
too. Prints `page:line: error` for each mistake, and exits with 1 if there is one.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mypy import api
from prose import FENCE, ROOT, TITLE, pages

OPTIONS = ("--config-file=", "--python-version=3.10", "--check-untyped-defs", "--no-error-summary", "--no-color-output",
           "--hide-error-context", "--ignore-missing-imports", "--explicit-package-bases",
           f"--cache-dir={ROOT / '.mypy_cache' / 'blocks'}")
LINE = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)$")


def blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """(line of its first statement, title or "", code) of each Python block of a page."""
    for fence in FENCE.finditer(text):
        language, body = fence.groups()
        title = TITLE.match(text, fence.start())
        name = title.group(1) if title else ""
        if language == "python" or name.endswith(".py"):
            yield text.count("\n", 0, fence.start()) + 2, name, body


def written(page: Path, folder: Path) -> dict[str, tuple[str, int]]:
    """Write the blocks of a page into a folder: file -> (the page, the line before the block's first)."""
    found = {}
    for line, title, body in blocks(page.read_text(encoding="utf-8")):
        name = Path(title).name if title else f"block_{line}.py"
        (folder / name).write_text(body, encoding="utf-8")
        found[str(folder / name)] = page.relative_to(ROOT).as_posix(), line - 1
    return found


def checked(folder: Path, found: dict[str, tuple[str, int]]) -> list[str]:
    """The mistakes in the files of a folder, which import each other, by page and line."""
    os.environ["MYPYPATH"] = f"{folder}:{ROOT / 'src'}"
    out, broken, _ = api.run([*OPTIONS, *found])
    if broken:
        raise RuntimeError(broken)
    said = []
    for line in out.splitlines():
        match = LINE.match(line)
        if match:
            page, before = found[match["file"]]
            said.append(f"{page}:{before + int(match['line'])}: {match['text']}")
    return said


def main() -> int:
    """Check all pages; print what is wrong."""
    together: dict[str, tuple[str, int]] = {}       # blocks of pages without files of their own
    said: list[str] = []
    count = 0
    with tempfile.TemporaryDirectory() as name:
        shared = Path(name) / "shared"
        shared.mkdir()
        for number, page in enumerate(pages()):
            own = Path(name) / str(number)
            own.mkdir()
            found = written(page, own)
            count += len(found)
            if all(Path(file).stem.startswith("block_") for file in found):
                for file, place in found.items():
                    together[str(shutil.move(file, shared / f"page_{number}_{Path(file).name}"))] = place
            else:
                said += checked(own, found)
        said += checked(shared, together)
    print("\n".join([*said, f"{count} blocks, {len(said)} mistakes"]))
    return bool(said)


if __name__ == "__main__":
    sys.exit(main())
