"""The totals that ASTRA-sim's tutorials printed, to the ns, under `compat: astra_sim`.

ASTRA-sim 1 (ASPLOS'23) starts its first event at 1 ns, ASTRA-sim 2 (HotI'24, MICRO'24) at 0: `FIRST`. Version 1 gives
a ring two links of 50 GiB/s, which is one of 100 GiB/s to a message that uses both, and reduces at 500,000 GB/s (its
main.cc). Messages and reductions take whole ns, cut off. c chunks of s bytes on n NPUs, latency a, endpoint delay e:

    ring        c * (e + (2n - 2) * (a + [s/n / rate] + e) + (n - 1) * 3 * [s/n / memory])
    halving     c * (e + 2 * sum over f of (2a + [s/f / rate] + e) + reductions),    f = 2, 4, 8
    direct      c * (e + 2 * (hops * a + [s/n / rate] + e) + 3 * [s/n / memory])
"""

from __future__ import annotations

from typing import Any

import pytest

import astrarium as ar
from astrarium.config import Config
from astrarium.profile.text_generate import generate_text
from astrarium.profile.text_workload import parse_text
from astrarium.trace.build import TraceBuilder
from astrarium.vocab import CommOp

FIRST = 1_000               # ps
LATENCY = "500 ns"
REDUCE = "500000 GB/s"


def ps(dims: list[Config], workload: Any, algorithm: str, *, memory: str = REDUCE, backend: str = "closed_form",
       **given: Any) -> int:
    """Picoseconds of a workload: 4 chunks, 10 ns at every endpoint, last come first served."""
    design = ar.Design(
        workload=workload, network=ar.Network(dims, backend=backend), memory=ar.Memory(bandwidth=memory),
        collective=ar.Collective(all_reduce=[algorithm], all_gather=[algorithm], choice="none", chunks=4,
                                 endpoint_delay="10 ns", composition="blueconnect"), compat="astra_sim")
    return ar.simulate(design, **given).makespan_ps


def all_reduce(payload: str) -> Config:
    return ar.SingleCollective("all_reduce", payload)


@pytest.mark.parametrize(("mebibytes", "slide_ns"), [
    (1, 45_681), (2, 62_761), (4, 96_921), (8, 165_297), (16, 302_077), (32, 575_609), (64, 1_122_673),
    (128, 2_216_745), (256, 4_404_945), (512, 8_781_373), (1024, 17_534_229)])
def test_asplos_ring_of_8(mebibytes: int, slide_ns: int) -> None:
    ring: list[Config] = [ar.Ring(8, bandwidth="100 GiB/s", latency=LATENCY)]
    assert ps(ring, all_reduce(f"{mebibytes} MiB"), "ring") + FIRST == slide_ns * 1000


@pytest.mark.parametrize(("shape", "npus", "algorithm", "payload", "backend", "slide_ns"), [
    (ar.Switch, 8, "halving_doubling", "1 MiB", "closed_form", 58_449),
    (ar.FullyConnected, 8, "direct", "1 MiB", "closed_form", 9_001),
    (ar.Switch, 64, "direct", "1 GiB", "closed_form", 633_217),
    (ar.Switch, 64, "direct", "1 GiB", "contention", 40_008_217)])
def test_asplos_other_shapes(shape: Any, npus: int, algorithm: str, payload: str, backend: str, slide_ns: int) -> None:
    dims = [shape(npus, bandwidth="50 GiB/s", latency=LATENCY)]
    assert ps(dims, all_reduce(payload), algorithm, backend=backend) + FIRST == slide_ns * 1000


def three_nodes() -> bytes:
    """An all_reduce of 1 MiB; after it an all_gather of 2 MiB and 50 us of computing (hoti2024/demo1)."""
    made = TraceBuilder()
    first = made.coll("all_reduce", CommOp.ALL_REDUCE, 2**20)
    made.coll("all_gather", CommOp.ALL_GATHER, 2 * 2**20, after=[first])
    made.comp("compute", 50, after=[first])
    return made.encode()


def test_hoti_ring_of_8_and_three_nodes(tmp_path: Any) -> None:
    ring: list[Config] = [ar.Ring(8, bandwidth="50 GiB/s", latency=LATENCY)]
    assert ps(ring, all_reduce("1 MiB"), "ring", memory="50 GB/s") == 117_780_000
    for rank in range(8):
        (tmp_path / f"three.{rank}.et").write_bytes(three_nodes())
    assert ps(ring, ar.Trace(str(tmp_path / "three.*.et")), "ring", memory="50 GB/s") == 405_520_000


@pytest.mark.parametrize(("shape", "algorithm", "logged_ns"), [(ar.Ring, "ring", 28_600),
                                                               (ar.FullyConnected, "direct", 4_120)])
def test_micro_24_messages_that_take_no_time(shape: Any, algorithm: str, logged_ns: int) -> None:
    """micro2024 demo 1 logs 28,600 ns for its ring and 4,120 ns for direct: latencies and endpoint delays alone, as of
    messages below 1 ns (its build does not see the trace's 1 MiB). The slide's 28.6 us is therefore the ring's."""
    dims = [shape(8, bandwidth="50 GiB/s", latency=LATENCY)]
    assert ps(dims, all_reduce("32 B"), algorithm, memory="50 GB/s") == logged_ns * 1000


MLP = """MODEL
6
mlp0 -1 32291 ALLGATHER 37632 32291 ALLREDUCE 37632 12864 NONE 0 3229
mlp1 -1 7488 ALLGATHER 65536 7488 ALLREDUCE 65536 3648 NONE 0 749
mlp2 -1 7488 ALLGATHER 65536 7488 ALLREDUCE 65536 3456 NONE 0 749
mlp3 -1 14144 ALLGATHER 147456 14144 ALLREDUCE 147456 10368 NONE 0 1414
mlp4 -1 7488 ALLGATHER 65536 7488 ALLREDUCE 65536 3648 NONE 0 749
mlp5 -1 9984 ALLGATHER 65536 9984 ALLREDUCE 65536 3456 NONE 0 998"""


def test_hoti_mlp() -> None:
    """hoti2024/demo2 prints 195,206,000 ns, the sum of its compute times (its build sees no bytes of collectives);
    ours are the same compute time, and what the collectives take beside it."""
    generated = generate_text(parse_text(MLP), 8)
    network = ar.Network([ar.Ring(8, bandwidth="50 GiB/s", latency=LATENCY)])
    result = ar.simulate(ar.Design(workload=ar.Trace("text"), network=network), traces=generated)
    assert float(result.compute) == 195_206_000
    assert 195_206_000 < float(result.makespan) < 1.01 * 195_206_000
