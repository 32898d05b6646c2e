"""`network.switching: cut_through`: heads are forwarded as they arrive; links are still held for whole messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.draws import draws

import astrarium as ar
from astrarium import engine
from astrarium.engine import Outcome
from astrarium.lower import lower

from .bounds_routes import Message, Side, bytes_per_link, route
from .test_bounds import Pattern, check_bounds, count, network, networks, patterns, trace_of

PURE = [pytest.param(True, id="pure"),
        pytest.param(False, id="core", marks=pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here"))]
pures = pytest.mark.parametrize("pure", PURE)
WAY = {"bandwidth": "100 GB/s", "latency": "1 us"}
STREAMS = ar.System(p2p_streams=64, comm_streams=64)


def design(dims: Sequence[Any], switching: str = "cut_through", **more: Any) -> ar.Design:
    fabric = ar.Network(dims, backend="contention", switching=switching)
    return ar.Design(**{"workload": ar.Trace("in memory"), "system": STREAMS, "network": fabric, **more})


def sent(found: ar.Design, messages: list[Message], pure: bool = False) -> Outcome:
    plan = lower(found, trace_of(messages, found.network.npus))
    return engine.execute(plan, record=True, fold=False, pure=pure)


@pures
@given(networks().filter(lambda sides: count(sides) > 1), st.sampled_from([0, 1, 999, 1_000_003]), st.data())
@draws(20)
def test_alone_it_takes_its_latencies_and_its_slowest_link(
        pure: bool, sides: tuple[Side, ...], size: int, data: st.DataObject) -> None:
    a = data.draw(st.integers(0, count(sides) - 1))
    b = data.draw(st.integers(0, count(sides) - 1).filter(lambda npu: npu != a))
    links = list(route(sides, a, b))
    expected = sum(sides[dim].latency for dim, _, _ in links) + max(size / sides[dim].bandwidth for dim, _, _ in links)
    outcome = sent(design(network(sides).dims), [(a, b, size)], pure)
    assert outcome.makespan == pytest.approx(expected * 1000, abs=len(links) + 1)


@pures
def test_a_message_that_waits_for_a_link(pure: bool) -> None:
    """Two of 10 us through a switch to one NPU: heads there at 1 us, the down link 1 to 11 and 11 to 21, and 1 us."""
    megabyte = 1_000_000
    outcome = sent(design([ar.Switch(4, **WAY)]), [(0, 2, megabyte), (1, 2, megabyte)], pure)
    assert sorted(set(outcome.end.tolist())) == [12_000_000, 22_000_000]
    # 20 us over a slow link, then a fast one: it ends with the slow one's tail, and holds the fast one for 10 us.
    slow = ar.Ring(2, bandwidth="50 GB/s", latency="1 us")
    outcome = sent(design([slow, ar.Ring(2, **WAY)]), [(0, 3, megabyte)], pure)
    assert outcome.makespan == 22_000_000
    assert sorted(outcome.link_busy.tolist()) == [10_000_000, 20_000_000]


@pures
@given(pattern=patterns())
@draws(20)
def test_links_carry_the_same_bytes_and_are_never_over_full(pure: bool, pattern: Pattern) -> None:
    sides, messages, npu_of = pattern
    placed = ar.System(placement=npu_of, p2p_streams=64, comm_streams=64)
    outcome = sent(design(network(sides).dims, system=placed), messages, pure)
    there = [(npu_of[a], npu_of[b], size) for a, b, size in messages]
    check_bounds(outcome, sides, bytes_per_link(sides, there))


@pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here")
@given(pattern=patterns())
@draws(20)
def test_both_engines_give_the_same_integers(pattern: Pattern) -> None:
    sides, messages, _ = pattern
    found = design(network(sides).dims)
    fast, slow = (sent(found, messages, pure) for pure in (False, True))
    assert (fast.start.tolist(), fast.end.tolist()) == (slow.start.tolist(), slow.end.tolist())


@given(st.sampled_from([ar.FullyConnected, ar.Ring, ar.Mesh]), st.lists(st.integers(0, 6), min_size=1, max_size=12))
@draws(20)
def test_over_single_links_there_is_nothing_to_cut_through(shape: Any, starts: list[int]) -> None:
    messages = [(a, a + 1, 1000 * (a + number)) for number, a in enumerate(starts)]
    cut, whole = (sent(design([shape(8, **WAY)], switching), messages)
                  for switching in ("cut_through", "store_and_forward"))
    assert cut.end.tolist() == whole.end.tolist()


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize(("dim", "algorithm"), [
    (ar.Switch(8, **WAY), "ring"), (ar.Switch(8, **WAY), "halving_doubling"), (ar.FullyConnected(8, **WAY), "ring"),
    (ar.Hypercube(8, **WAY), "halving_doubling")])
def test_where_nobody_waits_it_is_the_closed_form(dim: Any, op: str, algorithm: str) -> None:
    work = ar.SingleCollective(op, "8 MB")
    chosen = ar.Collective(**{op: [algorithm]}, choice="none")
    cut = ar.simulate(design([dim], workload=work, collective=chosen))
    closed = ar.simulate(ar.Design(workload=work, network=ar.Network([dim]), collective=chosen))
    assert cut.makespan_ps == closed.makespan_ps


@given(networks().filter(lambda sides: count(sides) > 1), st.sampled_from(["all_reduce", "all_gather", "all_to_all"]),
       st.integers(1, 3))
def test_folded_is_unfolded(sides: tuple[Side, ...], op: str, chunks: int) -> None:
    found = design(network(sides).dims, workload=ar.SingleCollective(op, "1 MB"),
                   collective=ar.Collective(chunks=chunks, choice="none"))
    off, auto = (ar.simulate(found, fold=fold) for fold in ("off", "auto"))
    assert off.outcome.finish[off.outcome.row].tolist() == auto.outcome.finish[auto.outcome.row].tolist()


def test_what_it_cannot_be() -> None:
    with pytest.raises(ar.InputError, match=r"network\.switching.*compat: astra_sim"):
        design([ar.Switch(4, **WAY)], compat="astra_sim")
    with pytest.raises(ar.InputError, match="did you mean 'cut_through'"):
        ar.Network([ar.Ring(4, **WAY)], backend="contention", switching="cut-through")
