"""The same 64 NPUs and the same training step, linked in four ways: what each costs in time.

    python examples/scale/compare.py

Losses on the long-haul line: a TCP-like flow that loses a share p of its packets gets MSS / RTT * sqrt(3 / 2) / sqrt(p)
(Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm", CCR 27(3), 1997).

Local steps: each data centre trains a replica for H steps by itself, then the parameters are averaged over both
(DiLoCo, arXiv 2311.08105, which has H = 500). What that does to the model's quality is not predicted here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import astrarium as ar

HERE = Path(__file__).resolve().parent
MSS = 8960                      # bytes of a packet of 9,000 (jumbo frames, assumed), less headers
FLOWS = 8                       # parallel ones of one NPU on the long-haul line; assumed
LOSSES = (1e-6, 1e-4)
LOCAL_STEPS = 500
PARAMETERS, BYTES = 8_030_261_248, 2        # of llama3-8b; averaged in bf16


def goodput(dim: ar.Switch, loss: float) -> float:
    """Share of a dim's bandwidth that FLOWS flows of an NPU get at a share of lost packets, 1 at most."""
    round_trip = 2 * 2 * float(dim.latency)     # ns: two hops there, two back
    flow = MSS / round_trip * math.sqrt(1.5) / math.sqrt(loss)
    return min(1.0, FLOWS * flow / dim.link_bandwidth)


def rows() -> Iterator[tuple[str, float]]:
    """(what, ns of a step)."""
    for name, what in (("up", "scale-up: one domain of 64"), ("in", "scale-in: two dies a package"),
                       ("out", "scale-out: eight hosts")):
        design = ar.load_design(HERE / f"{name}.yaml")
        yield what, float(ar.simulate(design, record=False).makespan)
    across = ar.load_design(HERE / "across.yaml")
    for loss in LOSSES:
        share = goodput(across.network.flat[2], loss)
        design = ar.replace(across, "network.dims[2].efficiency", share)
        where = f"{1e6 * loss:g} packets of a million lost, {100 * share:.0f} % goodput"
        flat = ar.replace(design, "collective.composition", "baseline")
        yield f"scale-across, whole gradients: {where}", float(ar.simulate(flat, record=False).makespan)
        yield f"scale-across, hierarchical: {where}", float(ar.simulate(design, record=False).makespan)
        yield f"scale-across, {LOCAL_STEPS} local steps: {where}", local_steps(design)


def local_steps(design: ar.Design) -> float:
    """ns of a step where the data centres train alone and average their parameters now and then."""
    work, dims = design.workload, design.network.dims
    alone = ar.replace_all(design, {"network.dims": list(dims[:2]), "workload.dp": work.dp // dims[2].npus,
                                    "workload.global_batch": work.global_batch // dims[2].npus})
    average = ar.Design(workload=ar.SingleCollective("all_reduce", payload=f"{PARAMETERS * BYTES} B"),
                        network=design.network, collective=design.collective)
    return (float(ar.simulate(alone, record=False).makespan)
            + float(ar.simulate(average, record=False).makespan) / LOCAL_STEPS)


def main() -> None:
    """Print the table."""
    found = list(rows())
    first = next(time for name, time in found if name.startswith("scale-out"))
    for name, time in found:
        print(f"{name:<75} {time / 1e6:>9.1f} ms  {time / first:>6.2f} x scale-out")


if __name__ == "__main__":
    main()
