"""Random systems of switches that compute: two engines agree, and folding changes nothing."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.plans.draw import random_case

import astrarium as ar
from astrarium import engine
from astrarium.engine import Outcome, Plan
from astrarium.errors import AstrariumError
from astrarium.lower import lower

LINKS = ("link_dim", "link_from", "link_to", "link_bytes", "link_busy")
NAMES = ("nvls", "sharp", "nvls:3", "sharp:2", "ring", "direct")
PER_DIM, OTHERS = ("all_reduce", "all_gather", "reduce_scatter"), ("broadcast", "reduce", "barrier")


def plan_of(rng: random.Random) -> Plan:
    """A random program on switches only, most of whose collectives are in switches. A combination that is refused, such
    as a group in several dims, is not an example."""
    case = random_case(rng, ("closed_form", "closed_form", "contention", "fluid"))
    able = ar.InSwitch(rate=rng.choice(["30 GB/s", "1 TB/s"]), latency=rng.choice(["0 ns", "7 ns"]))
    dims = [ar.Switch(dim.npus, bandwidth=f"{rng.choice([10, 12.5, 37.3])} GB/s",
                      latency=f"{rng.choice([0.5, 1, 20, 500])} ns", in_switch=able)
            for dim in case.design.network.flat]
    chosen: dict[str, Any] = {op: [rng.choice(NAMES) for _ in (dims if rng.random() < 0.6 else [0])] for op in PER_DIM}
    chosen |= {op: [rng.choice(NAMES[:4])] for op in OTHERS}
    try:
        design = replace(case.design, network=ar.Network(dims, backend=case.design.network.backend),
                         collective=replace(case.design.collective, **chosen))
        return lower(design, case.traces)
    except AstrariumError:
        reject()


def run(plan: Plan, **how: bool) -> Outcome | type[AstrariumError]:
    try:
        return engine.execute(plan, record=True, **how)
    except AstrariumError as error:
        return type(error)


@pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")
@given(st.randoms(use_true_random=False).map(plan_of))
def test_both_engines_and_folded_runs_give_the_same_integers(plan: Plan) -> None:
    ours, theirs, folded = run(plan, pure=True), run(plan, fold=False), run(plan, fold=True)
    if not isinstance(ours, Outcome) or not isinstance(theirs, Outcome) or not isinstance(folded, Outcome):
        assert ours == theirs == folded
        return
    for name in ("finish", "busy", "start", "end"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    traffic = [sorted(zip(*(getattr(each, name).tolist() for name in LINKS), strict=True)) for each in (ours, theirs)]
    assert traffic[0] == traffic[1]
    np.testing.assert_array_equal(folded.finish[folded.row], theirs.finish)
    np.testing.assert_array_equal(folded.use_busy, theirs.use_busy)
