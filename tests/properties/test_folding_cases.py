"""Programs that once folded to other integers, cut down to what mattered, and one that must not fold."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium import engine
from astrarium.astra_sim.files import AstraInputs, lower_inputs, workload_of
from astrarium.astra_sim.lowering import AstraDim, AstraSystem
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Backend, Plan, Remote
from astrarium.lower import lower
from astrarium.network.config import LinkDim
from astrarium.trace import IOInfo, TraceBuilder, Traces, traces_of_bytes
from astrarium.vocab import CommOp, NodeKind

from .test_folding import difference, run

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="only the compiled core folds")
GIB = 1e9 / 2**30    # ASTRA-sim's "GB/s" that make one byte per ns


def astra(traces: Traces, dim: AstraDim, system: AstraSystem, backend: str) -> Plan:
    """The plan of traces on one dim under ASTRA-sim's rule book."""
    inputs = AstraInputs("traces", system, (dim,), Remote(), {}, backend)
    return lower_inputs(inputs, workload_of(inputs, traces))


def native(traces: Traces, dim: LinkDim, collective: ar.Collective | None = None) -> Plan:
    """The plan of traces on a network under our own rule book; 1 TFLOP/s, so that 1,000 operations take 1 ns."""
    design = ar.Design(workload=ar.Trace("traces"), network=ar.Network([dim]), compute=ar.Roofline(peak="1 TFLOP/s"),
                       memory=ar.Memory(bandwidth="50 GB/s", remote=ar.Remote("per_npu", bandwidth="1 GB/s")),
                       collective=ar.Collective() if collective is None else collective)
    return lower(design, traces)


def folded_and_whole(plan: Plan) -> tuple[Outcome, Outcome]:
    """Both runs, with equal integers."""
    folded, whole = run(plan, True), run(plan, False)
    assert isinstance(folded, Outcome)
    assert isinstance(whole, Outcome)
    assert not difference(folded, whole)
    return folded, whole


def test_the_only_member_of_a_group_goes_on_at_once() -> None:
    """The collective ends as it is issued: the memory access behind it comes before the other one, on a later lane."""
    files = []
    for rank in range(2):
        builder = TraceBuilder()
        text = str(['[{"pg_name": "1", "ranks": [0]}, {"pg_name": "2", "ranks": [1]}]'])
        builder.node(NodeKind.METADATA, "## process_group:init ##", inputs=IOInfo(values=text))
        alone = builder.coll("alone", CommOp.ALL_TO_ALL, 1000, group=rank + 1)
        behind = builder.memory("behind", 1000, after=[alone])
        builder.comp("last", num_ops=100_000 * (1 + rank), tensor_size=1, after=[behind])
        builder.memory("other", 2000)
        files.append(builder.encode())
    plan = native(traces_of_bytes(files), ar.Switch(2, bandwidth="1 GB/s", latency="10 ns"))
    folded, _ = folded_and_whole(plan)
    assert folded.folded


@pytest.mark.parametrize(("algorithm", "apart"), [("direct", True), ("bruck", True), ("ring", False),
                                                  ("halving_doubling", False)])
def test_a_hypercube_looks_alike_only_to_xor(algorithm: str, apart: bool) -> None:
    """Neighbours by number are one, two or three hops away; partners of halving are always one."""
    builder = TraceBuilder()
    builder.coll("gather", CommOp.ALL_GATHER, 4000)
    plan = native(traces_of_bytes([builder.encode()] * 8), ar.Hypercube(8, bandwidth="10 GB/s", latency="1 ns"),
                  ar.Collective(all_gather=[algorithm]))
    folded, whole = folded_and_whole(plan)
    assert (len(set(whole.finish.tolist())) > 1) is apart
    assert (len(set(folded.row.tolist())) > 1) is apart


def test_chunks_race_for_a_shared_link() -> None:
    """Messages of two chunks come from two ranks in one ns, and what they set off asks for one link."""
    builder = TraceBuilder()
    builder.coll("reduce", CommOp.ALL_REDUCE, 8000)
    system = AstraSystem(splits=8, implementations={CommOp.ALL_REDUCE: ("direct",)}, optimization="baseline",
                         endpoint_delay=64, active_chunks=3, local_mem_bw=50.0)
    plan = astra(traces_of_bytes([builder.encode()] * 4), AstraDim("Ring", 4, 100 * GIB, 10.0), system, Backend.LINKS)
    folded, whole = folded_and_whole(plan)
    assert not folded.folded
    assert len(set(whole.finish.tolist())) > 1


