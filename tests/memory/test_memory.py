"""Memory: latency + size / bandwidth, and what must be said together."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium.engine.plan import RemoteKind
from astrarium.memory.access import access_ns, plan_remote


def test_access_time_is_latency_plus_size_over_bandwidth() -> None:
    tier = ar.Tier("host", capacity="1 TB", bandwidth="50 GB/s", latency="100 ns")
    assert access_ns([0, 1000, 5_000_000], tier).tolist() == [100.0, 120.0, 100_100.0]
    assert access_ns(1000, ar.Memory(bandwidth="10 GB/s")) == 100.0
    assert access_ns(1000, ar.Memory()) == 0.0
    assert access_ns(1000, ar.Remote(kind="pool", bandwidth="10 GB/s", latency="1 us")) == 1100.0


def test_remote_as_the_engine_takes_it() -> None:
    found = plan_remote(ar.Remote(kind="per_node", bandwidth="50 GB/s", latency="100 ns", npus_per_node=2))
    assert (found.kind, found.latency, found.bandwidth, found.npus_per_node) == (RemoteKind.PER_NODE, 100, 50.0, 2)
    assert plan_remote(ar.Remote()).kind == RemoteKind.NONE
    with pytest.raises(ar.UnsupportedError, match="not whole ns"):
        plan_remote(ar.Remote(kind="pool", bandwidth="1 GB/s", latency="0.5 ns"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ar.Remote(kind="pool"), "Remote.bandwidth: is missing"),
        (lambda: ar.Remote(kind="per_node", bandwidth="1 GB/s"), "Remote.npus_per_node: is missing"),
        (lambda: ar.Remote(kind="pool", bandwidth="1 GB/s", npus_per_node=2), "has no effect with kind: pool"),
        (lambda: ar.Remote(kind="per-npu", bandwidth="1 GB/s"), "did you mean 'per_npu'"),
        (lambda: ar.Memory(capacity="0 B"), "Memory.capacity: .* is impossible"),
        (
            lambda: ar.Memory(tiers=[ar.Tier("a", capacity="1 GB", bandwidth="1 GB/s")] * 2),
            r"tiers\[1\].name: 'a' is there twice",
        ),
    ],
)
def test_what_is_refused(make: object, message: str) -> None:
    with pytest.raises(ar.InputError, match=message):
        make()  # type: ignore[operator]
