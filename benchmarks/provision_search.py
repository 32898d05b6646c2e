"""Provisioning beside designs that agents found: the same knobs, budget and simulator.

    python benchmarks/provision_search.py [--design FILE | --drawn 12 --seed 0] [--trials 10000]

Every searched design spends the whole money: knobs are weights of the dims, from 1 to 10,000 on a logarithmic scale.
`--drawn` takes designs that a seed draws, which nobody chose: collectives and training, 2 or 3 dims of drawn shapes,
sizes, bandwidths and latencies. It prints a line for each and says how often a searched design was better.
"""

from __future__ import annotations

import argparse
import random
import time

import astrarium as ar
from astrarium.network.cost import network_cost
from astrarium.provision import Budget, dollars_per_bandwidth, provision

AGENTS = ("random", "annealing", "genetic")


def share_space(design: ar.Design, money: float) -> ar.Space:
    """All allocations of the money."""
    prices = dollars_per_bandwidth(design).tolist()
    weights = [f"w{place}" for place in range(len(prices))]
    spent = " + ".join(f"{price!r} * {name}" for price, name in zip(prices, weights))
    return ar.Space(design, variables={name: {"from": 1.0, "to": 1e4, "log": True} for name in weights}, derived={
        f"network.dims[{place}].bandwidth_per_npu": f"{money!r} * {name} / ({spent})"
        for place, name in enumerate(weights)})


def drawn(seed: int) -> ar.Design:
    """A design that nobody chose; the same for the same seed."""
    chance = random.Random(seed)
    kinds = (ar.Ring, ar.FullyConnected, ar.Switch)
    dims = [chance.choice(kinds)(chance.choice((2, 4, 8)), latency=f"{chance.choice((100, 500, 1000, 2000))} ns",
                                 bandwidth_per_npu=f"{chance.choice((25, 50, 100, 200, 400))} GB/s")
            for _ in range(chance.choice((2, 3, 3)))]
    npus = ar.Network(dims).npus
    if chance.random() < 0.5:
        size = chance.choice(("1 MB", "32 MB", "1 GB"))
        workload: dict[str, object] = {
            "source": "collective", "payload": size,
            "op": chance.choice(("all_reduce", "all_gather", "reduce_scatter", "all_to_all"))}
    else:
        tp = chance.choice([each for each in (1, 2, 4, 8) if npus % each == 0])
        workload = {"source": "transformer", "model": chance.choice(("llama3-8b", "gpt3-13b")), "tp": tp,
                    "dp": npus // tp, "global_batch": npus // tp, "zero": chance.choice((0, 1, 3)), "recompute": "full"}
    return ar.replace_all(ar.Design(
        workload=ar.Transformer(model="llama3-8b", global_batch=npus, dp=npus),
        compute=ar.Roofline(peak="794 TFLOP/s"), memory=ar.Memory(capacity="80 GB", bandwidth="3.35 TB/s"),
        network=ar.Network(dims, backend=chance.choice(("closed_form", "closed_form", "contention"))),
        collective=ar.Collective(choice="none", composition=chance.choice(("baseline", "blueconnect")),
                                 chunks=chance.choice((1, 4, 16)))), {"workload": workload})


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--design", default="examples/provisioning/design.yaml")
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--drawn", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if not asked.drawn:
        compare(ar.load_design(asked.design), asked.trials)
        return
    ratios = []
    for number in range(asked.drawn):
        print(f"design {number} of seed {asked.seed}")
        ratios.append(compare(drawn(1_000_000 * asked.seed + number), asked.trials))
    print(f"{sum(each > 1 for each in ratios)} of {len(ratios)} searched designs were better; answer / best searched: "
          f"{min(ratios):.7f} to {max(ratios):.7f}")


def compare(design: ar.Design, trials: int) -> float:
    """Print the answer and the best of each agent; the time of the answer over that of the best searched design."""
    money, begun = network_cost(design.network), time.process_time()
    answer = provision(design, Budget(money=money))
    print(answer)
    print(f"{time.process_time() - begun:.1f} CPU s")
    every = []
    for agent in AGENTS:
        begun = time.process_time()
        study = ar.search(share_space(design, money), "makespan", agent=agent, trials=trials // len(AGENTS), seed=1)
        found = study.objectives()["makespan"]
        every.append(found)
        print(f"{agent}: {found:.6g} ns in {trials // len(AGENTS)} trials, "
              f"{time.process_time() - begun:.1f} CPU s; provisioning {answer.best.time:.6g} ns "
              f"({100 * (answer.best.time / found - 1):+.3f} %)", flush=True)
    return answer.best.time / min(every)


if __name__ == "__main__":
    main()
