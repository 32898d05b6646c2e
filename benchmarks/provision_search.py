"""The convex answer beside designs that agents found: the same knobs, budget and simulator.

    python benchmarks/provision_search.py [--design FILE] [--trials 10000]

Every searched design spends the whole money: knobs are weights of the dims, from 1 to 10,000 on a logarithmic scale.
"""

from __future__ import annotations

import argparse
import time

import astrarium as ar
from astrarium.cluster.provision import Budget, dollars_per_bandwidth, provision
from astrarium.network.cost import network_cost

AGENTS = ("random", "annealing", "genetic")


def share_space(design: ar.Design, money: float) -> ar.Space:
    """All allocations of the money."""
    prices = dollars_per_bandwidth(design).tolist()
    weights = [f"w{place}" for place in range(len(prices))]
    spent = " + ".join(f"{price!r} * {name}" for price, name in zip(prices, weights))
    return ar.Space(design, variables={name: {"from": 1.0, "to": 1e4, "log": True} for name in weights}, derived={
        f"network.dims[{place}].bandwidth_per_npu": f"{money!r} * {name} / ({spent})"
        for place, name in enumerate(weights)})


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--design", default="examples/provisioning/design.yaml")
    parser.add_argument("--trials", type=int, default=10_000)
    asked = parser.parse_args()
    design = ar.load_design(asked.design)
    money, begun = network_cost(design.network), time.process_time()
    answer = provision(design, Budget(money=money))
    print(answer)
    print(f"{time.process_time() - begun:.1f} CPU s")
    for agent in AGENTS:
        begun = time.process_time()
        trials = asked.trials // len(AGENTS)
        study = ar.search(share_space(design, money), "makespan", agent=agent, trials=trials, seed=1)
        found = study.objectives()["makespan"]
        print(f"{agent}: {found:.6g} ns in {trials} trials, "
              f"{time.process_time() - begun:.1f} CPU s; convex and refined {answer.best.time:.6g} ns "
              f"({100 * (answer.best.time / found - 1):+.3f} %), convex alone {answer.convex.time:.6g} ns")


if __name__ == "__main__":
    main()
