"""An all_reduce of 1 GiB on 1,048,576 NPUs in four dims, from a design, without a file: seconds and peak memory.

usage: million_npus.py [--runs 5]

Targets: under 1 s (wall clock of `simulate`; the whole process is printed beside it) and under 500 MB of peak memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from _measure import child, machine, median

TARGET_S, TARGET_MB = 1.0, 500.0


def run() -> None:
    """The measured part, in a process of its own: prints one JSON object."""
    import astrarium as ar

    begun, cpu = time.perf_counter(), time.process_time()
    design = ar.Design(
        workload=ar.SingleCollective("all_reduce", payload="1 GiB"),
        network=ar.Network([ar.Ring(16, bandwidth="200 GB/s", latency="100 ns"),
                            ar.FullyConnected(32, bandwidth="50 GB/s", latency="200 ns"),
                            ar.Ring(32, bandwidth="100 GB/s", latency="500 ns"),
                            ar.Switch(64, bandwidth="50 GB/s", latency="1 us")]),
        collective=ar.Collective(all_reduce=["ring", "direct", "ring", "halving_doubling"], chunks=4, active_chunks=2,
                                 composition="blueconnect"))
    result = ar.simulate(design)
    answer = {"npus": design.network.npus, "makespan_ns": float(result.makespan),
              "wall_s": time.perf_counter() - begun, "cpu_s": time.process_time() - cpu}
    print(json.dumps(answer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return run()
    print(machine())
    answers = [child([sys.executable, __file__, "--one"]) for _ in range(options.runs)]
    rows = [json.loads(text) for text, _, _ in answers]
    wall, cpu = median(row["wall_s"] for row in rows), median(row["cpu_s"] for row in rows)
    peak, whole = median(peak for _, _, peak in answers), median(seconds for _, seconds, _ in answers)
    verdict = "ok" if wall < TARGET_S and peak < TARGET_MB else "MISSED"
    print(f"{rows[0]['npus']:,} NPUs, all_reduce of 1 GiB: makespan {rows[0]['makespan_ns'] / 1e6:.3f} ms")
    print(f"simulate: {wall:.3f} s wall, {cpu:.3f} CPU s; the process {whole:.3f} CPU s, {peak:.0f} MB  "
          f"(target {TARGET_S:g} s, {TARGET_MB:g} MB: {verdict})")
    return None


if __name__ == "__main__":
    main()
