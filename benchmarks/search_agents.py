"""How far searches stay from the optimum: our agents beside Optuna, pymoo and BoTorch themselves, on five spaces.

usage: search_agents.py [--seeds N] [--spaces NAME,...] [--times X] [--all] [--memo FOLDER] [AGENT|LIBRARY ...]
       search_agents.py --pareto [--distinct N] [AGENT ...]      (two objectives; default: random, nsga2, bayesian)

A cell is the median over seeds of (best value after N trials) / optimum - 1; N is in the head of its column (`--times`
multiplies it). The last column is the geometric mean over the spaces, in which a regret counts as 0.1 % at least.

| space | what it is | optimum |
|---|---|---|
| network | examples/search/network.yaml: 54,000,000 networks, runtime x cost | proved by `exact` |
| cosmic | examples/cosmic/spaces/full.yaml: 11,014,963,200,000 designs, runtime x bandwidth | proved by `exact` |
| workload | examples/cosmic/spaces/workload.yaml: 332 designs, runtime x bandwidth | all simulated (`--all`) |
| training | benchmarks/spaces/llama3_8b_64.yaml: memory as a requirement | all simulated (`--all`) |
| full | benchmarks/spaces/llama2_13b_full.yaml: half of the designs miss the memory | the best of all runs |

Each design is simulated once and its verdict is in a file of the folder `--memo` (delete it after a change of a model).
With --pareto the objectives are runtime and cost of `network`, and a front is worth the area that it dominates below
1 s and 100 million dollars, on logarithmic scales (its hypervolume).
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import pickle
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from _measure import machine, process_s
from _search_libraries import LIBRARIES

from astrarium.errors import InputError
from astrarium.search.agents import Told, agent_options
from astrarium.search.axes import Point
from astrarium.search.evaluate import Evaluator
from astrarium.search.exam import dominated_area, front_after
from astrarium.search.goal import goal_of
from astrarium.search.searchfile import load_search
from astrarium.search.trial import Verdict

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
SPACES = {      # file, trials, optimum (None: the least value in the memo)
    "network": (EXAMPLES / "search" / "network.yaml", 200, 559337297356.7999),
    "cosmic": (EXAMPLES / "cosmic" / "spaces" / "full.yaml", 200, 89699679312643.8),
    "workload": (EXAMPLES / "cosmic" / "spaces" / "workload.yaml", 33, None),
    "training": (HERE / "spaces" / "llama3_8b_64.yaml", 100, None),
    "full": (HERE / "spaces" / "llama2_13b_full.yaml", 100, None),
}
LEAST = 0.001      # a regret counts as this at least
AGENTS = ("random", "annealing", "genetic", "ant_colony", "bayesian", "tpe", "nsga2")
PARETO = ("random", "nsga2", "bayesian")
WORST = (math.log(1e9), math.log(1e8))      # ns, US dollars


class _EnoughError(Exception):
    """A library has had its trials."""


class Known:
    """A space whose designs are simulated once, over all agents and runs."""

    def __init__(self, name: str, memo: str, goal: Sequence[str] = ()):
        path, self.trials, self.optimum = SPACES[name]
        file = load_search(path)
        self.name, self.space = name, file.space
        self.goal = goal_of(goal or file.minimize, () if goal else file.maximize, file.require, file.cases)
        self.judge, self.path = Evaluator(self.space, self.goal), Path(memo) / f"{name}{len(goal) or ''}.pickle"
        self.known: dict[Point, Verdict] = pickle.loads(self.path.read_bytes()) if self.path.exists() else {}
        self.simulating = 0.0      # CPU seconds

    def __call__(self, point: Point) -> Verdict:
        """The verdict of a point."""
        if point not in self.known:
            start = process_s()
            self.known[point] = self.judge(point)
            self.simulating += process_s() - start
        return self.known[point]

    def save(self) -> None:
        """Write the memo."""
        fresh = self.path.with_suffix(".new")
        fresh.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(pickle.dumps(self.known))
        os.replace(fresh, self.path)

    def value(self, verdict: Verdict) -> float:
        """The objective; infinity for a design that misses a requirement."""
        return verdict.values[0] if verdict.values is not None and verdict.feasible else math.inf

    @property
    def least(self) -> float:
        """The optimum, or the best value ever seen."""
        return self.optimum or min(map(self.value, self.known.values()), default=math.inf)


def curve(who: str, known: Known, trials: int, seed: int) -> list[float]:
    """The best value after each trial."""
    best: list[float] = []

    def judged(point: Point) -> Verdict:
        if len(best) >= trials:
            raise _EnoughError
        verdict = known(point)
        best.append(min(known.value(verdict), best[-1] if best else math.inf))
        return verdict
    if who in LIBRARIES:
        with contextlib.suppress(_EnoughError):
            LIBRARIES[who](known.space, judged, len(known.goal.requirements), trials, seed)
        return best
    options = agent_options(who)
    agent = options.start(known.space, known.goal, seed)
    while len(best) < trials and (points := agent.ask(options.batch)[:trials - len(best)]):
        found = [judged(point) for point in points]
        agent.tell([Told(point, (known.value(verdict),), verdict) for point, verdict in zip(points, found)])
    return best


def table(agents: Sequence[str], names: Sequence[str], seeds: int, times: float, memo: str) -> None:
    """Print the regrets of each agent."""
    spaces = [Known(name, memo) for name in names]
    counts = [round(known.trials * times) for known in spaces]
    heads = [f"{known.name} {count}" for known, count in zip(spaces, counts)]
    print(f"{'agent':<24}" + "".join(f"{head:>14}" for head in heads) + "  geometric mean   agent's CPU ms a trial")
    found: dict[str, list[list[float]]] = {}
    for who in agents:
        start, simulating = process_s(), sum(known.simulating for known in spaces)
        try:
            found[who] = [[curve(who, known, count, seed)[-1] for seed in range(seeds)]
                          for known, count in zip(spaces, counts)]
        except InputError as error:
            print(f"{who:<24} {error}")
            continue
        own = process_s() - start - sum(known.simulating for known in spaces) + simulating
        _row(who, [[best / known.least - 1 for best in bests] for known, bests in zip(spaces, found[who])],
             1000 * own / seeds / sum(counts))
        for known in spaces:
            known.save()
    for known in spaces:
        print(f"{known.name}: optimum {known.least:.12g}, {len(known.known):,} designs simulated")


def _row(who: str, regrets: Sequence[Sequence[float]], own: float) -> None:
    medians = [statistics.median(each) for each in regrets]
    mean = statistics.geometric_mean([max(LEAST, each) for each in medians])
    print(f"{who:<24}" + "".join(f"{each:>14.2%}" for each in medians) + f"{mean:>16.2%} {own:>24.1f}", flush=True)


def pareto(agents: Sequence[str], distinct: int, seeds: int, memo: str) -> None:
    """Two objectives: the area that the front dominates."""
    known = Known("network", memo, ["makespan", "network_cost"])

    def values(point: Point) -> tuple[float, ...]:
        return known(point).values or (math.inf, math.inf)

    print(f"{'agent':<24} dominated area after {distinct}: best   quartile   median   quartile   CPU s")
    for who in agents:
        start, areas = process_s(), list[float]()
        for seed in range(seeds):
            front = front_after(agent_options(who), known.space, values, known.goal, distinct, seed)
            areas.append(dominated_area([(math.log(a), math.log(b)) for a, b in front], WORST))
        cells = [max(areas), *statistics.quantiles(areas, n=4, method="inclusive")]
        print(f"{who:<24} {' '.join(f'{each:>10.2f}' for each in cells)} {process_s() - start:10.1f}", flush=True)
        known.save()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agents", nargs="*")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--spaces", default=",".join(SPACES))
    parser.add_argument("--times", type=float, default=1.0)
    parser.add_argument("--memo", metavar="FOLDER")
    parser.add_argument("--all", action="store_true", help="simulate every design of `workload` and `training` first")
    parser.add_argument("--distinct", type=int, default=1000)
    parser.add_argument("--pareto", action="store_true")
    given = parser.parse_args()
    print(machine())
    with contextlib.ExitStack() as stack:
        memo = given.memo or stack.enter_context(tempfile.TemporaryDirectory())
        if given.pareto:
            pareto(given.agents or PARETO, given.distinct, given.seeds, memo)
            return
        if given.all:
            for known in (Known("workload", memo), Known("training", memo)):
                for point in known.space.points():
                    known(point)
                known.save()
        table(given.agents or (*AGENTS, *LIBRARIES), given.spaces.split(","), given.seeds, given.times, memo)


if __name__ == "__main__":
    main()
