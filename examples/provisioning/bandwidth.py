"""Which bandwidth per dim should a network's money buy? (LIBRA's question, arXiv 2109.11762.)

    python examples/provisioning/bandwidth.py [--design FILE] [--money DOLLARS] [--bandwidth "600 GB/s"]
        [--objective time|time_x_cost] [--floor "1 GB/s"] [-o FILE]

Without a budget, the money is what the design's own network costs. `-o` writes the design with the best bandwidths.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import astrarium as ar
from astrarium.cost import network_cost
from astrarium.provision import Budget, provision, with_bandwidths

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Ask, print the answer, write the design."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--design", default=str(HERE / "design.yaml"))
    parser.add_argument("--money", type=float, help="US dollars of the network")
    parser.add_argument("--bandwidth", help="sum over the dims, of one NPU")
    parser.add_argument("--floor", default="1 GB/s", help="least bandwidth of a dim")
    parser.add_argument("--objective", default="time", choices=("time", "time_x_cost"))
    parser.add_argument("-o", "--out", help="file for the design with the best bandwidths")
    asked = parser.parse_args()
    try:
        design = ar.load_design(asked.design)
        money = network_cost(design.network) if asked.money is None and asked.bandwidth is None else asked.money
        found = provision(design, Budget(money=money, bandwidth=asked.bandwidth, floor=asked.floor), asked.objective)
        if asked.out:
            ar.dump_design(with_bandwidths(design, found.best.bandwidths), asked.out)
    except ar.AstrariumError as error:
        print(f"bandwidth.py: {error}", file=sys.stderr)
        return error.exit_code
    now = ar.simulate(design, record=False).makespan
    print(f"as it is: {now}, ${network_cost(design.network):,.0f} of network")
    print(found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
