"""`collective.choice: auto` against an exhaustive search over algorithm x composition x chunks, simulated.

usage: collective_choice.py [--cases N] [--seed S] [--shapes common|others]

Cases are drawn with a seed: 1 to 3 dims, up to 256 NPUs, 10 to 900 GB/s, 50 ns to 10 us, 1 kB to 8 GB, four operations.
`common` shapes are rings, one-way rings, tori, switches and fully connected dims; `others` have at least one dim out
of mesh and hypercube. The search has every algorithm that the operation has, in every dim, the three compositions, and
1, 2, 4 ... 64 chunks (16 and more only where 8 are not 2.5 times slower than the best). Also: 8 GB on 8 x 2 switches at
450 and 50 GB/s, and what a choice costs.
"""

from __future__ import annotations

import argparse

import numpy as np
from _choice_cases import COMMON, OTHERS, Case, chosen_time, draw, exhaustive
from _measure import machine, process_s

import astrarium as ar
from astrarium.lower import Kept
from astrarium.lower.collectives import CollectiveTable
from astrarium.network.dims import plan_dims
from astrarium.vocab import CommOp

TARGET = 1.02


def compared(cases: int, seed: int, shapes: tuple[str, ...]) -> None:
    """How far from the best of all candidates the default is, case by case."""
    start, ratios, tried = process_s(), list[tuple[float, str]](), 0
    numbers = iter(range(10**6))
    while len(ratios) < cases:
        case = draw(seed, next(numbers), shapes)
        if shapes != COMMON and all(dim.tag not in OTHERS for dim in case.network.flat):
            continue
        best, candidate, count = exhaustive(case)
        time, how = chosen_time(case)
        tried += count
        ratios.append((time / best, f"{_said(case)}: {how}; best {candidate}"))
    ratios.sort(reverse=True)
    over = [each for each in ratios if each[0] > TARGET]
    print(f"  {cases} cases, {tried:,} candidates simulated in {process_s() - start:.0f} CPU s")
    print(f"  within 2 % of the best: {cases - len(over)} of {cases} (target: all of the common shapes); mean "
          f"{100 * (np.mean([ratio for ratio, _ in ratios]) - 1):.2f} % slower, worst {100 * (ratios[0][0] - 1):.2f} %")
    for ratio, text in ratios[:3 if not over else len(over)]:
        print(f"    {ratio:.4f} {text}")


def _said(case: Case) -> str:
    dims = " x ".join(f"{dim.tag} {dim.npus} ({dim.link_bandwidth:.4g} GB/s, {float(dim.latency):.4g} ns)"
                      for dim in case.network.flat)
    return f"{case.op} of {case.payload:,} B on {dims}"


def stated() -> None:
    """The case of the documentation."""
    network = ar.Network([ar.Switch(8, bandwidth="450 GB/s", latency="500 ns"),
                          ar.Switch(2, bandwidth="50 GB/s", latency="2 us")])
    case = Case(network, "all_reduce", 8 * 10**9)
    plain = ar.simulate(case.design(choice="none"), record=False).makespan_ps
    time, how = chosen_time(case)
    print(f"  8 GB all_reduce on 8 x 2: {time / 1e9:.2f} ms ({how}); choice none {plain / 1e9:.1f} ms (target 31.2)")


def cost(triples: int = 300) -> None:
    """CPU time of choosing, for groups of one dim and of several."""
    network = ar.Network([ar.Switch(8, bandwidth="450 GB/s", latency="500 ns"),
                          ar.Ring(16, bandwidth="100 GB/s", latency="1 us"),
                          ar.Switch(1024, bandwidth="50 GB/s", latency="2 us")])
    npus = np.arange(network.npus, dtype=np.int32)
    kinds = {"one dim": [npus[:8], npus[:128:8], npus[::128]], "several": [npus[:128], npus]}
    rng = np.random.default_rng(0)
    ops = (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL)
    for name, groups in kinds.items():
        taken = []
        for choice in ("auto", "none"):
            design = Case(network, "all_reduce", 1).design(choice=choice)
            names = [str(group) for group in range(len(groups))]
            table = CollectiveTable(design, plan_dims(network), npus, groups, names, None, Kept())
            drawn = [(ops[number % 4], int(10**rng.uniform(3, 9.9)), number % len(groups)) for number in range(triples)]
            start = process_s()
            for op, size, group in drawn:
                table.number(op, size, group)
            taken.append((process_s() - start) / triples * 1e3)
        print(f"  {name}: {taken[0]:.2f} ms to plan a distinct collective of {network.npus:,} NPUs, {taken[1]:.2f} "
              "without a choice")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shapes", choices=("common", "others"), default="common")
    chosen = parser.parse_args()
    print(machine())
    stated()
    cost()
    compared(chosen.cases, chosen.seed, COMMON if chosen.shapes == "common" else (*COMMON, *OTHERS))


if __name__ == "__main__":
    main()
