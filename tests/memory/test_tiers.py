"""Tiers and placement: what a tier gives to one NPU, what a label means, what is refused by path."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium.memory.access import access_ns
from astrarium.memory.tiers import HERE, tier_of

HOST = ar.Tier("host", capacity="2 TB", bandwidth="64 GB/s", latency="1 us", npus=8, total="256 GB/s",
               step_bandwidth="400 GB/s")
CXL = ar.Tier("cxl", capacity="1 TB", bandwidth="32 GB/s", label="G4:cxl")
POOL = ar.Tier("pool", capacity="100 TB", bandwidth="16 GB/s")


def test_an_npu_has_an_equal_part_of_what_is_shared() -> None:
    assert (HOST.rate, HOST.share, HOST.step_rate) == (32.0, 2.5e11, 50.0)
    assert (CXL.rate, CXL.share, CXL.step_rate) == (32.0, 1e12, None)
    assert ar.replace(HOST, "total", "2 TB/s").rate == 64.0      # its own link is the slower one
    assert access_ns([0, 32_000], HOST).tolist() == [1000.0, 2000.0]


@pytest.mark.parametrize(("label", "number"), [
    ("local", HERE), ("G1", HERE), ("G1:hbm:kv", HERE), ("host", 0), ("G2", 0), ("G2:dram:offload", 0), ("cxl", 1),
    ("G4:cxl", 1), ("G4:cxl:kv", 1), ("G3:ssd:kv", None), ("pool", 2), ("G4", 2), ("G4:ssd:kv", 2), ("G5", None),
    ("disk", None), ("G4:cxlx", 2)])
def test_what_a_label_means(label: str, number: int | None) -> None:
    assert tier_of((HOST, CXL, POOL), label) == number


def test_auto_is_every_kind_and_text_is_enough() -> None:
    memory = ar.Memory(capacity="80 GB", tiers=[HOST], placement="auto")
    assert memory.placement.automatic == ("parameters", "gradients", "states", "activations")
    assert ar.Memory(tiers=[HOST], placement="host").placement == ar.Placement("host", "host", "host", "host")
    assert not ar.Memory().placement.away


@pytest.mark.parametrize(("make", "message"), [
    (lambda: ar.Tier("host", bandwidth="1 GB/s"), "Tier.capacity: is missing"),
    (lambda: ar.Tier("host", capacity="0 B", bandwidth="1 GB/s"), "Tier.capacity: .* is impossible"),
    (lambda: ar.Tier("host", capacity="1 GB", bandwidth="1 GB/s", total="2 GB/s"), "Tier.total: .*npus is 1"),
    (lambda: ar.Tier("pool", capacity="1 GB", bandwidth="1 GB/s", over="network", step_bandwidth="1 GB/s"),
     "Tier.step_bandwidth: has no effect over the network"),
    (lambda: ar.Tier("host", capacity="1 GB", bandwidth="1 GB/s", npus=0), "Tier.npus"),
    (lambda: ar.Memory(tiers=[ar.Tier("local", capacity="1 GB", bandwidth="1 GB/s")]), r"tiers\[0\].name: 'local'"),
    (lambda: ar.Memory(tiers=[HOST], placement=ar.Placement(states="hots")),
     "Memory.placement.states: there is no tier 'hots'.*did you mean 'host'"),
    (lambda: ar.Memory(tiers=[HOST], placement="auto"), "Memory.capacity: is missing"),
    (lambda: ar.Memory(capacity="1 GB", placement="auto"), "Memory.tiers: is missing"),
])
def test_what_is_refused(make: object, message: str) -> None:
    with pytest.raises(ar.InputError, match=message):
        make()  # type: ignore[operator]
