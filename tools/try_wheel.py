#!/usr/bin/env python3
"""Try a wheel as a stranger: an empty environment, an empty folder, no compiler, no checkout on the path.

usage: try_wheel.py WHEEL

Installs the wheel with what it needs, runs `astrarium --version` and README's blocks, and compares what they print.
Exit status 0 when all is well.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from prose import CLI, ROOT, Block, blocks, same

README = ROOT / "README.md"


def environment(folder: Path) -> dict[str, str]:
    """The caller's environment without compilers, and without any path to the checkout."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ASTRARIUM"))}
    return {**found, "CC": "/bin/false", "CXX": "/bin/false", "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}


def tried(block: Block, folder: Path, at: Path) -> str:
    """What is wrong with a block; empty: nothing."""
    words = block.command[len(CLI):] if block.command[:len(CLI)] == CLI else None
    command = [str(folder / "bin" / "astrarium"), *words] if words is not None else [
        str(folder / "bin" / "python"), *block.command[1:]]
    ran = subprocess.run(command, cwd=at, env=environment(folder), capture_output=True, text=True, check=False)
    if ran.returncode:
        return f"{block.where} failed with {ran.returncode}:\n{ran.stderr}"
    if block.expected is not None and not same(block.expected, ran.stdout):
        return f"{block.where} prints:\n{ran.stdout}{ran.stderr}"
    return ""


def main(wheel: str) -> int:
    """Install and run; print each block's verdict."""
    with tempfile.TemporaryDirectory() as name:
        folder, at = Path(name) / "env", Path(name) / "empty"
        at.mkdir()
        venv.create(folder, with_pip=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "-q", "--only-binary", ":all:", wheel], check=True,
                       env=environment(folder))
        subprocess.run([str(folder / "bin" / "astrarium"), "--version"], check=True, env=environment(folder), cwd=at)
        found = [each for each in blocks("README.md", README.read_text(encoding="utf-8")) if each.expected]
        wrong = [problem for problem in (tried(each, folder, at) for each in found) if problem]
        print("\n".join([*wrong, f"{len(found) - len(wrong)} of {len(found)} blocks of README print what it shows"]))
    return 1 if wrong or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
