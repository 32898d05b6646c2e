"""What measured kernels cost a search: distinct designs per CPU second over layouts of a transformer, with
`compute: roofline` and `compute: measured`, the same points with both.

usage: search_compute.py [TRIALS]        (default 1200; also run with measured collectives beside both)

Llama 3 8B on 64 H100: tp, pp, dp, micro-batch, ZeRO, recomputation, sequence parallelism, samples of a step. The target
is at least 80 % of the roofline's rate.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from _measure import machine, process_s

import astrarium as ar

BASE = """
workload: {source: transformer, model: llama3-8b, tp: 8, dp: 8, global_batch: 128, micro_batch: 1}
compute: h100_sxm
memory: h100_sxm
network:
  dims: [{like: dgx_h100_nvswitch, npus: 8}, {like: infiniband_ndr, npus: 8, latency: 3 us}]
"""
KNOBS = {"workload.tp": [1, 2, 4, 8], "workload.pp": [1, 2, 4, 8], "workload.dp": [1, 2, 4, 8, 16, 32, 64],
         "workload.micro_batch": [1, 2, 4], "workload.zero": [0, 1, 3], "workload.tp_sequence": [False, True],
         "workload.recompute": ["none", "selective", "full"], "workload.global_batch": [128, 192, 256, 320, 384]}
RULES = ["workload.tp * workload.pp * workload.dp == 64", "workload.tp > 1 or not workload.tp_sequence",
         "workload.pp == 1 or workload.zero <= 1"]
ROUNDS = 2


def base(compute: str, collectives: str) -> ar.Design:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "design.yaml"
        path.write_text(BASE, encoding="utf-8")
        plain = ar.load_design(path)
    model = plain.compute if compute == "roofline" else ar.Measured(device="h100_sxm")
    return ar.replace_all(plain, {"compute": model, "collective.model": collectives})


def rate(compute: str, collectives: str, trials: int) -> tuple[float, int]:
    """(distinct designs per CPU second, how many there were)."""
    space = ar.Space(base(compute, collectives), KNOBS, RULES)
    start = process_s()
    study = ar.search(space, "makespan", agent="random", trials=trials, seed=1)
    return study.distinct / (process_s() - start), study.distinct


def main(trials: int) -> None:
    print(machine())
    for collectives in ("simulated", "measured"):
        best = {"roofline": 0.0, "measured": 0.0}
        distinct = 0
        for _ in range(ROUNDS):
            for compute, before in best.items():
                found, distinct = rate(compute, collectives, trials)
                best[compute] = max(before, found)
        print(f"{trials:,} trials, {distinct:,} distinct, collectives {collectives}: roofline {best['roofline']:.0f}, "
              f"measured {best['measured']:.0f} designs per CPU second: {best['measured'] / best['roofline']:.0%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1200)
