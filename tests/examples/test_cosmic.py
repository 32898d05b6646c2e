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
assert len(list(runs.plan(runs.QUICK, "talk"))) == 72
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
