"""COMET's study, reconstructed: one command makes its tables, figures and verdicts; or the report of your own clusters.

usage: study.py --out DIR [--parameters FILE]

Writes DIR/report.md and DIR/*.svg and prints the report. Nothing in it is random; it takes less than a CPU-minute.
A file without `published` ratios (`mine.yaml`) gets the report of its own cases and clusters, with their prices.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from comet import Lab, load_book
from figures import figures
from own import own_report
from tables import report
from work import found_by

from astrarium import InputError

PARAMETERS = Path(__file__).parent / "parameters.yaml"


def main() -> int:
    """Runs the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of report and figures")
    parser.add_argument("--parameters", type=Path, default=PARAMETERS, help="another file of parameters")
    given = parser.parse_args()
    start = time.process_time()
    try:
        given.out.mkdir(parents=True, exist_ok=True)
        lab = Lab(load_book(given.parameters))
        text, drawn = own_report(lab) if not lab.book.names("published") else _study(lab, start)
    except (InputError, OSError) as error:
        sys.stderr.write(f"study.py: {error}\n")
        return 1
    for name, svg in drawn.items():
        (given.out / f"{name}.svg").write_text(svg, encoding="utf-8")
    (given.out / "report.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


def _study(lab: Lab, start: float) -> tuple[str, dict[str, str]]:
    """The reconstruction: its report, and its figures."""
    found = found_by(lab)
    drawn = figures(found)
    return report(found, time.process_time() - start), drawn


if __name__ == "__main__":
    sys.exit(main())
