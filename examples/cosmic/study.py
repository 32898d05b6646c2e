"""COSMIC's study as one command: python examples/cosmic/study.py --quick --out DIR (or --full; --preset public_code).

Every search is a study file in DIR/studies; the same command goes on where the last one stopped. DIR/report.md holds
our tables beside the published ranges, and a verdict with its reason on each published finding.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from findings import report
from runs import FULL, QUICK, carry_out, plan


def main() -> int:
    """Runs the study and writes its report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--quick", action="store_true", help="under 15 minutes on 2 cores: runs end early")
    size.add_argument("--full", action="store_true", help="5 seeds, 1,000 trials a run (200 of the Gaussian process)")
    parser.add_argument("--out", type=Path, required=True, help="folder of study files and report")
    parser.add_argument("--preset", choices=("talk", "public_code"), default="talk",
                        help="the talk's tables, or the public code's: 4 layers, first dim no switch, FC / 7")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--part", action="append", help="agents, stacks, spread, scaling, models, mixes (all)")
    given = parser.parse_args()
    folder = given.out / "studies"
    folder.mkdir(parents=True, exist_ok=True)
    effort, start = QUICK if given.quick else FULL, time.perf_counter()

    def say(line: str) -> None:
        sys.stderr.write(f"{time.perf_counter() - start:7.0f} s  {line}\n")

    found = [carry_out(run, folder, given.jobs, say) for run in plan(effort, given.preset)
             if given.part is None or run.part in given.part]
    text = report(found, effort, given.preset, time.perf_counter() - start)
    (given.out / "report.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
