"""Folding where communication of an NPU overlaps: generated workloads, one rank per class against every rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.draws import draws

import astrarium as ar
from astrarium.errors import AstrariumError, BeyondError
from astrarium.lower.kept import Kept
from astrarium.simulate import prepare
from astrarium.workload.model.decoder import Decoder

SHAPES = {"switch": ar.Switch, "ring": ar.Ring, "fully_connected": ar.FullyConnected}


@st.composite
def designs(draw):
    """A small decoder on up to 96 ranks; sends of pipeline stages and gradient reduction meet in the outer dims."""
    degree = st.sampled_from([1, 2, 4])
    tp, pp, sp = draw(degree), draw(degree), draw(st.sampled_from([1, 1, 2]))
    dp, cp = draw(st.sampled_from([1, 2, 3, 4, 6, 8])), draw(st.sampled_from([1, 1, 2, 4]))
    ranks = tp * pp * dp * sp * cp
    assume(4 <= ranks <= 96)
    dims, left = [], ranks
    while left > 1:
        npus = draw(st.sampled_from([n for n in (2, 3, 4, 6, 8, 16, 24, 32) if left % n == 0]))
        dims.append(SHAPES[draw(st.sampled_from(sorted(SHAPES)))](
            npus, bandwidth=f"{draw(st.sampled_from([10, 50, 100]))} GB/s",
            latency=f"{draw(st.sampled_from([0, 100, 500]))} ns"))
        left //= npus
    model = Decoder(layers=4, d_model=512, heads=16, kv_heads=draw(st.sampled_from([4, 16])), ffn=1024, vocab=1024,
                    seq=256, tied_embeddings=draw(st.booleans()),
                    moe=draw(st.sampled_from([None, None, ar.Experts(experts=8, top_k=2, expert_ffn=512)])))
    ep = draw(st.sampled_from([n for n in (1, 2, 4) if dp % n == 0])) if model.moe else 1
    schedule = draw(st.sampled_from({1: ["1f1b"], 2: ["1f1b", "gpipe", "interleaved", "zero_bubble"],
                                     4: ["1f1b", "gpipe", "zero_bubble"]}[pp]))
    virtual = 2 if schedule == "interleaved" else 1
    workload = ar.Transformer(
        model, tp=tp, pp=pp, dp=dp, sp=sp, cp=cp, ep=ep, virtual_stages=virtual,
        global_batch=dp * draw(st.sampled_from([2, 4])), micro_batch=1,
        zero=draw(st.sampled_from([0, 1, 2, 3])), schedule=schedule,
        order=draw(st.sampled_from(["megatron", "stage"])), tp_sequence=tp > 1 and draw(st.booleans()), bucket="1 MB")
    return ar.Design(
        workload=workload, compute=ar.Roofline(peak="100 TFLOP/s"), memory=ar.Memory(bandwidth="1 TB/s"),
        network=ar.Network(dims), system=ar.System(comm_streams=draw(st.sampled_from([1, 1, 2, 3]))),
        collective=ar.Collective(chunks=draw(st.sampled_from([1, 2, 4])),
                                 composition=draw(st.sampled_from(["baseline", "blueconnect"]))))


def node_times(outcome, rank):
    row = outcome.row[rank]
    part = slice(outcome.node_ptr[row], outcome.node_ptr[row + 1])
    return outcome.start[part], outcome.end[part]


@settings(draws(25), suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(designs())
def test_every_node_of_every_rank_has_the_same_times(design):
    try:
        folded = ar.simulate(design, fold="auto").outcome
    except AstrariumError:      # a combination that the workload refuses
        assume(False)
    assume(folded.folded)
    prepared = prepare(design, fold="auto", record="nodes")
    quick = prepared().outcome
    assert quick.folded, quick.unfolded_because
    assert prepared(quick.makespan / 1000).outcome.makespan == quick.makespan
    with pytest.raises(BeyondError):
        prepared((quick.makespan - 1) / 1000)
    every = ar.simulate(design, fold="off").outcome
    for rank in range(len(folded.row)):
        assert quick.finish[quick.row[rank]] == every.finish[every.row[rank]]
        for mine, nodes, theirs in zip(node_times(folded, rank), node_times(quick, rank), node_times(every, rank)):
            np.testing.assert_array_equal(nodes, theirs)
            np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(folded.use_busy, every.use_busy)
    traffic = {(dim, out, to): figures for dim, out, to, *figures in zip(
        every.link_dim, every.link_from, every.link_to, every.link_bytes, every.link_busy)}
    rows = list(zip(folded.link_dim, folded.link_from, folded.link_to, folded.link_bytes, folded.link_busy))
    single = len({row[:3] for row in rows}) == len(rows)      # a ring has two ports with one name
    assert not single or all(traffic[row[:3]] == list(row[3:]) for row in rows)


def test_a_pipeline_with_gradient_reduction_folds():
    """GPT-3 175B on 256 NPUs: messages between stages and all_reduces of gradients share the outer switch."""
    design = ar.Design(
        workload=ar.Transformer("gpt3-175b", tp=8, pp=4, dp=8, global_batch=16, micro_batch=1),
        compute=ar.Roofline(peak="312 TFLOP/s"), memory=ar.Memory(bandwidth="2 TB/s"),
        network=ar.Network([ar.Switch(8, bandwidth="300 GB/s", latency="500 ns"),
                            ar.Switch(32, bandwidth="25 GB/s", latency="2 us")]))
    folded = ar.simulate(design, record=False)
    assert folded.outcome.folded, folded.outcome.unfolded_because
    assert folded.makespan_ps == ar.simulate(design, fold="off", record=False).makespan_ps


def test_messages_of_a_direct_phase_through_a_switch_are_one_event():
    """GPT-3 175B with ZeRO 3: gathered weights meet messages between stages; 16 times the members, no more events."""
    events = []
    for dp in 32, 512:
        design = ar.Design(
            workload=ar.Transformer("gpt3-175b", tp=8, pp=4, dp=dp, zero=3, global_batch=8 * dp, micro_batch=1),
            compute=ar.Roofline(peak="312 TFLOP/s"), memory=ar.Memory(bandwidth="2 TB/s"),
            collective=ar.Collective(choice="none"),
            network=ar.Network([ar.Switch(8, bandwidth="300 GB/s", latency="500 ns"),
                                ar.Switch(4 * dp, bandwidth="25 GB/s", latency="2 us")]))
        folded = ar.simulate(design, record=False)
        assert folded.outcome.folded, folded.outcome.unfolded_because
        events.append(folded.outcome.events - folded.outcome.counted)
    assert events[1] < 1.5 * events[0]


def test_a_run_that_goes_back_behind_counted_periods_ends():
    """Llama 3 70B on 16,384 NPUs: a jump over periods finds a collective that some members have begun as messages."""
    ranks, stage = 16_384, 8_192
    design = ar.Design(
        workload=ar.Transformer("llama3-70b", tp=4, cp=2, pp=2, dp=1024, zero=1, schedule="interleaved",
                                virtual_stages=3, micro_batch=1, seq=4096, global_batch=2048, uneven="pad"),
        compute=ar.Roofline(peak="989 TFLOP/s"), memory=ar.Memory(bandwidth="3.35 TB/s"),
        collective=ar.Collective(choice="none"),
        system=ar.System(placement=[(rank + stage) % ranks for rank in range(ranks)]),
        network=ar.Network([ar.Ring(8, bandwidth_per_npu="450 GB/s", latency="500 ns"),
                            ar.Switch(1, bandwidth="50 GB/s", latency="2 us"),
                            ar.Switch(2048, bandwidth="50 GB/s", latency="2 us")]))
    quick, recorded = (ar.simulate(design, record=record) for record in (False, True))
    assert quick.outcome.folded, quick.outcome.unfolded_because
    assert quick.outcome.counted
    assert quick.makespan_ps == recorded.makespan_ps


def test_ports_of_a_ring_tell_members_apart():
    """A message between stages takes the port of the ring through which half of a group gets its gradients."""
    model = Decoder(layers=4, d_model=512, heads=16, ffn=1024, vocab=1024, seq=256, tied_embeddings=True)
    design = ar.Design(
        workload=ar.Transformer(model, dp=4, pp=2, global_batch=8, micro_batch=1, bucket="1 MB"),
        compute=ar.Roofline(peak="100 TFLOP/s"), memory=ar.Memory(bandwidth="1 TB/s"),
        collective=ar.Collective(composition="blueconnect", endpoint_delay="0 ns"),
        network=ar.Network([ar.FullyConnected(2, bandwidth="100 GB/s", latency="0 ns"),
                            ar.Ring(4, bandwidth="100 GB/s", latency="0 ns")]))
    folded, every = (ar.simulate(design, fold=fold, record=False).outcome for fold in ("auto", "off"))
    assert folded.folded
    np.testing.assert_array_equal(folded.finish[folded.row], every.finish[every.row])


def test_what_designs_share_depends_on_the_shapes_of_dims():
    """On a switch the last of a ring of context parallelism stands like the others; on a ring it does not."""
    model = Decoder(layers=2, d_model=512, heads=16, kv_heads=16, ffn=1024, vocab=1024, seq=1024)
    work, kept = ar.Transformer(model, cp=4, dp=4, global_batch=4, zero=1, bucket="1 MB"), Kept()
    for shape in ("switch", "ring", "fully_connected", "switch"):
        dims = [SHAPES[shape](8, bandwidth="50 GB/s", latency="500 ns"),
                ar.Switch(2, bandwidth="50 GB/s", latency="1 us")]
        design = ar.Design(workload=work, compute=ar.Roofline(peak="100 TFLOP/s"), memory=ar.Memory(bandwidth="1 TB/s"),
                           network=ar.Network(dims), collective=ar.Collective(choice="none"))
        ours = ar.simulate(design, record=False, kept=kept).outcome
        every = ar.simulate(design, record=False, fold="off").outcome
        np.testing.assert_array_equal(ours.finish[ours.row], every.finish[every.row])
