"""COSMIC's study: every search is well formed, a run goes on where it stopped, the talk's designs are in the spaces."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = '''
import sys
from functools import cache
from pathlib import Path
import found_designs, optimum, runs, spaces
assert len(list(runs.plan(runs.QUICK, "talk"))) == 200
setups = {run.setup for effort in (runs.QUICK, runs.FULL) for preset in ("talk", "public_code")
          for run in runs.plan(effort, preset)}
space, seen = cache(spaces.space), set()
for setup in sorted(setups, key=str, reverse=True):
    new = {(setup.stack, setup.preset), (setup.stack, setup.system), (setup.reward, setup.preset),
           setup.model, setup.npus, setup.batch}
    assert (new <= seen and sys.argv[2] == "some") or space(setup).count > 3
    seen |= new
for design in found_designs.DESIGNS:
    for stack in (design.stack, "full"):
        made = space(spaces.Setup(stack, "perf_per_bandwidth"))
        assert made.number(made.point_of(found_designs.values_of(design, stack))) >= 0
        assert made.base.workload.tag == ("inference" if stack.startswith("inference") else "transformer")
public = spaces.Setup("full", "perf_per_bandwidth", preset="public_code")
made, shapes = space(public), ("ring", "fully_connected", "switch", "fully_connected")
chosen = made.point_of({**found_designs.values_of(found_designs.DESIGNS[0], "full"), **{
    f"network.dims[{place}].shape": shape for place, shape in enumerate(shapes)}, **{
    f"bandwidth{place}": 350 for place in range(4)}})
assert [dim.link_bandwidth for dim in made.design(chosen).network.dims] == [175, 50, 350, 50]
assert optimum.read_optima(["perf_per_cost=3e17"], "talk") == {"perf_per_cost": 3e17}
(best,) = optimum.read_optima(["full.optimum.json"], "talk").items()
assert best[0] == "perf_per_bandwidth" and abs(best[1] / 89699.679e9 - 1) < 1e-6
for wrong in ("perf_per_cost=x", "perf_per_cost=-1", str(Path("system1.yaml"))):
    try:
        optimum.read_optima([wrong], "talk")
        raise SystemExit(wrong)
    except optimum.InputError as error:
        assert "--optimum" in str(error)
run = runs.Run("models", spaces.Setup("network", "perf_per_cost", model="cosmic-vit-base"), "random", 0, 4, 5)
first, again, kept = (runs.carry_out(run, Path(sys.argv[1]), 1, print, seconds) for seconds in (0, 0, -1))
assert first.objectives == again.objectives == kept.objectives and len(first.objectives) == 4
'''


@pytest.mark.parametrize("searches", ["some", pytest.param("all", marks=pytest.mark.exam)])
def test_study(searches: str, root: Path, tmp_path: Path, forks: Any) -> None:
    """In a process of its own: the example's modules are no package. `some`: each stack under both rules and on its
    systems, each reward under both rules, each model, size and batch."""
    found = forks([sys.executable, "-c", SCRIPT, str(tmp_path), searches], root / "examples" / "cosmic")
    assert found.returncode == 0, found.stderr


VERDICTS = """
import math, xml.etree.ElementTree as ET
from dataclasses import replace
from types import SimpleNamespace
import figures, intervals, runs, slides, spaces, verdicts

def claim(*values):
    return intervals.Claim("x", intervals.over_seeds(values), 0.05)

assert claim(0.03, 0.10, -0.04).verdict == "undecided"          # 60 % against 57 %
assert claim(0.30, 0.31, 0.29).verdict == "holds"
assert claim(0.03, 0.031, 0.029).verdict == "does not hold"     # clearly less than the five points that count
assert claim(0.30).verdict == "undecided"                       # a seed has no interval
three = intervals.over_seeds([1, 2, 3])
assert abs(three.high - 2 - 4.3027 / math.sqrt(3)) < 1e-3
assert intervals.Claim("flat", intervals.Interval(1, 0.9, 1.1, 3), 0.8, 1.25).verdict == "holds"
assert intervals.Claim("flat", intervals.Interval(1, 0.7, 1.1, 3), 0.8, 1.25).verdict == "undecided"
assert intervals.summed_up(["holds", "undecided", "holds"]) == "holds in 2, undecided in 1 of 3"

def found(stack, seed, best, early, agent="ant_colony", part="stacks", **setup):
    run = runs.Run(part, spaces.Setup(stack, "perf_per_bandwidth", **setup), agent, seed, 64)
    def at(value):
        return SimpleNamespace(run=run, best=value, trials=64, refused=0, objectives=[2 * value, value] * 32,
                               values={"workload.dp": seed, "network.dims[0].shape": "ring"})
    whole = at(best)
    whole.half = at(early)
    return whole

def study(full, early):
    wins = {"workload": 4.0, "collective": 9.0, "network": 7.0}
    return [found(stack, seed, best * (1 + seed / 100), best * (1 + seed / 100)) for seed in range(3)
            for stack, best in wins.items()] + [found("full", seed, full, early) for seed in range(3)]

wins = verdicts.FINDINGS["Full-stack search beats every single-stack search"]
assert verdicts.judged(wins, study(1.0, 1.5))[0] == "holds"
assert verdicts.judged(wins, study(20.0, 20.0))[0] == "does not hold"
verdict, reason = verdicts.judged(wins, study(1.0, 8.0))        # 8 is above workload and network
assert verdict == "holds in 1, undecided in 2 of 3" and "half of the trials" in reason
assert verdicts.judged(wins, [each for each in study(1.0, 1.5) if each.run.seed == 0])[0] == "undecided"
assert verdicts.judged(wins, [])[0] == "not run"
few = study(1.0, 1.5)
few[0].refused = 40
assert verdicts.judged(wins, few)[0] == "undecided"
sizes = [found(stack, seed, best, best, part="scaling", npus=npus) for npus in (512, 1024, 2048) for seed in range(3)
         for stack, best in (("workload", 4.0), ("collective", 9.0), ("network", 7.0), ("full", 1.0))]
grows = verdicts.FINDINGS["The value of full-stack search grows with system size"]
assert verdicts.judged(grows, sizes)[0] == "does not hold"
agents = [found("full", seed, 1.0 + seed, 1.0, agent, "agents") for seed in range(2) for agent in ("random", "genetic")]
mixes = [found(mix, 0, 1.0, 1.0, part="mixes") for mix in runs.MIXES]
for drawn in (figures.gain(study(1.0, 1.5), {}), figures.scaling(sizes, {}), figures.designs(mixes, {}),
              figures.rewards(agents, {"perf_per_bandwidth": 0.5})):
    assert "nan" not in drawn and len(list(ET.fromstring(drawn).iter())) > 20
assert {name for slide in slides.SLIDES.values() for name in slide.findings} == set(verdicts.FINDINGS)
"""


def test_verdicts_and_figures(root: Path, forks: Any) -> None:
    """A verdict needs an interval on one side of its claim, and the same side after half of the trials."""
    found = forks([sys.executable, "-c", VERDICTS], root / "examples" / "cosmic")
    assert found.returncode == 0, found.stderr
