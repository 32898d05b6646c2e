#!/usr/bin/env python3
"""Write the stubs src/astrarium/_core/*.pyi from the compiled core with nanobind's stub generator.

`--check` writes nothing and fails, with the difference, when a file is out of date.
"""

from __future__ import annotations

import difflib
import subprocess
import sys
import tempfile
from pathlib import Path

STUBS = Path(__file__).resolve().parent.parent / "src" / "astrarium" / "_core"


def generate() -> dict[str, str]:
    """File name -> text of the stubs of the astrarium._core that this interpreter imports."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "astrarium._core", "-r", "-O", folder]
        subprocess.run(command, check=True)
        paths = sorted(Path(folder).rglob("*.pyi"))
        return {path.name: path.read_text(encoding="utf-8") for path in paths}


def main(arguments: list[str]) -> int:
    """Write the stubs, or check them."""
    fresh = generate()
    held = {path.name: path.read_text(encoding="utf-8") for path in sorted(STUBS.glob("*.pyi"))}
    if "--check" not in arguments:
        STUBS.mkdir(exist_ok=True)
        for name in held.keys() - fresh.keys():
            (STUBS / name).unlink()
        for name, text in fresh.items():
            (STUBS / name).write_text(text, encoding="utf-8")
        return 0
    stale = [name for name in sorted(fresh.keys() | held.keys()) if fresh.get(name) != held.get(name)]
    for name in stale:
        lines = (held.get(name, "").splitlines(), fresh.get(name, "").splitlines())
        print("\n".join(difflib.unified_diff(*lines, f"_core/{name}", "compiled core", lineterm="")))
    print(f"stubs: {'out of date; run `make stubs` and commit them' if stale else 'up to date'}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
