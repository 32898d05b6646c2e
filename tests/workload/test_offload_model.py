"""`offload: model`: weights, gradients and states in remote memory; collectives or the memory bring them together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import astrarium as ar
from astrarium.lower.pooled import sharers_of
from astrarium.memory.pool import pool_ns
from astrarium.trace.export import write_generated
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import CommOp, NodeKind, Placed
from astrarium.workload.assemble import assemble
from astrarium.workload.footprint import training_footprint
from astrarium.workload.generate import generate
from astrarium.workload.mesh import mesh_of

from .blocks import layer, recipe
from .checks import check
from .test_assembly import _same_one_by_one

MODEL = ar.Decoder(layers=4, d_model=256, heads=4, ffn=1024, vocab=512, seq=64, tied_embeddings=False,
                   moe=ar.Experts(experts=4, top_k=1, every=2))


def work(**given: Any) -> ar.Transformer:
    """8 ranks; the experts are divided among 4, so 2 have the same."""
    return ar.Transformer(MODEL, **{"global_batch": 8, "dp": 8, "ep": 4, "zero": 3, "offload": "model",
                                    "bucket": "1 GB", **given})


def nodes(trace: TraceClass, kind: NodeKind, word: str) -> list[int]:
    assert trace.names is not None
    return [node for node in np.flatnonzero(trace.type == kind).tolist() if word in trace.names(node)]


def moved(generated: Generated, kind: NodeKind, word: str) -> list[int]:
    """What the memory itself moves for one rank: of bytes that are shared, the rank's part."""
    trace = generated.classes[0]
    here = nodes(trace, kind, word)
    return sorted((trace.tensor_size.astype(np.int64) // sharers_of(trace))[here].tolist())


def test_the_memory_moves_the_same_bytes_in_both() -> None:
    """A shard per rank: loaded before an all_gather, or as its part of what the memory gathers."""
    network, remote = generate(work()), generate(work(gather="remote"))
    for kind, word in ((NodeKind.MEM_LOAD, "weights.load"), (NodeKind.MEM_STORE, "gradients.store"),
                       (NodeKind.MEM_LOAD, "optimizer.load"), (NodeKind.MEM_STORE, "optimizer.store")):
        assert sum(moved(network, kind, word)) == sum(moved(remote, kind, word)) > 0
    trace, pooled = network.classes[0], remote.classes[0]
    gathers = nodes(trace, NodeKind.COMM_COLL, "weights.all_gather")
    loads = nodes(pooled, NodeKind.MEM_LOAD, "weights.load")
    assert sorted(trace.comm_size[gathers].tolist()) == sorted(pooled.comm_size[loads].tolist())
    assert Counter(sharers_of(pooled)[loads].tolist()).keys() == {2, 8}
    left = {CommOp(op) for op in pooled.comm_type[nodes(pooled, NodeKind.COMM_COLL, "")].tolist()}
    assert left <= {CommOp.ALL_TO_ALL, CommOp.ALL_REDUCE}         # dispatch of tokens, the norm


def test_every_byte_is_loaded_and_stored() -> None:
    """bf16: weights for forward and backward (backward needs no embedding), gradients; states of 12 bytes."""
    generated = generate(work(gather="remote", micro_batch=1))
    ranks = 8
    stored = sum(moved(generated, NodeKind.MEM_STORE, "gradients.store")) * ranks
    states = sum(moved(generated, NodeKind.MEM_LOAD, "optimizer.load")) * ranks
    back = sum(sum(moved(generated, NodeKind.MEM_STORE, f"{word}.store")) for word in ("optimizer", "weights")) * ranks
    loaded = sum(moved(generated, NodeKind.MEM_LOAD, "weights.load")) * ranks
    total = states / 12
    embedding = MODEL.vocab * MODEL.d_model
    assert stored == pytest.approx(2 * total, rel=1e-3)
    assert back == pytest.approx((12 + 2) * total, rel=1e-3)
    assert loaded == pytest.approx(2 * (2 * total - embedding), rel=1e-3)


def test_nothing_of_the_model_stays_on_the_npu() -> None:
    (away,), (here,) = training_footprint(work()), training_footprint(work(offload="none"))
    layers = 2 * (4 * MODEL.d_model**2 + 4 * 2 * MODEL.d_model * MODEL.ffn)       # of two blocks, about
    assert away.weights < 1.5 * layers < here.weights + here.gradients + here.states
    assert training_footprint(work(gather="remote")) == training_footprint(work())


def test_a_run_without_all_gathers(tmp_path: Path) -> None:
    """Both run; the pool's is what a written trace gives too, and the sum of its accesses where nothing overlaps."""
    levels = (ar.PoolLevel("node", 2, "40 GB/s"), ar.PoolLevel("npu", 8, "20 GB/s"))
    pool = ar.Remote("pool", bandwidth="10 GB/s", groups=4, chunk="64 KiB", levels=levels)
    design = ar.Design(workload=work(gather="remote"), compute=ar.Roofline(peak="1 PFLOP/s"),
                       memory=ar.Memory(bandwidth="1 PB/s", remote=pool),
                       network=ar.Network([ar.Switch(8, bandwidth="20 GB/s", latency="0 ns")]))
    result = ar.simulate(design)
    trace = generate(work(gather="remote")).classes[0]
    here = np.flatnonzero((trace.type == NodeKind.MEM_LOAD) | (trace.type == NodeKind.MEM_STORE))
    total = float(pool_ns(pool, trace.tensor_size[here], sharers_of(trace)[here]).sum())
    assert total <= float(result.makespan) < 1.2 * total
    write_generated(generate(design.workload), tmp_path / "made")
    files = ar.Trace(str(tmp_path / "made.*.et"), groups=str(tmp_path / "made.groups.json"))
    written = ar.replace(design, "workload", files)
    assert ar.simulate(written).makespan == result.makespan
    with pytest.raises(ar.InputError, match=r"has no switches.*workload.gather: network"):
        ar.simulate(ar.replace(design, "memory.remote", ar.Remote("per_npu", bandwidth="10 GB/s")))


@pytest.mark.parametrize(("gather", "over"), [("network", "own"), ("remote", "own"), ("remote", "network")])
def test_folded_and_every_rank_are_equal(gather: str, over: str) -> None:
    levels = (ar.PoolLevel("node", 2, "40 GB/s"), ar.PoolLevel("npu", 8, "20 GB/s"))
    pool = ar.Remote("pool", bandwidth="10 GB/s", groups=4, chunk="64 KiB", levels=levels, over=over)
    memory = pool if gather == "remote" else ar.Remote("per_npu", bandwidth="10 GB/s")
    design = ar.Design(workload=work(gather=gather, dp=4, tp=2, global_batch=4), compute=ar.Roofline(peak="1 TFLOP/s"),
                       memory=ar.Memory(bandwidth="1 TB/s", remote=memory),
                       network=ar.Network([ar.Switch(8, bandwidth="20 GB/s", latency="1 us")]))
    assert ar.simulate(design).makespan == ar.simulate(design, fold="off").makespan


@pytest.mark.parametrize("gathers", [False, True])
@pytest.mark.parametrize("pattern", [(1,), (1, 3)])
def test_blocks_repeated_by_columns(gathers: bool, pattern: tuple[int, ...]) -> None:
    mesh = mesh_of("megatron", tp=2, dp=2)
    for prefetch in range(3):
        made = recipe("1f1b", layers=2, mesh=mesh, zero=3, bucket=4e3, gathers=gathers, prefetch=prefetch,
                      placed=Placed("", "", "", prefetch=prefetch))
        parts = tuple((part[0], *pattern * 6, part[-1]) for part in made.parts)
        made = replace(made, kinds=(*made.kinds, layer(steps=2)), parts=parts)
        check(assemble(made))
        _same_one_by_one(made)


@pytest.mark.parametrize(("change", "message"), [
    ({"zero": 2}, r"zero: 2, under offload: model.*3"), ({"pp": 2}, r"pp: 2, under offload: model.*1"),
    ({"offload": "none", "gather": "remote"}, "gather: has an effect only under offload: model"),
    ({"gather": "remote", "zero_ranks": 4}, "gather: remote, but some ranks keep the same shards")])
def test_what_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ar.InputError, match=message):
        work(**change)
