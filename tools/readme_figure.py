#!/usr/bin/env python3
"""The figure of README.md: a training step of Llama 3 70B on 128 H100 in six layouts. Parts are means over the GPUs.

`python tools/readme_figure.py` writes docs/background/figures/readme_layouts.svg; `--check` exits 1 if the file is not
current.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import astrarium as ar

ROOT = Path(__file__).resolve().parent.parent
FIGURE = ROOT / "docs" / "background" / "figures" / "readme_layouts.svg"
LAYOUTS = ((8, 1), (8, 4), (4, 2), (4, 4), (4, 8), (2, 16))     # tp, pp
TITLE = "Llama 3 70B on 128 H100 with 80 GB: memory of the fullest GPU, time of a step"
PARTS = (("compute", "#4477aa"), ("exposed communication", "#ee6677"), ("waiting (pipeline bubble)", "#dddddd"))


def design(tp: int, pp: int) -> ar.Design:
    """The design of README.md with this layout."""
    return ar.Design(
        workload=ar.Transformer("llama3-70b", global_batch=512, micro_batch=1, zero=1, tp_sequence=True,
                                tp=tp, pp=pp, dp=128 // (tp * pp)),
        compute=ar.Roofline(peak="989 TFLOP/s"),
        memory=ar.Memory(capacity="80 GB", bandwidth="3.35 TB/s"),
        network=ar.Network([ar.Switch(8, bandwidth="450 GB/s", latency="500 ns"),
                            ar.Switch(16, bandwidth="50 GB/s", latency="2 us")]),
    )


def draw() -> str:
    """The figure, as SVG."""
    sys.path.append(str(ROOT / "examples" / "comet"))
    from maps import stacked_bars

    bars = []
    for tp, pp in LAYOUTS:
        result = ar.simulate(design(tp, pp))
        row, ranks = result.outcome.row, result.ranks
        compute, exposed = (float(column[row].mean()) / 1e12 for column in (ranks.compute, ranks.exposed_comm))
        memory = float(result.peak_memory or 0) / 1e9
        bars.append((f"tp {tp}, pp {pp}: {memory:.0f} GB",
                     (compute, exposed, result.makespan_ps / 1e12 - compute - exposed)))
    return stacked_bars(TITLE, PARTS, bars, lambda value: f"{value:.1f} s") + "\n"


def main(arguments: Sequence[str]) -> int:
    """0 if the figure is current or has been written."""
    made = draw()
    if "--check" not in arguments:
        FIGURE.write_text(made, encoding="utf-8")
        return 0
    current = FIGURE.is_file() and FIGURE.read_text(encoding="utf-8") == made
    if not current:
        print(f"{FIGURE.name} is not current: python tools/readme_figure.py")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
