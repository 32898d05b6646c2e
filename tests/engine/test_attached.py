"""Plans with memories at switches: what the engine makes of them, and what both engines refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from astrarium.engine import execute
from astrarium.engine.attached import widened
from astrarium.engine.plan import (
    Attached,
    Backend,
    Changes,
    Dim,
    Kind,
    Lane,
    NetworkPlan,
    Plan,
    Program,
    Shape,
    code_of,
)
from astrarium.engine.plugins import Plugins
from astrarium.errors import InternalError, UnsupportedError


def plan(slot: int, *attached: Attached, shape: Shape = Shape.SWITCH, ranks: int = 6, **more: Any) -> Plan:
    """Every rank moves 1000 bytes; 3 NPUs at 2 inner switches, 2 at 3 outer ones."""
    one = Program(node_id=np.zeros(1, np.uint64), kind=np.array([Kind.REMOTE], np.uint8),
                  lane=np.array([Lane.COPY], np.int16), duration=np.zeros(1, np.int64), busy=np.zeros(1, np.int64),
                  size=np.array([1000]), slot=np.array([slot], np.int32), parents=np.zeros(1, np.int32),
                  child_ptr=np.zeros(2, np.int32), child=np.zeros(0, np.int32))
    none = np.zeros(0, np.int32)
    dims = Dim(shape, 3, 1.0, 10.0), Dim(Shape.SWITCH, 2, 1.0, 10.0)
    return Plan(**{"npus": 6, "programs": (one,), "program_of": np.zeros(ranks, np.int32),
                   "npu_of": np.arange(ranks, dtype=np.int32), "slot_ptr": np.zeros(ranks + 1, np.int64),
                   "slot_a": none, "slot_b": none, "slot_c": none, "groups": (), "collectives": (),
                   "network": NetworkPlan(Backend.PORTS, dims), "attached": attached, **more})


INNER, OUTER = Attached(0, 1.0, 5.0), Attached(1, 0.5, 7.0, links=2)


def test_places() -> None:
    """One place more at inner switches, two at outer ones; NPUs keep their coordinates, ranks have their link."""
    wide = widened(plan(code_of(1, True), INNER, OUTER))
    assert [dim.npus for dim in wide.network.dims] == [4, 4]
    assert (wide.npus, wide.npu_of.tolist()) == (16, [0, 1, 2, 4, 5, 6])
    assert [int(wide.programs[number].slot[0]) for number in wide.program_of] == [code_of(1, True)] * 3 + \
        [code_of(2, True)] * 3


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize(("code", "ends", "names"), [
    (code_of(0, False), [1015, 2015, 3015] * 2, [(6, -1), (7, -1)]),
    (code_of(1, False), [2017] * 6, None)])
def test_accesses(pure: bool, code: int, ends: list[int], names: list[tuple[int, int]] | None) -> None:
    """1 byte/ns each way, half of it on each of the outer memory's links: one for each NPU of a switch."""
    found = execute(plan(code, INNER, OUTER), record=True, pure=pure)
    assert (found.finish // 1000).tolist() == ends
    ports = sorted({pair for pair in zip(found.link_from.tolist(), found.link_to.tolist(), strict=True)
                    if max(pair) >= 6})
    assert len(ports) == len(names or [0] * 6)
    assert names is None or ports == names
    assert set(found.link_bytes.tolist()) == ({1000, 3000} if names else {1000})


def test_refused() -> None:
    none = Changes(np.zeros(1, np.int64), np.zeros(1, np.uint8), np.zeros(1, np.int32), np.zeros(1, np.int64))
    for broken in (plan(code_of(2, False), INNER, OUTER), plan(code_of(0, False)), plan(-1, OUTER, INNER),
                   plan(code_of(0, True), INNER, shape=Shape.RING), plan(code_of(0, True), Attached(2, 1.0, 0.0)),
                   plan(code_of(0, True), Attached(0, 0.0, 0.0))):
        with pytest.raises(InternalError):
            execute(broken)
    with pytest.raises(UnsupportedError, match="together with speeds that change"):
        execute(plan(code_of(0, True), INNER, changes=none))
    other = NetworkPlan("library", plan(0).network.dims)
    with pytest.raises(UnsupportedError, match="no medium is called library"):
        execute(plan(code_of(0, True), INNER, network=other))
    slow = plan(code_of(0, True), replace(INNER, bandwidth=1e-18))
    with pytest.raises(UnsupportedError, match="2\\^63 ps"):
        execute(slow)


class Last:
    """A scheduling plug-in."""

    def pick(self, rank: int, lane: int, nodes: Sequence[int], now: int) -> int:
        return len(nodes) - 1


class Slow:
    """A remote memory plug-in: what is at switches does not ask it."""

    def access_time(self, size: int, rank: int, now: int) -> int:
        return 10**9


@pytest.mark.parametrize("pure", [False, True])
def test_plugins(pure: bool) -> None:
    found = execute(plan(code_of(0, False), INNER), pure=pure, plugins=Plugins(scheduling=Last, memory=Slow))
    assert (found.finish // 1000).tolist() == [1015, 2015, 3015] * 2
    nobody: Any = object
    with pytest.raises(UnsupportedError, match="on a plug-in's network"):
        execute(plan(code_of(0, False), INNER), pure=pure, plugins=Plugins(network=nobody))