def test_a_shift_tells_equal_ranks_apart() -> None:
    """What a send lets go and what a receive lets go come in one ns, in an order that depends on the rank's number."""
    files = []
    for rank in range(8):
        builder = TraceBuilder()
        sent = builder.send("send", (rank + 3) % 8, 1 << 20, 1)
        got = builder.recv("recv", (rank - 3) % 8, 1 << 20, 1)
        builder.send("behind the receive", (rank + 1) % 8, 1 << 20, 2, after=[got])
        long = builder.send("behind the send", (rank + 1) % 8, 1 << 20, 3, after=[sent])
        builder.comp("last", duration=1000, after=[long])
        for tag in (2, 3):
            builder.recv("recv", (rank - 1) % 8, 1 << 20, tag)
        files.append(builder.encode())
    system = AstraSystem(splits=1, implementations={CommOp.ALL_REDUCE: ("ring",)}, optimization="baseline",
                         endpoint_delay=10, local_mem_bw=50.0)
    plan = astra(traces_of_bytes(files), AstraDim("FullyConnected", 8, 50.0, 500.0), system, Backend.UNSHARED)
    folded, whole = folded_and_whole(plan)
    assert len(set(whole.finish.tolist())) > 1
    assert not folded.folded
    assert "race" in folded.unfolded_because


def shifted(ranks: int, shift: int, *, barrier: bool) -> Traces:
    """Every rank computes, then sends 64 kB to the rank `shift` on and, where asked, enters a barrier."""
    files = []
    for rank in range(ranks):
        builder = TraceBuilder()
        first = builder.comp("first", num_ops=20_000, tensor_size=1)
        builder.send("send", (rank + shift) % ranks, 64_000, 1, after=[first])
        builder.recv("recv", (rank - shift) % ranks, 64_000, 1, after=[first])
        if barrier:
            met = builder.coll("barrier", CommOp.BARRIER, 0, after=[first])
            builder.comp("last", num_ops=64_000, tensor_size=1, after=[met])
        files.append(builder.encode())
    return traces_of_bytes(files)


def test_messages_without_bytes_wait_for_their_turn() -> None:
    """Those of a barrier queue behind the message that left before them in the same instant."""
    plan = native(shifted(6, 3, barrier=True), ar.Switch(6, bandwidth="50 GB/s", latency="1 ns"))
    folded, whole = folded_and_whole(plan)
    assert folded.folded
    assert whole.finish.max() > 64_000 * 20 + 64_000     # the barrier ends after the message


def test_a_message_over_two_meshes_passes_an_npu() -> None:
    """It is stored at the corner, on whose links others go too."""
    design = ar.Design(workload=ar.Trace("traces"), compute=ar.Roofline(peak="1 TFLOP/s"),
                       memory=ar.Memory(bandwidth="50 GB/s"),
                       network=ar.Network([ar.Mesh(2, bandwidth="1 GB/s", latency="20 ns"),
                                           ar.Mesh(2, bandwidth="2 GB/s", latency="1 ns")]))
    folded, _ = folded_and_whole(lower(design, shifted(4, 3, barrier=False)))
    assert "mesh" in folded.unfolded_because


def test_members_come_at_one_instant_before_and_after_messages_without_time() -> None:
    """A reduce_scatter waits for an all_to_all without bytes, whose messages take no time: some ranks begin it before
    the last of these have left, and its messages are first at their ports."""
    groups = str(['[{"pg_name": "1", "ranks": [1, 4, 0, 3, 2, 5]}, {"pg_name": "2", "ranks": [0, 1, 2, 3, 4, 5]}]'])
    files = []
    for rank in range(6):
        builder = TraceBuilder()
        builder.node(NodeKind.METADATA, "## process_group:init ##", inputs=IOInfo(values=groups))
        last = builder.comp("first", num_ops=1000 * (1 + rank), tensor_size=1)
        for _ in range(2):
            last = builder.coll("gradients", CommOp.REDUCE_SCATTER, 100_003, group=2, after=[last])
            last = builder.comp("layer", num_ops=24_321_000, tensor_size=1, after=[last])
            last = builder.coll("tokens", CommOp.ALL_TO_ALL, 0, group=1, after=[last])
        builder.coll("gradients", CommOp.REDUCE_SCATTER, 100_003, group=2, after=[last])
        files.append(builder.encode())
    dims = [ar.Switch(3, bandwidth="10 GB/s", latency="0 ns"), ar.Hypercube(2, bandwidth="37.3 GB/s", latency="0 ns")]
    design = ar.Design(
        workload=ar.Trace("traces"), network=ar.Network(dims), compute=ar.Roofline(peak="1 TFLOP/s"),
        memory=ar.Memory(bandwidth="1 TB/s"), system=ar.System(placement=(4, 5, 3, 2, 0, 1)),
        collective=ar.Collective(all_to_all=["direct:2"] * 2, reduce_scatter=["ring", "direct"], chunks=8,
                                 active_chunks=1, scheduling="fifo"))
    folded, _ = folded_and_whole(lower(design, traces_of_bytes(files)))
    assert folded.folded
