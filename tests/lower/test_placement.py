"""Placement: what `auto` means for a design, what is refused before anything runs, and that search may turn it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import astrarium as ar
from astrarium.lower.placement import placed_of
from astrarium.vocab import Placed

WORK = ar.Transformer("gpt2-medium", global_batch=8)


def design(work: ar.Transformer = WORK, **memory: Any) -> ar.Design:
    """On GPUs of 900 GB/s with a host of 16 GB/s and a disk of 3 GB/s behind them."""
    host = memory.pop("host", ar.Tier("host", capacity=memory.pop("room", "64 GB"), bandwidth="16 GB/s",
                                      step_bandwidth="100 GB/s"))
    tiers = [host, ar.Tier("disk", capacity="1 TB", bandwidth="3 GB/s")]
    return ar.Design(workload=work, compute=ar.Roofline(peak="100 TFLOP/s"),
                     memory=ar.Memory(**{"bandwidth": "900 GB/s", "tiers": tiers, "placement": "auto", **memory}),
                     network=ar.Network([ar.Ring(work.ranks, bandwidth="100 GB/s", latency="1 us")]))


@pytest.mark.parametrize(("capacity", "room", "placed"), [
    ("20 GB", "64 GB", Placed()),
    ("12 GB", "64 GB", Placed(states="host", step=True)),
    ("9.8 GB", "64 GB", Placed(states="host", gradients="host", step=True)),
    ("9.8 GB", "4.5 GB", Placed(states="host", gradients="disk", step=True)),
    ("9.8 GB", "1 GB", Placed(states="disk", gradients="host")),
    ("4 GB", "64 GB", Placed(states="host", gradients="host", activations="host", step=True))])
def test_auto_moves_what_is_moved_least_to_the_nearest_tier_with_room(capacity: str, room: str, placed: Placed) -> None:
    chosen = design(capacity=capacity, room=room)
    assert placed_of(chosen) == placed
    result = ar.simulate(chosen)
    assert result.out_of_memory is False
    held = {tier.name for tier in result.memory.tiers if tier.used}
    assert held == {tier for tier in placed[:4] if tier}


def test_auto_leaves_what_is_said_elsewhere() -> None:
    said = ar.Placement(parameters="disk", states="auto", gradients="auto")
    assert placed_of(design(capacity="9.8 GB", placement=said)) == Placed("disk", None, "host", step=True)


@pytest.mark.parametrize(("work", "memory", "message"), [
    (WORK, {"capacity": "1 GB"}, "memory.placement: auto leaves .* in the local memory; expected at most 1 GB"),
    (WORK, {"capacity": "10 GB", "host": ar.Tier("host", capacity="1 GB", bandwidth="16 GB/s", npus=1),
            "tiers": [ar.Tier("host", capacity="1 GB", bandwidth="16 GB/s")]},
     "memory.placement.states: auto finds no room for 4.258 GB.*host has 1 GB"),
])
def test_where_auto_finds_no_room(work: ar.Transformer, memory: dict[str, Any], message: str) -> None:
    with pytest.raises(ar.InputError, match=message):
        ar.simulate(design(work, **memory))


@pytest.mark.parametrize(("work", "placement", "message"), [
    (ar.replace(WORK, "offload", "optimizer"), {"states": "host"}, "workload.offload: cannot be combined with "
                                                                   "memory.placement"),
    (ar.replace(WORK, "dp", 2), {"gradients": "host"}, "memory.placement.gradients: .*workload.zero: 0"),
    (ar.replace_all(WORK, {"dp": 2, "zero": 1}), {"parameters": "host"}, "memory.placement.parameters: .*zero: 1"),
    (ar.replace_all(WORK, {"pp": 2, "micro_batch": 1, "schedule": "zero_bubble"}), {"activations": "host"},
     "memory.placement.activations: .*zero_bubble")])
def test_what_is_refused_by_path(work: ar.Transformer, placement: dict[str, str], message: str) -> None:
    with pytest.raises(ar.InputError, match=message):
        design(work, placement=ar.Placement(**placement))


def test_other_workloads_and_rule_books_have_no_placement() -> None:
    memory = ar.Memory(tiers=[ar.Tier("host", capacity="1 GB", bandwidth="1 GB/s")], placement="host")
    network = ar.Network([ar.Ring(2, bandwidth="1 GB/s", latency="1 us")])
    single = ar.SingleCollective("all_reduce", "1 MB")
    with pytest.raises(ar.InputError, match=r"memory\.placement: has no effect under workload\.source: collective"):
        ar.Design(workload=single, network=network, memory=memory)
    with pytest.raises(ar.InputError, match=r"memory\.placement: has no effect under compat: astra_sim"):
        ar.Design(workload=WORK, network=ar.Network([ar.Ring(1, bandwidth="1 GB/s", latency="1 us")]),
                  memory=ar.replace(memory, "bandwidth", "1 TB/s"), compute=ar.Roofline("1 TFLOP/s"),
                  compat="astra_sim")
    with pytest.raises(ar.InputError, match=r"npu_types\[0\]\.memory\.placement: differs"):
        ar.Design(workload=single, network=network, npu_types=[ar.NpuType(npus=[1], memory=memory)])
    with pytest.raises(ar.InputError, match=r"memory\.tiers\[0\]\.npus: 3 do not divide the 2 NPUs"):
        ar.Design(workload=single, network=network, memory=ar.Memory(
            tiers=[ar.Tier("host", capacity="1 GB", bandwidth="1 GB/s", npus=3)]))


def test_search_turns_tiers_and_placement() -> None:
    space = ar.Space(design(capacity="32 GB", placement=ar.Placement()), {
        "memory.placement.states": ["local", "host"], "memory.tiers[0].bandwidth": ["4 GB/s", "64 GB/s"],
        "memory.placement.parameters": ["local", "host"]})
    found = {}
    best = ar.search(space, minimize="makespan", agent="grid", trials=8, seed=0, require="tier_use > 0").best
    assert best.verdict.feasible
    assert best.point == (0, 1, 1)      # parameters, over the faster link
    for agent in ("grid", "exact"):
        study = ar.search(space, minimize="makespan", agent=agent, trials=8, seed=0)
        found[agent] = study.best.verdict.values
    assert found["grid"] == found["exact"]


def test_a_design_file_says_it(tmp_path: Path) -> None:
    chosen = design(capacity="12 GB")
    ar.dump_design(chosen, tmp_path / "design.yaml")
    assert ar.load_design(tmp_path / "design.yaml") == chosen
