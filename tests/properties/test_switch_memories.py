"""Memories at switches beside anything else: both engines give the same integers, and no link exceeds its bandwidth."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import astrarium as ar
from astrarium.result import Result
from astrarium.trace import TraceBuilder, traces_of_bytes
from astrarium.vocab import CommOp

LINK, NPUS = 10, 6
MEDIA: list[dict[str, Any]] = [
    {"backend": "closed_form"}, {"backend": "contention"}, {"backend": "contention", "switching": "store_and_forward"},
    {"backend": "fluid"}]


@st.composite
def _tiers(draw: st.DrawFn) -> list[ar.Tier]:
    """One memory or two, at the inner or the outer switches."""
    found = []
    for name in draw(st.sampled_from([["a"], ["a", "b"]])):
        dim = draw(st.integers(0, 1))
        found.append(ar.Tier(name, capacity="1 TB", bandwidth=f"{LINK} GB/s", npus=(2, NPUS)[dim], over="network",
                             total=f"{draw(st.sampled_from([1, 7, 20, 90]))} GB/s", dim=dim,
                             latency=f"{draw(st.sampled_from([0, 700]))} ns", duplex=draw(st.booleans())))
    return found


@st.composite
def _cases(draw: st.DrawFn) -> tuple[ar.Design, list[bytes], dict[tuple[str, bool], int]]:
    """A design, the traces of its ranks, and the bytes that are loaded from and stored (True) in each memory."""
    tiers, kinds = draw(_tiers()), draw(st.lists(st.sampled_from(["move", "comp", "coll"]), min_size=2, max_size=6))
    moved: dict[tuple[str, bool], int] = {}
    made = []
    for _ in range(NPUS):
        trace, before = TraceBuilder(), list[int]()
        for kind in kinds:
            after = draw(st.lists(st.sampled_from(before), max_size=1)) if before else []
            if kind == "coll":
                before.append(trace.coll("sum", CommOp.ALL_REDUCE, 60_000, after=after))
            elif kind == "comp":
                before.append(trace.comp("op", draw(st.integers(1, 30)), after=after))
            else:
                size, tier = draw(st.integers(0, 200_000)), draw(st.sampled_from([tier.name for tier in tiers]))
                store = draw(st.booleans())
                moved[tier, store] = moved.get((tier, store), 0) + size
                before.append(trace.memory("move", size, tier=tier, store=store, after=after))
        made.append(trace.encode())
    dims = [ar.Switch(2, bandwidth=f"{LINK} GB/s", latency="300 ns"),
            ar.Switch(3, bandwidth=f"{LINK} GB/s", latency="500 ns")]
    design = ar.Design(workload=ar.Trace("in memory"), memory=ar.Memory(bandwidth="1 TB/s", tiers=tiers),
                       network=ar.Network(dims, **draw(st.sampled_from(MEDIA))),
                       system=ar.System(placement=draw(st.permutations(range(NPUS)))))
    return design, made, moved


def _rates(design: ar.Design, result: Result) -> list[float]:
    """Bytes per ns of every link that carried something: an NPU's, or of a memory's port. Ports are numbered by place,
    where both dims have a further place per link to a memory."""
    ends = [[each.bandwidth for each in result.plan.attached if each.dim == dim for _ in range(each.links)]
            for dim in (0, 1)]
    inner, found = 2 + len(ends[0]), []
    ports = [place for place in range(inner * (3 + len(ends[1]))) if place % inner >= 2 or place // inner >= 3]
    for at in range(result.links.dim.size):
        number, dim = max(int(result.links.source[at]), int(result.links.target[at])), int(result.links.dim[at])
        place = divmod(ports[number - NPUS], inner) if number >= NPUS else (0, 0)
        found.append(float(LINK) if number < NPUS else ends[0][place[1] - 2] if dim == 0 else ends[1][place[0] - 3])
    for dim, switches in ((0, 1), (1, 2)):      # in a memory's group: its links together are as fast as it
        assert np.isclose(sum(ends[dim]) * switches,
                          sum(float(tier.total or 0) for tier in design.memory.tiers if tier.dim == dim))
    return found


@settings(max_examples=25)
@given(_cases())
def test_links_and_engines(case: tuple[ar.Design, list[bytes], dict[tuple[str, bool], int]]) -> None:
    design, made, moved = case
    given_traces = traces_of_bytes(made)
    result, pure = (ar.simulate(design, traces=given_traces, pure=pure) for pure in (False, True))
    for name in ("start", "end", "finish", "use_busy"):
        assert getattr(result.outcome, name).tolist() == getattr(pure.outcome, name).tolist(), name
    for name in ("dim", "source", "target", "size", "busy"):
        assert getattr(result.links, name).tolist() == getattr(pure.links, name).tolist(), name
    unrecorded = ar.simulate(design, traces=given_traces, record=False)
    assert unrecorded.outcome.finish.tolist() == result.outcome.finish.tolist()
    links = result.links
    assert (links.busy <= result.makespan_ps).all()
    assert (links.busy + 500 >= links.size * 1000 / np.array(_rates(design, result))).all()
    memory = (links.source >= NPUS) | (links.target >= NPUS)
    for way, ends in ((False, links.source), (True, links.target)):
        total = sum(size for (_, store), size in moved.items() if store is way)
        assert int(links.size[memory & (ends >= NPUS)].sum()) == total
