#!/usr/bin/env python3
"""Write src/astrarium/_core.pyi from the compiled core with nanobind's stub generator.

`--check` writes nothing and fails, with the difference, when the file is out of date.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

STUB = Path(__file__).resolve().parent.parent / "src" / "astrarium" / "_core.pyi"


def generate() -> str:
    """The stub of the astrarium._core that this interpreter imports."""
    module = importlib.import_module("astrarium._core")
    generator = StubGen(module)
    generator.put(module)
    return str(generator.get())


def main(arguments: list[str]) -> int:
    """Write the stub, or check it."""
    fresh = generate()
    if "--check" not in arguments:
        STUB.write_text(fresh, encoding="utf-8")
        return 0
    held = STUB.read_text(encoding="utf-8") if STUB.exists() else ""
    difference = list(difflib.unified_diff(held.splitlines(), fresh.splitlines(), "_core.pyi", "core", lineterm=""))
    print("\n".join(difference) or "stubs: up to date")
    if difference:
        print("stubs: out of date; run `make stubs` and commit the file")
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
