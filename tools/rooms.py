#!/usr/bin/env python3
"""Write the order of the rooms, which stands in pyproject.toml, into CONTRIBUTING.md; `--check` only compares."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = re.compile(r"^layers = \[\n(.*?)^\]", re.MULTILINE | re.DOTALL)
TIED = "\0"         # a space at which no line ends
BLOCK = re.compile(r"^ {4}cli\b.*\n(?: {4}.*\n)*", re.MULTILINE)


def order(root: Path) -> str:
    """The rooms that exist, from the top down: `>` above, `|` beside each other."""
    lines = re.findall(r'"(.*)"', LAYERS.findall((root / "pyproject.toml").read_text(encoding="utf-8"))[0])
    package = root / "src" / "astrarium"
    layers = [[name for name in re.findall(r"\w+", line) if (package / name).exists()
               or (package / f"{name}.py").exists()] for line in lines]
    return f" >{TIED}".join(f" |{TIED}".join(names) for names in layers if names)


def page(root: Path) -> str:
    """CONTRIBUTING.md with the order in force."""
    lines = textwrap.wrap(order(root), 100, initial_indent="    ", subsequent_indent="       ")
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found, count = BLOCK.subn("\n".join(lines).replace(TIED, " ") + "\n", text)
    if count != 1:
        raise SystemExit(f"CONTRIBUTING.md has {count} indented blocks that begin with cli, not 1 (order of rooms)")
    return found


def main() -> int:
    """Write the page; with `--check`, 1 where it is another one."""
    path, wanted = ROOT / "CONTRIBUTING.md", page(ROOT)
    stale = path.read_text(encoding="utf-8") != wanted
    if "--check" in sys.argv[1:]:
        print("rooms: " + ("CONTRIBUTING.md shows another order; write it: tools/rooms.py" if stale else "in order"))
        return int(stale)
    path.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
