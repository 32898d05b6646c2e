"""How often experts are chosen, and what the busiest rank gets of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.workload.inference.test_expert_layouts import EXPERTS, FFN, MODEL, TOKENS, TOP, D, steps, work

import astrarium as ar
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.routing import Routing, busiest, loads_of


@pytest.mark.parametrize(("loads", "ranks", "redundant", "expected"), [
    ([4, 2, 1, 1], 2, 0, 2 * 6 / 8), ([4, 2, 1, 1], 4, 0, 4 * 4 / 8), ([4, 2, 1, 1], 1, 0, 1),
    ([4, 4, 4, 4], 2, 0, 1), ([6, 1, 1], 2, 1, 1), ([5, 1, 1, 1], 4, 4, 1), ([6, 2, 2, 2], 4, 4, 1)])
def test_the_busiest_rank_by_hand(loads: list[float], ranks: int, redundant: int, expected: float) -> None:
    """6, 1, 1: two copies of 3, each beside a 1. 5, 1, 1, 1: five copies of 1, in pairs with ones and each other.
    6, 2, 2, 2: four copies of 1.5 and two of 1 beside 2 and 2: 3 on each rank."""
    found = busiest(np.array(loads) / sum(loads), ranks, redundant, 1, 1000.0)
    assert found.rows == pytest.approx(expected)


@pytest.mark.parametrize("skew", [0.6, 1.0, 1.01, 1.2, 3.0])
@pytest.mark.parametrize("tokens", [4.0, 64.0, 4096.0])
def test_loads_of_a_power_law(skew: float, tokens: float) -> None:
    """They are shares, no token chooses an expert twice, and copies of the busiest bring the ranks together."""
    loads = loads_of(Routing(skew=skew), 256, 8, tokens)
    assert loads.sum() == pytest.approx(1)
    assert 1 / 256 < loads.max() <= 1 / 8 + 1e-12
    alone, helped = (busiest(loads, 32, more, 8, tokens) for more in (0, 32))
    assert 1 < helped.rows < alone.rows <= 32
    assert alone.hit <= 8
    assert (loads == loads_of(Routing(skew=skew), 256, 8, tokens)).all()
    other = loads_of(Routing(skew=skew, seed=1), 256, 8, tokens)
    assert sorted(other) == pytest.approx(sorted(loads))
    assert (other != loads).any()


def test_quantiles_are_those_of_the_density() -> None:
    """With exponent 2 between 1 and b half of the experts have at most 2 b / (b + 1) of the least load."""
    loads = np.sort(loads_of(Routing(skew=2.0), 1001, 1, 10_000.0))
    low, high = 1.0, 8000.0
    unit = loads[0] / (1 / (1 / low - (0.5 / 1001) * (1 / low - 1 / high)))
    assert loads[500] / unit == pytest.approx(2 * high / (high + 1))


@pytest.mark.parametrize(("routing", "redundant", "factor"), [
    ({}, 0, 1.0), ({"loads": [1] * EXPERTS}, 0, 1.0), ({"loads": [3, 3, *[1] * 14]}, 0, 4 * 8 / 20),
    ({"loads": [3, 3, *[1] * 14]}, 8, None), ({"skew": 1.2}, 0, None)])
def test_rows_and_weights_of_the_busiest_rank(routing: dict[str, Any], redundant: int, factor: float | None) -> None:
    """Four ranks of four experts; the first has loads 3, 3, 1, 1 of 20. A copy takes the memory of an expert."""
    layout = work(4, 1, 4, routing=routing, redundant_experts=redundant)
    shape = next(each.kernel.shape for each in steps(layout) if each.kernel and each.kernel.kind == "grouped_gemm")
    assert shape[0] == (EXPERTS + redundant) / 4
    if factor is None:
        assert TOKENS * TOP / 4 <= shape[1] < TOKENS * TOP
    else:
        assert shape[1] == pytest.approx(TOKENS * TOP / 4 * factor)
    more = replica_of(layout).weight_bytes(0) - replica_of(work(4, 1, 4)).weight_bytes(0)
    assert more == redundant / 4 * 3 * D * FFN * 2


def test_a_rank_that_few_experts_keep_busy_reads_few() -> None:
    """All tokens go to the first four experts: the first rank reads these, and no rank more."""
    layout = work(4, 1, 4, routing={"loads": [1, 1, 1, 1, *[0] * 12]})
    plain = work(4, 1, 4)
    read = {name: next(each for each in steps(one) if each.name.endswith("expert_down")) for name, one in
            (("all", plain), ("four", layout))}
    assert read["four"].flops == 4 * read["all"].flops
    rows = TOKENS * TOP
    assert read["four"].bytes == pytest.approx(2 * (4 * FFN * D + rows * (FFN + D)))


PLAIN = {**MODEL, "moe": None}
UNEVEN = {**MODEL, "moe": {**MODEL["moe"], "imbalance": 2}}


@pytest.mark.parametrize(("fields", "path", "expected"), [
    ({"routing": {"loads": [1, 2]}}, "routing.loads", "16"),
    ({"routing": {"loads": [1] * 16, "skew": 1.2}}, "skew", "0"), ({"redundant_experts": 2}, "ep", "experts: 0"),
    ({"model": PLAIN, "ep": 1, "redundant_experts": 1}, "redundant_experts", "no redundant_experts"),
    ({"model": UNEVEN, "routing": {"skew": 1.01}}, "imbalance", "no routing")])
def test_routing_that_means_nothing_is_refused(fields: dict[str, Any], path: str, expected: str) -> None:
    with pytest.raises(ar.InputError) as refused:
        ar.Inference(**{"model": MODEL, "phase": "decode", "context": 1, "tp": 4, "ep": 4, **fields})
    found = [problem.expected or "" for problem in refused.value.problems if problem.path.endswith(path)]
    assert any(expected in each for each in found)
