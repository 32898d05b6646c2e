"""Flows and queues of packets: what was sent arrives once, an incast takes n B / W, nothing is above its buffer."""

from __future__ import annotations

import numpy as np
import pytest

import astrarium as ar
from astrarium.result.export import tables
from astrarium.trace import TraceBuilder, traces_of_bytes

MB = 1 << 20
SENDERS = 6


def incast(backend: str = "packets", pure: bool = False, **packets: object) -> ar.Result:
    """Six NPUs send 1 MiB each to the seventh."""
    ranks = [TraceBuilder() for _ in range(SENDERS + 1)]
    for sender in range(SENDERS):
        ranks[sender].send("send", SENDERS, MB, tag=sender)
        ranks[SENDERS].recv("recv", sender, MB, tag=sender)
    dims = [ar.Switch(SENDERS + 1, bandwidth="5 GB/s", latency="1 us")]
    network = ar.Network(dims, backend, packets=packets)
    design = ar.Design(workload=ar.Trace("in memory"), network=network)
    return ar.simulate(design, traces=traces_of_bytes([rank.encode() for rank in ranks]), pure=pure)


@pytest.mark.parametrize("packets", [{}, {"transport": "roce"}], ids=["credits", "roce"])
def test_an_incast(packets: dict[str, object]) -> None:
    result = incast(**packets)
    flows, queues = result.flows, result.packet_links
    assert flows is not None
    assert queues is not None
    assert sorted(zip(flows.source.tolist(), flows.destination.tolist(), strict=True)) == [
        (sender, SENDERS) for sender in range(SENDERS)]
    assert (flows.size == MB).all()
    wire = SENDERS * MB / 5 * 1000 + 2e6        # ps
    assert flows.time.max() >= wire
    if not packets:
        assert flows.time.max() < 1.01 * wire
    longest = int(np.argmax(queues.queue))
    assert queues.name(longest) == f"switch 0 -> NPU {SENDERS}"
    assert (queues.marks.sum() > 0) == bool(packets)
    other = incast(pure=True, **packets)
    for name, table in tables(result).items():
        if name in ("flows", "packet_links"):
            assert all(np.array_equal(column, tables(other)[name][key]) for key, column in table.items())


def test_other_back_ends_have_neither() -> None:
    result = incast("contention")
    assert result.flows is None
    assert result.packet_links is None
    assert not {"flows", "packet_links"} & set(tables(result))
