"""What one design gains over another, by knob: factors that multiply to the gain, beside closed forms."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from tests.commands import Run

import astrarium as ar
from astrarium.config import replace_all
from astrarium.errors import InputError
from astrarium.search import Space, search
from astrarium.search.gains import best_gains, gains
from astrarium.search.goal import Case, goal_of
from astrarium.search.studyfile import load_study


def ring(npus: int = 4, bandwidth: str = "50 GB/s", payload: str = "64 MB") -> ar.Design:
    return ar.Design(workload=ar.SingleCollective(op="all_reduce", payload=payload),
                     network=ar.Network([ar.Ring(npus, bandwidth=bandwidth, latency="0 ns")]),
                     collective=ar.Collective(all_reduce=["ring"], chunks=4))


def test_a_knob_that_only_costs() -> None:
    """Twice the bandwidth halves the time of a bandwidth-bound ring; times the bandwidth, nothing is gained."""
    first, second = ring(), ring(bandwidth="100 GB/s")
    (part,) = gains(first, second, goal_of("makespan")).parts
    assert part.factor == part.alone == pytest.approx(2, rel=1e-6)
    assert gains(first, second, goal_of("runtime_x_bandwidth")).gain == pytest.approx(1, rel=1e-6)
    assert gains(first, second, goal_of((), "1e9 / max(1, makespan)")).gain == pytest.approx(2, rel=1e-6)


def test_factors_are_shapley_values_of_the_logarithm() -> None:
    """Payload, size of the ring and chunks, against the mean over all orders; the factors multiply to the gain."""
    first = ring()
    after = {"workload.payload": "16 MB", "network.dims[0].npus": 8, "collective.chunks": 2}
    second = replace_all(first, after)
    found = gains(first, second, goal_of("runtime_x_bandwidth"))
    assert math.prod(part.factor for part in found.parts) == pytest.approx(found.gain)
    assert found.gain == pytest.approx(found.before / found.after)

    def worth(knobs: frozenset[str]) -> float:
        design = replace_all(first, {knob: after[knob] for knob in knobs})
        return math.log(ar.simulate(design).makespan_ps)

    for part in found.parts:
        knob = part.knobs[0].knob.replace("[*]", "[0]")
        steps = [worth(frozenset(order[:order.index(knob)])) - worth(frozenset(order[:order.index(knob) + 1]))
                 for order in itertools.permutations(after)]
        assert math.log(part.factor) == pytest.approx(sum(steps) / len(steps), abs=1e-6)


def test_cases_count() -> None:
    cases = (Case("small", 3.0, {"workload.payload": "1 MB"}), Case("large", 1.0, {"workload.payload": "64 MB"}))
    found = gains(ring(), ring(npus=8), goal_of("makespan", cases=cases))
    whole = [sum(case.weight * ar.simulate(replace_all(ring(npus=npus), case.changes)).makespan_ps for case in cases)
             for npus in (4, 8)]
    assert found.gain == pytest.approx(whole[0] / whole[1])


def test_studies(tmp_path: Path, run: Run) -> None:
    """The best designs of a search over one knob and of one over two; and what cannot be compared."""
    narrow, wide, other = (str(tmp_path / f"{name}.study") for name in ("narrow", "wide", "other"))
    chunks, links = {"collective.chunks": [1, 4]}, {"network.dims[0].bandwidth": ["25 GB/s", "100 GB/s"]}
    search(Space(ring(), chunks), "makespan", agent="grid", trials=2, study=narrow)
    search(Space(ring(), chunks | links), "makespan", agent="grid", trials=4, study=wide)
    search(Space(ring(), chunks), "runtime_x_bandwidth", agent="grid", trials=2, study=other)
    found = best_gains(load_study(narrow), load_study(wide))
    assert found.parts[0].knobs[0].knob == "network.dims[0].bandwidth"
    assert found.gain == pytest.approx(2, rel=1e-6)
    said = run("explain", narrow, wide)
    assert said.code == 0
    assert "2.000x" in said.out
    with pytest.raises(InputError, match="another objective"):
        best_gains(load_study(other), load_study(wide))
    design = tmp_path / "a.yaml"
    ar.dump_design(ring(), design)
    assert "not a study, and the other is" in run("explain", str(design), wide).err
