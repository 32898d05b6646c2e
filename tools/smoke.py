#!/usr/bin/env python3
"""Does an installed Astrarium work? Runs the quick start with it; wheels are tested with this.

`--pure` demands that there be no compiled core, else one is demanded. Exit status 0 when all is well.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import astrarium
from astrarium.trace import HAVE_CORE

DESIGN = Path(__file__).resolve().parent.parent / "examples" / "quickstart" / "design.yaml"


def main(arguments: list[str]) -> int:
    """Check the core's presence, then simulate."""
    core = "with" if HAVE_CORE else "without"
    print(f"astrarium {importlib.metadata.version('astrarium')} {core} compiled core, from {astrarium.__file__}")
    if ("--pure" in arguments) == HAVE_CORE:
        print("that is not what was asked for")
        return 1
    result = astrarium.simulate(astrarium.load_design(DESIGN))
    print(f"makespan {result.makespan_ps} ps, events {result.outcome.events}")
    return 0 if result.makespan_ps > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
