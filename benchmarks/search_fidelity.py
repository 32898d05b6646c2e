"""What a search in a cheaper network model first is worth: beside a search in the dear model alone, at equal CPU time.

usage: search_fidelity.py [--seeds N] [--trials N] [SPACE ...]

| space | what it is | cheaper | dear |
|---|---|---|---|
| clos | benchmarks/spaces/clos_64.yaml: hashed ways of a Clos | contention | packets |
| clos blind | the same; closed_form does not see that messages share links | closed_form | packets |
| network | examples/cosmic/spaces/network.yaml: 8,100,000 networks of 1,024 NPUs | closed_form | contention |
| training | benchmarks/spaces/llama3_8b_64.yaml: memory as a requirement | closed_form | packets |

With fidelity: 8 or 16 random designs in both models; if they rank alike, 100 trials in the cheaper model; then 19
trials in the dear one (the base, the ten best and 8 random designs; or the base, 8 or 16 random designs and the
agent's). Alone: the default agent in the dear model, for `--trials` trials; its best is read after as many CPU seconds,
and at the end. A regret is best / least - 1, least being the best value of all runs of a space; medians over seeds,
whose own values are in brackets. CPU seconds are those of the whole search.
"""

from __future__ import annotations

import argparse
import math
import statistics
from pathlib import Path
from typing import Any

from _measure import machine, process_s

from astrarium.search import Progress, search
from astrarium.search.searchfile import load_search

HERE = Path(__file__).parent
SPACES = {
    "clos": (HERE / "spaces" / "clos_64.yaml", "contention", "packets"),
    "clos blind": (HERE / "spaces" / "clos_64.yaml", "closed_form", "packets"),
    "network": (HERE.parent / "examples" / "cosmic" / "spaces" / "network.yaml", "closed_form", "contention"),
    "training": (HERE / "spaces" / "llama3_8b_64.yaml", "closed_form", "packets"),
}
DEAR = 19       # the base, ten promoted designs and 8 random ones


def measured(path: Path, dear: str, seed: int, trials: int, fidelity: str | tuple[()] = ()
             ) -> tuple[list[tuple[float, float]], Any]:
    """(CPU seconds, best so far) in the dear model after each batch of a search, and the correlation."""
    file, start = load_search(path, {"network.backend": dear}), process_s()
    curve: list[tuple[float, float]] = []

    def seen(state: Progress) -> None:
        if state.planned == trials and state.best is not None:
            curve.append((process_s() - start, state.best))
    found = search(file.space, file.minimize, require=file.require, cases=file.cases, trials=trials, seed=seed,
                   fidelity=fidelity, progress=seen)
    curve.append((process_s() - start, curve[-1][1] if curve else math.inf))
    return curve, found.fidelity


def row(name: str, seeds: int, trials: int) -> str:
    """A line of the table."""
    path, cheap, dear = SPACES[name]
    with_, alone = [], []
    for seed in range(seeds):
        with_.append(measured(path, dear, seed, DEAR, cheap))
        alone.append(measured(path, dear, seed, trials)[0])
    least = min(curve[-1][1] for curve in [*(curve for curve, _ in with_), *alone])
    budget = [curve[-1][0] for curve, _ in with_]
    then = [min((best for spent, best in curve if spent <= most), default=math.inf)
            for curve, most in zip(alone, budget)]
    regrets = [[curve[-1][1] / least - 1 for curve, _ in with_], [best / least - 1 for best in then],
               [curve[-1][1] / least - 1 for curve in alone]]
    own, same, last = (f"{statistics.median(each):.2%} ({', '.join(f'{one:.2%}' for one in each)})" for each in regrets)
    said = "\n".join(f"{'':<12}seed {seed}: {found}" for seed, (_, [found]) in enumerate(with_))
    return (f"{name:<12}{statistics.median(budget):>8.1f}{own:>28}{same:>28}"
            f"{statistics.median(curve[-1][0] for curve in alone):>14.1f}{last:>28}\n{said}")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", metavar="SPACE")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=48)
    given = parser.parse_args()
    print(machine())
    print(f"{'space':<12}{'CPU s':>8}{'regret':>28}{'alone, as long':>28}{'alone, CPU s':>14}{'regret':>28}")
    for name in given.spaces or SPACES:
        print(row(name, given.seeds, given.trials), flush=True)


if __name__ == "__main__":
    main()
