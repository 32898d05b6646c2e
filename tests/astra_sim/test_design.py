"""A design with `compat: astra_sim` lowers to what ASTRA-sim's own files lower to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium.astra_sim.collectives import implementation
from astrarium.astra_sim.design import astra_system
from astrarium.engine.plan import Backend, Order
from astrarium.errors import UnsupportedError
from astrarium.lower import lower
from astrarium.trace.compose import ClassBuilder
from astrarium.trace.work import Generated
from astrarium.vocab import CommOp


def design(**sections: Any) -> ar.Design:
    return ar.Design(**{"workload": ar.SingleCollective("all_reduce", "1 MiB"), "compat": "astra_sim",
                        "network": ar.Network([ar.Ring(8, bandwidth="50 GiB/s", latency="500 ns")]), **sections})


def test_every_value_arrives() -> None:
    chosen = design(
        collective=ar.Collective(all_reduce=["direct:3"], all_gather=["halving_doubling"], chunks=4, active_chunks=2,
                                 composition="blueconnect", scheduling="fifo", endpoint_delay="7 ns"),
        compute=ar.Roofline(peak="459 TFLOP/s"), memory=ar.Memory(bandwidth="2765 GB/s"),
        astra_sim=ar.AstraSim(queues_per_dim=2, rendezvous=True))
    system = astra_system(chosen)
    assert system.implementations == {CommOp.ALL_REDUCE: ("direct3",), CommOp.ALL_GATHER: ("halvingDoubling",)}
    assert (system.splits, system.active_chunks) == (4, 2)
    assert (system.scheduling, system.optimization) == ("FIFO", "localBWAware")
    assert (system.endpoint_delay, system.peak_perf, system.local_mem_bw, system.roofline) == (7, 459.0, 2765.0, True)
    assert (system.queues_per_dim, system.rendezvous) == (2, True)
    for names in system.implementations.values():
        for name in names:
            implementation("", name)


def test_bandwidth_keeps_its_bits_and_the_rule_book_is_astra_sim_s() -> None:
    plan = lower(design(collective=ar.Collective(all_reduce=["ring"])))
    assert plan.network.dims[0].bandwidth == 50 * (1 << 30) / 1_000_000_000
    assert (plan.policy.order, plan.network.backend, plan.network.whole_ns) == (Order.ASTRA_SIM, Backend.UNSHARED, True)


@pytest.mark.parametrize(("sections", "path"), [
    ({"system": ar.System(p2p_streams=2)}, "system.p2p_streams"),
    ({"collective": ar.Collective(composition="themis")}, "collective.composition"),
    ({"collective": ar.Collective(all_reduce=["bruck"])}, r"collective.all_reduce\[0\]"),
    ({"collective": ar.Collective(endpoint_delay="0.5 ns")}, "collective.endpoint_delay"),
    ({"network": ar.Network([ar.Mesh(4, bandwidth="1 GB/s", latency="0 ns")])}, r"network.dims\[0\].shape"),
    ({"npu_types": [ar.NpuType(npus=[1])]}, "npu_types"),
])
def test_what_astra_sim_lacks_is_refused(sections: dict[str, Any], path: str) -> None:
    with pytest.raises(UnsupportedError, match=path):
        lower(design(**sections))


def test_several_collectives_at_once() -> None:
    given = design(system=ar.System(comm_streams=3), collective=ar.Collective(all_reduce=["ring"]))
    assert lower(given).lanes == (1, 3, 1, 1, 1)


def test_messages_take_turns_with_collectives() -> None:
    """ASTRA-sim 1 has none; ASTRA-sim 2 has one slot for both."""
    ends = ClassBuilder(np.arange(8, dtype=np.int32))
    ends.send("out", (np.arange(8) + 1) % 8, 64)
    ends.recv("in", (np.arange(8) - 1) % 8, 64)
    work = Generated((ends.build(),), (), (), (None,))
    given = design(workload=ar.Trace("made"))
    assert lower(given, work).lanes == (1, 1, 1, 1, 1)
    with pytest.raises(UnsupportedError, match=r"system\.comm_streams"):
        lower(ar.replace(given, "system.comm_streams", 2), work)
