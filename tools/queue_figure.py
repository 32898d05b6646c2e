#!/usr/bin/env python3
"""The figure of docs/background/packets.md: queues of an incast under RoCE, with the pauses that it spreads.

`python tools/queue_figure.py` writes docs/background/figures/packets_queues.svg; `--check` exits 1 where it is not
current. Both engines draw the same.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import astrarium as ar
from astrarium.network.packets import Packets
from astrarium.network.roce import Roce
from astrarium.report.plot.plots.queues import link_queues
from astrarium.report.plot.svg import svg_file
from astrarium.trace import TraceBuilder, traces_of_bytes

FIGURE = Path(__file__).resolve().parent.parent / "docs" / "background" / "figures" / "packets_queues.svg"
HOSTS, SENDERS, SIZE = 32, 24, 500_000
LINK = {"bandwidth": "50 GB/s", "latency": "500 ns"}
ROCE = Roce(buffer="4 MB")


def design() -> ar.Design:
    """A Clos network of 32 NPUs, eight on a leaf."""
    clos = ar.blueprint("clos", hosts=HOSTS, xpus=1, ports=16, links={"access": LINK, "spine": LINK, "inside": "free"})
    packets = Packets(transport=ROCE, queues=True)
    return ar.Design(workload=ar.Trace("in memory"),
                     network=ar.Network(fabric=clos, backend="packets", packets=packets, ecmp=1))


def traces() -> list[bytes]:
    """The NPUs of the other three leaves send to NPU 0."""
    ranks = [TraceBuilder() for _ in range(HOSTS)]
    for sender in range(HOSTS - SENDERS, HOSTS):
        ranks[sender].send(f"to 0 from {sender}", 0, SIZE)
        ranks[0].recv(f"from {sender}", sender, SIZE)
    return [rank.encode() for rank in ranks]


def draw(*, pure: bool = False) -> str:
    """The figure, as SVG."""
    made = design()
    return svg_file(link_queues(ar.simulate(made, traces=traces_of_bytes(traces()), pure=pure), made))


def main(arguments: Sequence[str]) -> int:
    """0 where the figure is current, or has been written."""
    made = draw()
    if "--check" not in arguments:
        FIGURE.write_text(made, encoding="utf-8")
        return 0
    current = FIGURE.is_file() and FIGURE.read_text(encoding="utf-8") == made
    if not current:
        print(f"{FIGURE.name} is not current: python tools/queue_figure.py")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
