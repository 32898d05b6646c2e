"""How long it takes to begin: `import astrarium`, and 8-NPU examples through the command line, each a new process.

usage: startup.py [--runs 11]

Targets, wall clock, medians: import under 150 ms beyond an empty Python, the examples under 0.3 s.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from _cases import Case, MiB, one
from _measure import child, machine, median

from astrarium.vocab import CommOp

EXAMPLE = Case("8 NPUs", (("Switch", 8, 50, 500),), ("direct",), lambda: one(CommOp.ALL_REDUCE, MiB), {}, {})
DESIGN = """\
workload:
  source: collective
  op: all_reduce
  payload: 1 MiB
network:
  dims:
    - shape: switch
      npus: 8
      bandwidth: 50 GB/s
      latency: 500 ns
"""


def wall(command: Sequence[str], runs: int) -> float:
    """Median seconds of a command, one run before that unmeasured."""
    seconds = []
    for _ in range(runs + 1):
        begun = time.perf_counter()
        child([sys.executable, *command])
        seconds.append(time.perf_counter() - begun)
    return median(seconds[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=11)
    runs = parser.parse_args().runs
    print(machine())
    empty, imported = wall(["-c", "pass"], runs), wall(["-c", "import astrarium"], runs)
    print(f"import astrarium: {1e3 * (imported - empty):.0f} ms beyond an empty Python ({1e3 * empty:.0f} ms)  "
          f"(target 150 ms: {'ok' if imported - empty < 0.15 else 'MISSED'})")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "design.yaml").write_text(DESIGN)
        lines = {"astra-sim": EXAMPLE.write(folder), "run": [str(folder / "design.yaml")]}
        for verb, arguments in lines.items():
            seconds = wall(["-m", "astrarium", verb, *arguments], runs)
            print(f"astrarium {verb}, 8 NPUs: {seconds:.3f} s  (target 0.3 s: {'ok' if seconds < 0.3 else 'MISSED'})")


if __name__ == "__main__":
    main()
