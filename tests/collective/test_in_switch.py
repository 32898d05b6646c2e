"""Collectives in switches: proved like all others, also along trees of switches; rounds; what is refused, and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import astrarium as ar
from astrarium.collective.algorithms import Options, algorithm_of, bound, build
from astrarium.collective.algorithms.in_switch import tree, ways_down
from astrarium.collective.exam import check_bound, examine
from astrarium.collective.export import schedule_of
from astrarium.collective.in_switch import MOST, estimate, rounds
from astrarium.collective.settings import Able
from astrarium.errors import InputError, UnsupportedError
from astrarium.vocab import CommOp

OPS = sorted(algorithm_of("sharp").ops)
SWITCH: dict[str, Any] = {"bandwidth": "400 GB/s", "latency": "500 ns"}


@st.composite
def trees(draw: st.DrawFn) -> tuple[int, list[int]]:
    """(participants, the place above each of them and of the switches): any tree whose inner nodes are switches."""
    n, switches = draw(st.integers(2, 9)), draw(st.integers(1, 5))
    up = [draw(st.integers(n, n + switches - 1)) for _ in range(n)]
    up += [-1, *[draw(st.integers(n, n + k - 1)) for k in range(1, switches)]]
    used = {n}
    for participant in range(n):
        at = up[participant]
        while at not in used:
            used.add(at)
            at = up[at]
    places = {old: new for new, old in enumerate([*range(n), *sorted(used)])}
    return n, [places.get(up[old], -1) for old in places]


@given(trees(), st.sampled_from(OPS), st.integers(1, 4))
def test_any_tree_is_proved(drawn: tuple[int, list[int]], op: CommOp, pipeline: int) -> None:
    """Also that it takes one link after the other: up to the root, and down."""
    n, up = drawn
    schedule = tree(op, "sharp", n, up, Options(pipeline=pipeline))
    proof = examine(schedule)
    check_bound(schedule, replace(proof, steps=2), bound("sharp", op, n, schedule.blocks) or pytest.fail("no bound"))
    depths = [0] * len(up)
    for place in range(len(up)):
        at = up[place]
        while at >= 0:
            depths[place], at = depths[place] + 1, up[at]
    assert proof.steps <= 2 * max(depths[:n])
    assert schedule.switches == len(set(ways_down(n, up)) | set(range(len(up)))) - n


def test_what_a_broken_switch_does_is_found() -> None:
    """One that forgets to add, one that sends before all have come, one that forgets a participant."""
    good = build("sharp", CommOp.ALL_REDUCE, 4, Options(pipeline=2))
    examine(good)
    with pytest.raises(InputError, match="holding the contribution"):
        examine(replace(good, recv_reduce=np.zeros_like(good.recv_reduce)), in_place=False)
    early = good.send_needs.copy()
    early[good.send_ptr[4]:] = np.maximum(early[good.send_ptr[4]:] - 1, 0)
    with pytest.raises(InputError, match="holding the contribution"):
        examine(replace(good, send_needs=early), in_place=False)
    with pytest.raises(InputError, match="is never sent to"):
        examine(replace(good, send_match=np.zeros_like(good.send_match)))
    with pytest.raises(InputError, match="peers by number"):
        examine(replace(build("ring", CommOp.ALL_REDUCE, 4), switches=1, program=np.zeros(5, np.int32)))


def test_bytes_of_a_link() -> None:
    """sharp: the payload once each way; nvls an n-th more, for what is read and written."""
    for n in (3, 8):
        for name, share in (("sharp", 1.0), ("nvls", 1 + 1 / n)):
            schedule = build(name, CommOp.ALL_REDUCE, n)
            proof = examine(schedule)
            assert set(proof.sent / schedule.blocks) == set(proof.received / schedule.blocks) == {share}


def test_rounds() -> None:
    """More where the payload is large; the best of all within a percent, by the closed form."""
    able = Able(6400.0, 0, 0, "nvls", 400.0, 500.0)
    for name in ("nvls", "sharp"):
        counts = [rounds(name, CommOp.ALL_REDUCE, size, 8, able) for size in (1, 10**5, 10**6, 10**7, 10**9)]
        assert counts == sorted(counts)
        assert (counts[0], counts[-1]) == (1, MOST)
        times = [estimate(name, CommOp.ALL_REDUCE, 10**7, 8, able, 1 << k) for k in range(6)]
        assert times[counts[3].bit_length() - 1] <= 1.01 * min(times)


def design(algorithm: str, *dims: Any, op: str = "all_reduce", **more: Any) -> ar.Design:
    return ar.Design(workload=ar.SingleCollective(op, "1 MB"), network=ar.Network(dims),
                     collective=ar.Collective(**{op: [algorithm]}, **more))


def test_refused_by_path() -> None:
    able = ar.Switch(4, in_switch=ar.InSwitch(rate="1 TB/s"), **SWITCH)
    plain = ar.Switch(4, **SWITCH)
    for bad in (plain, ar.Ring(4, **SWITCH)):
        with pytest.raises(InputError, match=r"network\.dims\[1\]\.in_switch: is missing") as found:
            ar.simulate(design("sharp", able, bad))
        assert "another algorithm" in str(found.value)
    with pytest.raises(UnsupportedError, match=r"collective\.broadcast: sharp for a group that lies in several dims"):
        ar.simulate(design("sharp", able, able, op="broadcast"))
    with pytest.raises(InputError, match=r"collective\.all_to_all\[0\]: nvls has no all_to_all"):
        ar.simulate(design("nvls", able, op="all_to_all"))
    with pytest.raises(UnsupportedError, match="a switch takes part that has no trace"):
        schedule_of("nvls", CommOp.ALL_REDUCE, 4)
    with pytest.raises(InputError, match="rate"):
        ar.InSwitch(rate="0 GB/s")


def test_groups_that_a_switch_has_room_for() -> None:
    """Two halves of a switch's NPUs are two groups; a group's collectives are one."""
    def training(groups: int) -> ar.Design:
        network = ar.Network([ar.Switch(8, in_switch=ar.InSwitch(rate="1 TB/s", groups=groups), **SWITCH)])
        return ar.Design(workload=ar.Transformer("gpt2-small", tp=4, dp=2, global_batch=2), network=network,
                         compute=ar.Roofline(peak="1 PFLOP/s"), memory=ar.Memory(bandwidth="3 TB/s"),
                         collective=ar.Collective(all_reduce=["nvls"]))

    assert "nvls" in " ".join(ar.simulate(training(6)).collectives.how)
    with pytest.raises(InputError, match=r"network\.dims\[0\]\.in_switch\.groups: \d groups of NPUs reduce"):
        ar.simulate(training(1))


def test_the_choice_takes_it_where_it_pays() -> None:
    """An all_reduce of a dim with such switches; never without them, and no all_to_all."""
    able = ar.Switch(8, in_switch=ar.InSwitch(rate="6.4 TB/s"), **SWITCH)
    for op, found in (("all_reduce", True), ("all_to_all", False)):
        open_ = ar.Design(workload=ar.SingleCollective(op, "1 GB"), network=ar.Network([able]))
        result = ar.simulate(open_)
        assert ("nvls" in result.collectives.how[0]) == found
        slow = ar.replace(open_, "network.dims[0].in_switch.rate", "3 TB/s")     # of 8 links of 400 GB/s
        assert "nvls" not in ar.simulate(slow).collectives.how[0]
        others = ar.simulate(ar.replace(open_, "network.dims[0].in_switch", None))
        assert "nvls" not in others.collectives.how[0]
        assert result.makespan_ps < others.makespan_ps if found else result.makespan_ps == others.makespan_ps


def test_a_large_payload_is_cut() -> None:
    """Into as many operations as the switch takes at once."""
    able = ar.Switch(8, in_switch=ar.InSwitch(rate="6.4 TB/s", payload="100 kB"), **SWITCH)
    whole = ar.simulate(design("sharp", able))
    assert "10 chunks" in whole.collectives.how[0]


def test_energy_counts_what_leaves_an_npu() -> None:
    """An all_reduce by `sharp` sends half of what `ring` sends among many: n / (2 (n - 1))."""
    from astrarium.cost.energy import energy

    able = ar.Switch(8, energy="2 pJ/bit", in_switch=ar.InSwitch(rate="6.4 TB/s"), **SWITCH)
    found = []
    for name in ("ring", "sharp"):
        one = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"), network=ar.Network([able]),
                        collective=ar.Collective(all_reduce=[name]), memory=ar.Memory(bandwidth="3 TB/s"),
                        compute=ar.Roofline(peak="1 PFLOP/s", power="700 W", idle_power="80 W"))
        found.append(energy(one, ar.simulate(one)).network[0])
    assert found[1] == pytest.approx(8 * 1e6 * 8 * 2e-12, rel=1e-3)
    assert found[1] / found[0] == pytest.approx(8 / 14, rel=1e-3)
