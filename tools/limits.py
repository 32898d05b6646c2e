#!/usr/bin/env python3
"""House rule 10, cap the tail: no file and no function so long that it cannot be read at once (C++: cpp_limits.py).

Exit status 1 and one line per offender. `python tools/limits.py [folder ...]` (default: src, tools, tests).
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

FILE_LINES = 400
FUNCTION_LINES = 60
FUNCTION_P90 = 45
FOLDERS = ("src", "tools", "tests")


def functions(path: Path) -> list[tuple[int, int, str]]:
    """(lines, line number, name) of every function in a Python file; the docstring does not count."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        doc = 0
        if ast.get_docstring(node) is not None:
            first = node.body[0]
            doc = (first.end_lineno or first.lineno) - first.lineno + 1
        found.append(((node.end_lineno or node.lineno) - node.lineno + 1 - doc, node.lineno, node.name))
    return found


def offenders(folders: list[Path]) -> list[str]:
    """One sentence per file or function over its limit."""
    complaints: list[str] = []
    lengths: list[int] = []
    for path in sorted(p for folder in folders for p in folder.rglob("*.py")):
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > FILE_LINES:
            complaints.append(f"{path}: {lines} lines, limit {FILE_LINES}")
        for length, line, name in functions(path):
            lengths.append(length)
            if length > FUNCTION_LINES:
                complaints.append(f"{path}:{line}: {name} has {length} lines, limit {FUNCTION_LINES}")
    lengths.sort()
    p90 = lengths[int(0.9 * len(lengths))] if lengths else 0
    if p90 > FUNCTION_P90:
        complaints.append(f"the 90th percentile of function lengths is {p90} lines, limit {FUNCTION_P90}")
    return complaints


def main(arguments: list[str]) -> int:
    """Print the offenders; 1 when there are any."""
    root = Path(__file__).resolve().parent.parent
    folders = [Path(a) for a in arguments] or [root / name for name in FOLDERS if (root / name).is_dir()]
    complaints = offenders(folders)
    for complaint in complaints:
        print(complaint.replace(f"{root}/", ""))
    print(f"limits: {len(complaints)} over the limit")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
