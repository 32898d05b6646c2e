"""Our makespan against ASTRA-sim's of the same design: by knob and by rule, against closed forms and the two runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astrarium as ar
from astrarium.astra_sim.rules import RULES
from astrarium.config import replace_all
from astrarium.errors import InputError
from astrarium.search.explain import Explanation
from astrarium.search.rule_books import PREFIX, explain_rules, rule_books

from .designs import four_dims


def parts(found: Explanation) -> dict[str, int]:
    """Contribution in ps by knob; several that go together under the first one's name."""
    return {each.knobs[0].knob: each.contribution for each in found.changes}


def ring(payload: int, chunks: int = 1, **more: Any) -> ar.Design:
    """An all_reduce on a ring of 8, 50 GB/s and 500 ns a link."""
    return replace_all(ar.Design(workload=ar.SingleCollective(op="all_reduce", payload=f"{payload} B"),
                                 network=ar.Network([ar.Ring(8, bandwidth="50 GB/s", latency="500 ns")]),
                                 collective=ar.Collective(all_reduce=["ring"], chunks=chunks)), more)


def test_whole_ns_against_the_closed_form() -> None:
    """14 steps of 500 + 100,000 / 8 / 50 = 750 ns are whole; of 99,960 bytes each loses 0.9 ns."""
    assert parts(explain_rules(ring(100_000)))[PREFIX + "whole_ns"] == 0
    found = parts(explain_rules(ring(99_960)))
    assert found == {"compat": 0, PREFIX + "whole_ns": -14 * 900}


def test_a_full_chunk_for_the_rest() -> None:
    """One byte over four chunks: ASTRA-sim sends five, all on one ring, one after the other at their ends."""
    even, odd = (explain_rules(ring(payload, 4)) for payload in (4 * 80_000, 4 * 80_000 + 1))
    assert PREFIX + "full_chunks" not in parts(even)
    assert parts(odd)[PREFIX + "full_chunks"] == odd.after - even.after > even.after // 5


def step(**more: Any) -> ar.Design:
    """A training step on 64 NPUs with tensor, data and pipeline parallelism: groups, sends and collectives."""
    algorithms = ["ring", "halving_doubling", "direct"]
    return replace_all(ar.Design(
        workload=ar.Transformer("gpt3-13b", dp=4, tp=4, pp=4, global_batch=16),
        network=ar.Network([ar.Ring(4, bandwidth="50.3 GB/s", latency="500 ns"),
                            ar.Switch(4, bandwidth="50 GB/s", latency="500 ns"),
                            ar.Switch(4, bandwidth="50 GB/s", latency="500 ns")]),
        compute=ar.Roofline(peak="100 TFLOP/s"), memory=ar.Memory(bandwidth="1 TB/s"),
        collective=ar.Collective(all_reduce=algorithms, all_gather=algorithms, reduce_scatter=algorithms,
                                 composition="blueconnect", chunks=4, endpoint_delay="25 ns")), more)


@pytest.mark.parametrize("way", ["there", pytest.param("back", marks=pytest.mark.exam)])
def test_every_rule_of_a_training_step(way: str) -> None:
    design = step() if way == "there" else replace_all(step(), {"compat": "astra_sim"})
    found = explain_rules(design)
    assert set(parts(found)) == {"compat", *(PREFIX + name for name in RULES)}
    assert (found.before, found.after) == tuple(ar.simulate(each).makespan_ps for each in rule_books(design))
    assert sum(parts(found).values()) == found.difference != 0
    assert sum(each.step for each in found.changes) == found.difference


def test_rules_that_change_nothing_are_no_knobs() -> None:
    assert PREFIX + "group_delay" not in parts(explain_rules(step(**{"collective.endpoint_delay": "10 ns"})))
    flat = step(**{"workload.pp": 1, "workload.dp": 16})
    assert PREFIX + "one_slot" not in parts(explain_rules(flat))


@settings(max_examples=10)
@given(st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]), st.integers(1, 10**7),
       st.integers(1, 5), st.sampled_from(["none", "astra_sim"]), st.sampled_from(["ring", "direct"]))
def test_parts_add_up(op: str, payload: int, chunks: int, compat: str, algorithm: str) -> None:
    design = ring(payload, chunks, **{"workload.op": op, "compat": compat, f"collective.{op}": [algorithm]})
    found = explain_rules(design)
    assert sum(parts(found).values()) == found.difference
    assert (found.before, found.after) == tuple(ar.simulate(each).makespan_ps for each in rule_books(design))


def test_the_rule_books() -> None:
    first = replace_all(four_dims(), {"system.comm_streams": 2, "collective.endpoint_delay": "1.5 ns"})
    found = explain_rules(first)
    assert {each.knobs[0].knob: each.alone is None for each in found.changes} == {
        "collective.endpoint_delay": False, "system.comm_streams": False, "compat": True, PREFIX + "whole_ns": True}
    assert found.before == ar.simulate(rule_books(first)[0]).makespan_ps
    assert found.before == ar.simulate(ar.replace(first, "collective.choice", "none")).makespan_ps
    assert found.after == ar.simulate(rule_books(first)[1]).makespan_ps
    astra = replace_all(four_dims(), {"compat": "astra_sim", "astra_sim.queues_per_dim": 2})
    silent = ar.Design(workload=first.workload, network=first.network, collective=ar.Collective(choice="none"))
    assert list(parts(explain_rules(silent))) == ["compat", PREFIX + "whole_ns"]
    assert explain_rules(silent).before == ar.simulate(silent).makespan_ps
    plain = ar.replace(four_dims(), "collective.choice", "none")
    assert explain_rules(astra).after == ar.simulate(plain).makespan_ps
    with pytest.raises(InputError, match="hypercube"):
        explain_rules(replace_all(four_dims(), {"network.dims[1].shape": "hypercube"}))


def test_the_shared_bus_counts_whole_ns() -> None:
    bus = {"latency": "5 ns", "overhead": "3 ns", "gap": "1 ns", "gap_per_byte": 0.001}
    found = explain_rules(ring(99_960, compat="astra_sim", **{"astra_sim.shared_bus": bus}))
    assert PREFIX + "whole_ns" not in parts(found)
    assert sum(parts(found).values()) == found.difference
