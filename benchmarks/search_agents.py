"""How far agents stay from a proven optimum: median over 10 seeds after equally many distinct designs, with quartiles.

usage: search_agents.py [--distinct N] [AGENT ...]      (default: 1,000 designs; random and our own agents. tpe, cma_es,
                                                        nsga2, ppo take minutes each, bayesian hours: 100 designs.)
       search_agents.py --full-stack [--distinct N] [AGENT ...]
       search_agents.py --pareto [--distinct N] [AGENT ...]      (two objectives; default: random, nsga2, nsga3)

The space is examples/search/network.yaml: 54,000,000 networks of 1,024 NPUs for one all_reduce, runtime x cost. Its
optimum was proved by `astrarium search network.yaml --agent exact --option warm=3000 --trials 3000000`
(263,078 trials) and confirmed by tools/check_optimum.py. With --full-stack it is COSMIC's (runtime x bandwidth), whose
optimum is in examples/cosmic/full.optimum.json. With --pareto the objectives are runtime and cost, and a front
is worth the area that it dominates below 1 s and 100 million dollars, on logarithmic scales (its hypervolume).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from _measure import machine, process_s

from astrarium.errors import InputError
from astrarium.search.agents import agent_options
from astrarium.search.axes import Point
from astrarium.search.evaluate import Evaluator
from astrarium.search.exam import Problem, best_after, dominated_area, front_after
from astrarium.search.goal import Goal, goal_of
from astrarium.search.searchfile import load_search

EXAMPLES = Path(__file__).parent.parent / "examples"
OPTIMUM = 559337297356.7999
SEEDS = range(10)
AGENTS = ("random", "annealing", "genetic", "ant_colony")
PARETO = ("random", "nsga2", "nsga3")
WORST = (math.log(1e9), math.log(1e8))      # ns, US dollars


class Known:
    """Each design is simulated once."""

    def __init__(self, goal: Goal, space: str = "search/network.yaml"):
        self.space = load_search(EXAMPLES / space).space
        self.judge, self.known = Evaluator(self.space, goal), dict[Point, tuple[float, ...]]()
        self.nothing = (math.inf,) * len(goal.objectives)

    def __call__(self, point: Point) -> tuple[float, ...]:
        if point not in self.known:
            self.known[point] = self.judge(point).values or self.nothing
        return self.known[point]


def single(agents: Sequence[str], distinct: int, values: Known, optimum: float) -> None:
    """One objective: how far above the proven optimum."""
    problem = Problem("space", values.space, lambda point: values(point)[0])
    _table(f"above the optimum after {distinct}", agents,
           lambda agent, seed: best_after(agent_options(agent), problem, distinct, seed)[0] / optimum - 1, min, ".1%")


def pareto(agents: Sequence[str], distinct: int) -> None:
    """Two objectives: the area that the front dominates."""
    values = Known(goal_of(["makespan", "network_cost"]))

    def area(agent: str, seed: int) -> float:
        found = front_after(agent_options(agent), values.space, values, values.judge.goal, distinct, seed)
        return dominated_area([(math.log(a), math.log(b)) for a, b in found], WORST)
    _table(f"dominated area after {distinct}", agents, area, max, ".2f")


def _table(title: str, agents: Sequence[str], measure: Callable[[str, int], float],
           best: Callable[[Sequence[float]], float], form: str) -> None:
    print(f"{'agent':<11} {title}: best   quartile     median   quartile   CPU s of agent and simulations", flush=True)
    for agent in agents:
        start = process_s()
        try:
            found = [measure(agent, seed) for seed in SEEDS]
        except InputError as error:
            print(f"{agent:<11} {error}")
            continue
        cells = [best(found), *statistics.quantiles(found, n=4, method="inclusive")]
        print(f"{agent:<11} {cells[0]:>{len(title) + 6}{form}} " + " ".join(f"{each:>10{form}}" for each in cells[1:])
              + f" {process_s() - start:10.1f}", flush=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agents", nargs="*")
    parser.add_argument("--distinct", type=int, default=1000)
    parser.add_argument("--pareto", action="store_true")
    parser.add_argument("--full-stack", action="store_true")
    given = parser.parse_args()
    print(machine())
    if given.pareto:
        pareto(given.agents or PARETO, given.distinct)
    elif given.full_stack:
        proved = json.loads((EXAMPLES / "cosmic" / "full.optimum.json").read_text(encoding="utf-8"))
        values = Known(goal_of("runtime_x_bandwidth"), "cosmic/spaces/full.yaml")
        single(given.agents or AGENTS, given.distinct, values, proved["best"][-1])
    else:
        single(given.agents or AGENTS, given.distinct, Known(goal_of("runtime_x_cost")), OPTIMUM)


if __name__ == "__main__":
    main()
