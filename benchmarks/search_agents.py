"""How far agents stay from a proven optimum: median over 10 seeds after 1,000 distinct designs, with quartiles.

usage: search_agents.py [AGENT ...]        (default: random and our own; tpe, cma_es, nsga2... take minutes each)

The space is examples/search/network.yaml: 54,000,000 networks of 1,024 NPUs for one all_reduce, runtime x cost. Its
optimum was proved by `astrarium search network.yaml --agent exact --option warm=3000 --trials 3000000`
(263,078 trials) and confirmed by tools/check_optimum.py.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from _measure import machine, process_s

from astrarium.errors import InputError
from astrarium.search.agents import agent_options
from astrarium.search.evaluate import Evaluator
from astrarium.search.exam import Problem, best_after
from astrarium.search.goal import goal_of
from astrarium.search.searchfile import load_search
from astrarium.search.space import Point

OPTIMUM = 559337297356.7999
DISTINCT, SEEDS = 1000, range(10)
AGENTS = ("random", "annealing", "genetic", "ant_colony")


def main(agents: list[str]) -> None:
    print(machine())
    space = load_search(Path(__file__).parent.parent / "examples" / "search" / "network.yaml").space
    judge = Evaluator(space, goal_of("runtime_x_cost"))
    known: dict[Point, float] = {}

    def value(point: Point) -> float:
        if point not in known:
            verdict = judge(point)
            known[point] = verdict.values[0] if verdict.values else float("inf")
        return known[point]

    problem = Problem("network", space, value)
    print(f"{'agent':<11} above the optimum: best   quartile     median   quartile   CPU s of agent and simulations")
    for agent in agents:
        start = process_s()
        try:
            found = [best_after(agent_options(agent), problem, DISTINCT, seed)[0] / OPTIMUM - 1 for seed in SEEDS]
        except InputError as error:
            print(f"{agent:<11} {error}")
            continue
        low, middle, high = statistics.quantiles(found, n=4, method="inclusive")
        print(f"{agent:<11} {min(found):22.1%} {low:10.1%} {middle:10.1%} {high:10.1%} {process_s() - start:10.1f}",
              flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(AGENTS))
