"""COMET's study, reconstructed: one command makes its tables, figures and verdicts.

usage: study.py --out DIR [--parameters FILE]

Writes DIR/report.md and DIR/*.svg and prints the report. Nothing in it is random; it takes less than a CPU-minute.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from comet import Lab, load_book
from figures import figures
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
        found = found_by(Lab(load_book(given.parameters)))
    except (InputError, OSError) as error:
        sys.stderr.write(f"study.py: {error}\n")
        return 1
    for name, text in figures(found).items():
        (given.out / f"{name}.svg").write_text(text, encoding="utf-8")
    text = report(found, time.process_time() - start)
    (given.out / "report.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
