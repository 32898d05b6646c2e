"""Prefill and decode on ranks of their own."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.workload.checks import check
from tests.workload.inference.systems import inference

import astrarium as ar
from astrarium import catalog
from astrarium.trace.work import Generated
from astrarium.vocab import NodeKind
from astrarium.workload.inference.disaggregated import Disaggregated
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.inference.transfers import disaggregated, shares

PER_TOKEN = 128 * 1024      # LLaMA 3 8B: 2 x 32 layers x 8 heads x 128 x 2 bytes
SEARCH = {"vectors": 10**9, "bytes_per_vector": 96, "scanned": 0.001}


def workload(**fields: Any) -> Disaggregated:
    return Disaggregated(**{"model": "llama3-8b", "prefill": {}, "decode": {}, "batch": 8, "prompt": 64, "generated": 4,
                            **fields})


def design(work: Disaggregated | Any, **more: Any) -> ar.Design:
    chip = catalog.device("h100_sxm")
    return ar.Design(workload=work, compute=ar.Roofline(**chip.compute), memory=ar.Memory(**chip.memory), **more,
                     network=ar.Network([ar.Switch(work.ranks, bandwidth="450 GB/s", latency="500 ns")]))


def sent(made: Generated, name: str) -> dict[tuple[int, int], int]:
    """(source, target) -> bytes of the messages of that name."""
    found: dict[tuple[int, int], int] = defaultdict(int)
    for trace in made.classes:
        assert trace.names is not None
        comm = np.flatnonzero(trace.comm_size > 0)
        slot = {int(node): int(place) for node, place in zip(np.flatnonzero(np.isin(trace.type, [5, 6, 7])), trace.slot
                                                             if trace.slot is not None else [], strict=True)}
        for node in comm.tolist():
            if trace.type[node] == NodeKind.COMM_SEND and trace.names(node) == f"{name}.send":
                for row, rank in enumerate(trace.ranks.tolist()):
                    found[rank, int(trace.slot_a[row, slot[node]])] += int(trace.comm_size[node])
    return found


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8, 16, 32]), st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_every_target_gets_its_heads_once(heads: int, source: int, target: int) -> None:
    """What arrives is what it holds; copies at the source share the work evenly."""
    held = [Fraction(max(heads, shards), shards) for shards in (source, target)]
    got: dict[int, Fraction] = defaultdict(Fraction)
    gave: dict[int, Fraction] = defaultdict(Fraction)
    for one, other, share in shares(heads, source, target):
        got[other] += share * held[0]
        gave[one] += share * held[0]
    assert got == dict.fromkeys(range(target), held[1])
    if target >= source:
        assert set(gave) == set(range(source))
        assert len(set(gave.values())) == 1


def test_workers_have_experts_of_their_own() -> None:
    """Three engines of two dp replicas that share experts: three copies of the experts, a replica a third of the dp."""
    work = workload(model="mixtral-8x7b", prefill={"workers": 3, "tp": 2, "dp": 2, "ep": 4}, decode={"workers": 2},
                    batch=12)
    prefill, decode = work.phase("prefill"), work.phase("decode")
    assert (work.prefill.ranks, work.decode.ranks, work.ranks) == (12, 2, 14)
    assert (prefill.dp, prefill.mesh.size(("edp",)), prefill.mesh.size(("ep", "etp"))) == (6, 3, 4)
    assert decode.dp == decode.mesh.size(("edp",)) == 2
    one = workload(model="mixtral-8x7b", prefill={"tp": 2, "dp": 2, "ep": 4}, batch=4).phase("prefill")
    assert replica_of(prefill).weight_bytes(0) == replica_of(one).weight_bytes(0)
    check(disaggregated(work))


@pytest.mark.parametrize(("prefill", "decode", "copies"), [
    ({}, {}, 1), ({"tp": 4}, {"tp": 2}, 1), ({"tp": 2}, {"tp": 8}, 1), ({"tp": 16}, {"tp": 8}, 1), ({}, {"tp": 16}, 2),
    ({"pp": 4}, {"tp": 2}, 1), ({"pp": 2, "micro_batches": 2}, {"pp": 4}, 1),
    ({"dp": 4}, {"dp": 2, "micro_batches": 2}, 1),
    ({"stage_layers": [20, 12], "pp": 2}, {"pp": 2, "tp": 2}, 1), ({"dp": 2, "tp": 2}, {"dp": 8}, 1)])
def test_the_whole_cache_arrives(prefill: dict[str, Any], decode: dict[str, Any], copies: int) -> None:
    work = workload(prefill=prefill, decode=decode)
    made = disaggregated(work)
    check(made)
    moved = sent(made, "cache")
    assert sum(moved.values()) == 8 * 64 * PER_TOKEN * copies
    into: dict[int, int] = defaultdict(int)
    for (source, target), size in moved.items():
        assert source < work.prefill.ranks <= target
        into[target] += size
    assert set(into) == set(range(work.prefill.ranks, work.ranks))
    if work.decode.pp == 1:
        assert len(set(into.values())) == 1
    result = ar.simulate(design(work))
    assert [phase.name for phase in result.phases] == ["prefill", "decode"]


def test_prefill_is_as_alone_and_decode_waits_for_the_cache() -> None:
    work = workload(prefill={"tp": 4}, decode={"tp": 2}, prompt=500, generated=10)
    alone = [ar.simulate(design(inference(**fields))) for fields in (
        {"phase": "prefill", "tp": 4, "batch": 8, "prompt": 500},
        {"phase": "decode", "tp": 2, "batch": 8, "prompt": 500, "generated": 10, "steps": 10})]
    both = ar.simulate(design(work))
    assert both.phases[0].end == alone[0].makespan_ps
    transfer = 8 * 500 * PER_TOKEN / 2 / 450      # ns: each of 2 ranks receives its half
    waited = (both.phases[1].end - both.phases[1].begin - alone[1].makespan_ps) / 1000
    assert transfer < waited < 1.1 * transfer + 5000


def test_mla_sends_one_cache_to_every_rank() -> None:
    model = {"family": "decoder", "layers": 2, "d_model": 256, "heads": 8, "ffn": 512, "vocab": 1000,
             "mla": {"kv_rank": 64, "nope_size": 16, "rope_size": 8, "v_size": 16}}
    moved = sent(disaggregated(workload(model=model, prefill={"tp": 2}, decode={"tp": 4})), "cache")
    assert sum(moved.values()) == 4 * 8 * 64 * 2 * (64 + 8) * 2
    assert len({source for source, _ in moved}) == 2


def test_retrieval_comes_first() -> None:
    """A scan of batch x vectors x share x bytes, at the memory's bandwidth, then the prompts, then prefill."""
    work = workload(prefill={"tp": 2}, decode={}, retrieval={"servers": 4, **SEARCH})
    base = ar.simulate(design(workload(prefill={"tp": 2}, decode={})))
    found = ar.simulate(design(work))
    check(disaggregated(work))
    scan = 8 * 10**9 * 0.001 * 96 / 4 / 3350      # ns
    more = (found.phases[0].end - base.phases[0].end) / 1000
    assert scan < more < scan + 20_000
    slow = ar.NpuType(npus="3:7", memory=ar.Memory(capacity="80 GB", bandwidth="335 GB/s"))
    slower = ar.simulate(design(work, npu_types=[slow]))
    assert slower.phases[0].end - found.phases[0].end == pytest.approx(9000 * scan, rel=0.02)


@pytest.mark.parametrize(("fields", "path"), [
    ({"prefill": {"tp": 3}}, "prefill.tp"), ({"decode": {"dp": 3}}, "batch"), ({"model": "vit-b-16"}, "model"),
    ({"prompt": None}, "prompt"), ({"decode": {"pp": 2, "stage_layers": [1, 2]}}, "decode.stage_layers"),
    ({"retrieval": {"servers": 0, **SEARCH}}, "retrieval.servers")])
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(ar.InputError, match=path):
        workload(**fields)
