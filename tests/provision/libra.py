"""LIBRA's own cases: its workloads as numbers, its networks, and the allocations that its authors published.

Sources: github.com/astra-sim/libra at 0044db0 (the code of ISPASS 2024: `inputs/`), and
github.com/willjwon/sc245-artifact at 3e777c7 (the artifact of an earlier version of the paper: optimizer_input/, and in
evaluation_input/script_full/ the bandwidths that its optimiser found). A workload is two transformer blocks, layer
after layer, nothing overlapped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import astrarium as ar
from astrarium.trace.compose import ClassBuilder
from astrarium.trace.work import Generated
from astrarium.vocab import CommOp

__all__ = ["ARTIFACT", "ARTIFACT_NETWORKS", "PUBLISHED", "RELEASED", "RELEASED_NETWORKS", "Case", "artifact_prices",
           "design_of", "released_prices", "traces_of"]


@dataclass(frozen=True)
class Case:
    """A workload: tensor-parallel ranks; ns of computing in a step; bytes of its tensor-parallel all-reduces and
    all-gather shards (with how many of each), and of its data-parallel all-reduces. `mp` 1: no tensor parallelism."""

    mp: int
    compute: int
    reduces: tuple[int, int] = (0, 0)        # bytes, how many
    gathers: tuple[int, int] = (0, 0)
    gradients: tuple[tuple[int, int], ...] = ()


def _compute(attention: int, softmax: int, ffn: int, norm: int) -> int:
    """ns of two blocks of four attention projections, two parts of attention, two of the FFN, a norm; three phases."""
    return 2 * 3 * (4 * attention + 2 * softmax + 2 * ffn + norm)


# of the artifact; a forward all-reduce runs twice there (once more in the recomputation)
ARTIFACT = {
    "17B": Case(1, _compute(4_498_545, 270_589, 17_994_181, 1_057), (0, 0), (0, 0),
                ((36_227_072, 8), (144_908_288, 4))),
    "175B": Case(16, _compute(9_375_000, 781_250, 37_500_000, 12_207), (805_306_368, 12), (50_331_648, 2),
                 ((18_874_368, 8), (75_497_472, 4))),
    "1T": Case(128, _compute(2_343_750, 97_656, 9_375_000, 12_207), (805_306_368, 12), (6_291_456, 2),
               ((9_437_184, 8), (37_748_736, 4))),
}
ARTIFACT_NETWORKS = {"2D": (8, 128), "3D": (8, 8, 16), "4D": (2, 8, 8, 8)}

# of the released code; its gradients are one all-reduce
RELEASED = {
    "Turing_NLG": Case(1, _compute(4_498_545, 270_589, 17_994_181, 1_057), gradients=((869_449_728, 1),)),
    "GPT_3": Case(16, _compute(9_375_000, 781_250, 37_500_000, 12_207), (805_306_368, 8), (50_331_648, 2),
                  ((452_984_832, 1),)),
    "MSFT_1T": Case(128, _compute(2_343_750, 97_656, 9_375_000, 12_207), (805_306_368, 8), (6_291_456, 2),
                    ((226_492_416, 1),)),
}
RELEASED_NETWORKS = {"3D": (16, 8, 32), "4D": (4, 8, 4, 32)}

# (objective, network, workload) -> GB/s per NPU and dim, of 100 GB/s in all
PUBLISHED: dict[tuple[str, str, str], tuple[float, ...]] = {
    ("time", "2D", "17B"): (87.58, 12.42), ("time", "2D", "175B"): (81.92, 18.08), ("time", "2D", "1T"): (87.18, 12.82),
    ("time", "3D", "17B"): (87.55, 10.96, 1.49), ("time", "3D", "175B"): (81.92, 13.77, 4.31),
    ("time", "3D", "1T"): (78.06, 9.76, 12.18),
    ("time", "4D", "17B"): (50.03, 43.77, 5.49, 0.71), ("time", "4D", "175B"): (43.96, 38.47, 15.62, 1.95),
    ("time", "4D", "1T"): (44.28, 38.74, 4.85, 12.14),
    ("time_x_cost", "2D", "17B"): (98.46, 1.54), ("time_x_cost", "2D", "175B"): (96.59, 3.41),
    ("time_x_cost", "2D", "1T"): (92.22, 7.78),
    ("time_x_cost", "3D", "17B"): (49.51, 49.96, 0.53), ("time_x_cost", "3D", "175B"): (92.46, 6.61, 0.93),
    ("time_x_cost", "3D", "1T"): (87.18, 10.91, 1.91),
    ("time_x_cost", "4D", "17B"): (87.44, 11.02, 1.39, 0.16), ("time_x_cost", "4D", "175B"): (58.91, 36.65, 3.96, 0.48),
    ("time_x_cost", "4D", "1T"): (49.57, 43.36, 5.42, 1.65),
}


def artifact_prices(network: str) -> list[float]:
    """US dollars of 1,024 NPUs per GB/s of an NPU: rings and fully connected dims half a link, the switch of the
    outermost dim link, switch and NIC (its cost_calculator.py)."""
    inner = {"2D": [2.0], "3D": [2.0, 2.0], "4D": [1.0, 2.0, 2.0]}[network]
    return [1024 * each for each in (*inner, 7.8 + 18.0 + 31.6)]


def released_prices(network: str) -> list[float]:
    """The same of 4,096 NPUs in the released code (its cost_model.py): rings and full meshes take a whole link."""
    inner = {"3D": [4.0, 4.0], "4D": [2.0, 4.0, 4.0]}[network]
    return [4096 * each for each in (*inner, 7.8 + 18.0 + 31.6)]


def design_of(sizes: tuple[int, ...], chunks: int = 64) -> ar.Design:
    """Switches without latency: what LIBRA's law assumes, that a collective uses all of an NPU's bandwidth in a dim."""
    return ar.Design(
        workload=ar.Trace("none.*.et"),      # the traces of a case take its place
        network=ar.Network([ar.Switch(n, latency="0 ns", bandwidth="25 GB/s") for n in sizes]),
        collective=ar.Collective(all_reduce=["halving_doubling"], all_gather=["halving_doubling"],
                                 reduce_scatter=["halving_doubling"], choice="none", composition="blueconnect",
                                 chunks=chunks))


def traces_of(case: Case, npus: int) -> Generated:
    """The work of every rank, one node after the other."""
    ranks = np.arange(npus, dtype=np.int32)
    blocks = npus // case.mp
    groups = [ranks[first * case.mp:(first + 1) * case.mp] for first in range(blocks)] if case.mp > 1 else []
    tensor = ranks // case.mp if groups else None
    data = len(groups) + ranks % case.mp
    groups += [ranks[first::case.mp] for first in range(case.mp)]
    build = ClassBuilder(ranks)
    last = [build.comp("compute", round(case.compute / 1000))]
    if tensor is not None:
        for op, (size, count) in ((CommOp.ALL_REDUCE, case.reduces), (CommOp.ALL_GATHER, case.gathers)):
            for _ in range(count):
                last = [build.coll(op.name, op, size, group=tensor, after=last)]
    for size, count in case.gradients:
        for _ in range(count):
            last = [build.coll("gradients", CommOp.ALL_REDUCE, size, group=data, after=last)]
    return Generated((build.build(),), tuple(groups), tuple(str(number) for number in range(len(groups))), (None,))
