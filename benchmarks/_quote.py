"""Runs the benchmarks and puts what they print into docs/benchmarks.md.

usage: _quote.py [SCRIPT ...]        (default: every script that the page quotes)

A text block of the page that follows `<!-- benchmarks/NAME.py -->` is replaced by the output of that script.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from _measure import child

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
BLOCK = re.compile(r"(<!-- benchmarks/(\w+\.py)([^>]*?) -->\n\n```text\n)(.*?)(```)", re.DOTALL)


def main(chosen: list[str]) -> None:
    def fresh(match: re.Match[str]) -> str:
        if chosen and match[2] not in chosen:
            return match[0]
        print(f"{match[2]}{match[3]}", file=sys.stderr, flush=True)
        text = child([sys.executable, str(HERE / match[2]), *match[3].split()])[0]
        return f"{match[1]}{text}{match[5]}"

    PAGE.write_text(BLOCK.sub(fresh, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
