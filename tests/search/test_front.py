"""The exact Pareto front of two objectives is that of exhaustive search."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.search.designs import small_space

import astrarium as ar
from astrarium.errors import InputError
from astrarium.search import Space, search
from astrarium.search.best import thinned
from astrarium.search.bounds.archive import Archive
from astrarium.search.trial import Near, Trial, Verdict

PAIRS = (["makespan", "network_cost"], ["makespan", "network_bandwidth"], ["network_cost", "makespan"],
         ["makespan", "makespan * network_cost"], ["runtime_x_bandwidth", "network_cost"])
BANDWIDTHS = ["25 GB/s", "50 GB/s", "100 GB/s", "200 GB/s"]


def drawn(seed: int) -> tuple[Space, list[str], list[str]]:
    """(space of some dozen to some hundred designs, two objectives, requirements)."""
    draw = random.Random(seed)
    training = draw.random() < 0.5
    collective = ar.SingleCollective(draw.choice(["all_reduce", "all_gather", "all_to_all"]), payload="64 MB")
    workload: Any = ar.Transformer(ar.Decoder(layers=4, d_model=256, heads=4, ffn=512, vocab=1000, seq=64), tp=2, dp=4,
                                   global_batch=16) if training else collective
    base = ar.Design(workload=workload, network=ar.Network([
        ar.Switch(4, bandwidth="100 GB/s", latency="500 ns"), ar.Switch(2, bandwidth="50 GB/s", latency="1 us")]),
        collective=ar.Collective(chunks=2, choice="none"),
        **({"compute": ar.Roofline(peak="10 TFLOP/s"), "memory": ar.Memory(bandwidth="1 TB/s")} if training else {}))
    choices: dict[str, Any] = {"network.dims[*].bandwidth": draw.sample(BANDWIDTHS, 3),
                               "network.dims[0].shape": draw.sample(["ring", "switch", "fully_connected"], 2)}
    where: list[str] = []
    if training:
        choices |= {"workload.tp": [1, 2, 4], "workload.dp": [2, 4, 8]}
        where.append("workload.tp * workload.dp == 8")
    else:
        choices["collective.chunks"] = [1, 4]
    if draw.random() < 0.5:
        choices["network.dims[*].npus"] = [2, 4]
        where.append("network.npus == 8")
    return Space(base, choices, where), draw.choice(PAIRS), ["network_bandwidth < 300"] * (draw.random() < 0.3)


def values(space: Space, goal: list[str], require: list[str], agent: str) -> tuple[list[tuple[float, ...]], Any]:
    study = search(space, goal, require=require, agent=agent, trials=10**5)
    return [trial.verdict.values or () for trial in study.front], study


def check(seed: int) -> int:
    """Compare with exhaustive search; the number of designs that were not simulated."""
    space, goal, require = drawn(seed)
    found, study = values(space, goal, require, "exact")
    assert study.proof.complete
    assert found == values(space, goal, require, "grid")[0], seed
    return space.count - int(study.distinct)


@pytest.mark.parametrize(("seed", "saved"), [(2, 0), (3, 1)])
def test_the_front_is_that_of_exhaustive_search(seed: int, saved: int) -> None:
    assert check(seed) >= saved


@pytest.mark.exam
@pytest.mark.parametrize("seed", range(100, 130))
def test_thirty_drawn_fronts(seed: int) -> None:
    check(seed)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20),
       st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_an_archive_beats_what_one_of_its_pairs_beats(pairs: list[tuple[int, int]], lows: tuple[int, int]) -> None:
    import numpy as np

    archive = Archive(2)
    for pair in pairs:
        archive.add(pair)
    expected = any(one <= lows[0] and two <= lows[1] for one, two in pairs)
    assert archive.beaten(lows) == expected
    assert archive.open([np.array([lows[0]], float), np.array([lows[1]], float)]).tolist() == [not expected]


def test_what_a_front_cannot_have_is_refused() -> None:
    for goal, options, says in ((["makespan", "network_cost", "network_bandwidth"], {}, "one objective or two"),
                                (["makespan", "network_cost"], {"gap": 0.1}, "agent.gap: is of one objective"),
                                (["makespan", "peak_memory"], {}, "peak_memory has no lower bound")):
        with pytest.raises(InputError, match=says):
            search(small_space(), goal, agent="exact", options=options)


def test_the_nearest_of_infeasible_trials() -> None:
    """Against every trial: fewest shares of the largest misses; those that meet all requirements do not count."""
    near = Near(2)
    assert near.found is None
    slacks = [(-4.0, 1.0), (-1.0, -30.0), (-2.0, -10.0), (1.0, 1.0), (-3.0, -9.0)]
    trials = [Trial(number, 0, (0,), b"", None, Verdict((1.0,), (), each)) for number, each in enumerate(slacks)]
    for trial in trials:
        near.add(trial)
    found = near.found
    assert found is not None
    assert found.missed == (4, 3)
    shares = {number: max(0, -a) / 4 + max(0, -b) / 30 for number, (a, b) in enumerate(slacks) if min(a, b) < 0}
    assert found.trial.number == min(shares, key=lambda each: (shares[each], each)) == 2


def test_a_long_front_is_thinned_evenly_with_both_ends() -> None:
    trials = cast("list[Trial]", list(range(15)))
    assert thinned(trials, 8) == [0, 2, 4, 6, 8, 10, 12, 14]
    assert thinned(trials, 15) == trials
