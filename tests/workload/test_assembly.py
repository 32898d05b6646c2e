"""Assembly on hand-made pieces: dependencies, messages, collective volumes, folding, time against closed forms."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace

import astrarium as ar
from astrarium.result import Result
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import CommOp, NodeKind, Placed
from astrarium.workload.assemble import Recipe, assemble
from astrarium.workload.mesh import AXES, mesh_of
from astrarium.workload.pieces import BlockPieces, Piece, Step, Weight
from astrarium.workload.schedule import KIND, load_schedule
from astrarium.workload.training import OFFLOADED

from .blocks import embedding, head, layer, recipe
from .checks import bytes_by, check, flops, programs

AWAY = (Placed(states="host", gradients="pool"),
        Placed(parameters="pool", gradients="host", states="host", activations="host", step=True),
        Placed(parameters="host", gradients="host", activations="pool", prefetch=2),
        Placed(parameters="host", states="pool", prefetch=0, step=True))

GATHER, SCATTER, REDUCE = CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_REDUCE
EVERY = st.fixed_dictionaries({
    "schedule": st.sampled_from(KIND.names()), "zero": st.integers(0, 3), "prefetch": st.integers(0, 3),
    "overlap": st.booleans(), "bucket": st.sampled_from([4e3, 3e4, 1e9]), "tied": st.booleans(),
    "placed": st.sampled_from([*OFFLOADED.values(), *AWAY]), "clip": st.booleans(),
    "zero_axes": st.sampled_from([("dp", "cp", "sp"), ("dp",), ("sp",)]), "order": st.permutations(AXES).map("-".join),
    "scattered": st.sampled_from([(), ("tp",)]),
    "sizes": st.tuples(*[st.integers(1, 2)] * 4), "stages": st.sampled_from([2, 4])})


COLUMNS = ("type", "num_ops", "tensor_size", "comm_type", "comm_size", "priority", "parent_ptr", "parent", "slot_a",
           "slot_b", "slot")


def _made(case: dict[str, object]) -> Recipe:
    found = dict(case)
    name, (tp, sp, dp, cp) = str(found.pop("schedule")), found.pop("sizes")  # type: ignore[misc]
    stages, order = int(found.pop("stages")), str(found.pop("order"))  # type: ignore[call-overload]
    line, chunks = load_schedule(name), 2 if name == "interleaved" else 1
    placed = found["placed"]
    assert isinstance(placed, Placed)
    if line.split:
        found["placed"] = placed._replace(activations=None, parameters=None, gradients=None)
    found["tied"] = frozenset({"wte"}) if found["tied"] else frozenset()
    mesh = mesh_of(order, tp=tp, sp=sp, dp=dp, cp=cp, pp=stages)
    return recipe(name, layers=8, batches=8, chunks=chunks, mesh=mesh, **found)


@settings(max_examples=25)
@given(EVERY)
def test_any_combination_holds_together(case: dict[str, object]) -> None:
    made = _made(case)
    generated = assemble(made)
    check(generated)
    blocks = [made.kinds[block] for part in made.parts for block in part]
    once = sum(step.flops for block in blocks for piece in (block.forward, block.backward) for step in piece.steps)
    tail = sum(map(_tail, generated.classes))
    ranks = made.mesh.ranks // made.stages
    assert flops(generated) - tail == pytest.approx(once * made.batches * ranks)
    assert list(generated.names) == [str(n + 1) for n in range(len(generated.groups))]


@pytest.mark.parametrize("pattern", [(1,), (1, 3), pytest.param((1, 1, 3), marks=pytest.mark.exam)])
@pytest.mark.parametrize("zero", [0, pytest.param(1, marks=pytest.mark.exam), 2, 3])
@pytest.mark.parametrize("schedule", ["1f1b", "zero_bubble"])
def test_blocks_repeated_by_columns_are_those_made_one_by_one(schedule: str, zero: int,
                                                              pattern: tuple[int, ...]) -> None:
    """Also where two kinds of layers alternate, and where a bucket is full after some of them."""
    mesh = mesh_of("megatron", tp=2, dp=2, pp=2)
    everywhere = (OFFLOADED["none"],) if load_schedule(schedule).split else (
        OFFLOADED["none"], OFFLOADED["activations"], AWAY[1], AWAY[2])
    for bucket, placed, prefetch in product((4e3, 1e5), everywhere, range(3) if zero == 3 else (1,)):
        made = recipe(schedule, layers=2, mesh=mesh, zero=zero, bucket=bucket, placed=placed, prefetch=prefetch)
        parts = tuple((*part[:part[0] == 0], *pattern * 4, *part[len(part) - (part[-1] == 2):]) for part in made.parts)
        _same_one_by_one(replace(made, kinds=(*made.kinds, layer(steps=2)), parts=parts))


def _same_one_by_one(made: Recipe) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("astrarium.workload.assemble.rounds._alike", lambda *_: 0)
        one_by_one = assemble(made)
    whole = assemble(made)
    for trace, rival in zip(whole.classes, one_by_one.classes, strict=True):
        for name in COLUMNS:
            assert np.array_equal(getattr(trace, name), getattr(rival, name), equal_nan=name == "num_ops"), name
        assert trace.names is not None
        assert rival.names is not None
        assert [*map(trace.names, range(len(trace.node_id)))] == [*map(rival.names, range(len(rival.node_id)))]
    for tensors, others in zip(whole.tensors, one_by_one.tensors, strict=True):
        assert tensors is not None
        assert all(np.array_equal(getattr(tensors, each.name), getattr(others, each.name)) for each in fields(tensors))


def _tail(trace: TraceClass) -> float:
    """FLOPs of what follows the last unit."""
    assert trace.names is not None
    start = len(trace.node_id)
    while trace.names(start - 1).startswith("step."):
        start -= 1
    return float(np.nansum(trace.num_ops[start:])) * len(trace.ranks)


def _design(made: Recipe, *, fast: bool = False) -> ar.Design:
    bandwidth, latency = ("1000000 TB/s", "0 ns") if fast else ("100 GB/s", "500 ns")
    return ar.Design(
        workload=ar.SingleCollective("all_reduce", payload="1 B"), compute=ar.Roofline(peak="1 TFLOP/s"),
        memory=ar.Memory(bandwidth="1000000 TB/s" if fast else "1 TB/s",
                         remote=ar.Remote(kind="per_npu", bandwidth="10 GB/s"), tiers=[
                             ar.Tier("host", capacity="1 TB", bandwidth="8 GB/s", step_bandwidth="30 GB/s",
                                     duplex=True),
                             ar.Tier("pool", capacity="1 TB", bandwidth="4 GB/s", npus=2, total="6 GB/s",
                                     step_bandwidth="30 GB/s")]),
        network=ar.Network([ar.Switch(made.mesh.ranks, bandwidth=bandwidth, latency=latency)]),
        system=ar.System(comm_streams=3))


def _run(made: Recipe, generated: Generated, *, fast: bool = False, fold: str = "auto") -> Result:
    design = replace_workload(_design(made, fast=fast))
    return ar.simulate(design, traces=generated, fold=fold)


def replace_workload(design: ar.Design) -> ar.Design:
    """The design with a workload that takes what was generated."""
    return ar.replace(design, "workload", ar.Trace("generated.*.et"))


@settings(max_examples=8)
@given(EVERY)
def test_folded_and_unfolded_agree(case: dict[str, object]) -> None:
    made = _made(case)
    generated = assemble(made)
    folded, whole = _run(made, generated), _run(made, generated, fold="off")
    assert folded.makespan == whole.makespan
    assert folded.peak_memory == whole.peak_memory


def _plain(flops_forward: float, flops_backward: float) -> BlockPieces:
    """A block of one forward and one backward operator."""
    def piece(size: float) -> Piece:
        return Piece((Step("op", NodeKind.COMP, flops=size, bytes=1.0),), 0)

    return BlockPieces("plain", piece(flops_forward), piece(flops_backward), (Weight("w", 10.0, ()),), 1.0, 1.0, 1.0)


@pytest.mark.parametrize(("name", "chunks", "bubble"), [("gpipe", 1, 9), ("1f1b", 1, 9), ("interleaved", 2, 4.5),
                                                        ("interleaved", 4, 2.25)])
def test_time_is_the_published_bubble(name: str, chunks: int, bubble: float) -> None:
    """A pipeline of 4 stages on the engine, messages free: m (f + b) + (s - 1)(f + b) / v (arXiv 2104.04473)."""
    batches, unit = 8, 1e9 / chunks      # 1 ms forward, 2 ms backward per stage
    kinds = (_plain(unit, 2 * unit),)
    made = replace(recipe(name, layers=4, batches=batches, chunks=1, mesh=mesh_of("megatron", pp=4)), kinds=kinds,
                   parts=((0,),) * 4 * chunks, chunks=chunks, clip=False)
    result = _run(made, assemble(made), fast=True)
    assert result.makespan / 1e6 == pytest.approx(3 * batches + bubble, rel=1e-5)


WEIGHTS = 8 * 11000 / 4       # of a stage's two layers, and the embedding or the head's 5000


@pytest.mark.parametrize("overlap", [True, False])
def test_volumes_of_zero(overlap: bool) -> None:
    """Per iteration and rank: all_reduce of all gradients; reduce_scatter and all_gather of the same size under stages
    1
    and 2; under 3 two all_gathers per micro-batch (arXiv 1910.02054, section 7)."""
    mesh, batches = mesh_of("megatron", tp=2, dp=4, pp=4), 4
    for stage, own in ((0, WEIGHTS + 5000), (1, WEIGHTS)):
        rank = int(mesh.on("pp", stage)[0])
        for zero, times in ((0, 1), (1, 1), (2, batches), (3, batches)):
            generated = assemble(recipe("1f1b", layers=8, batches=batches, mesh=mesh, zero=zero, overlap=overlap))
            gradients, weights = (bytes_by(generated, rank, name) for name in (".gradients.", "weights."))
            if zero == 0:
                assert gradients == {(REDUCE, 4): own * 4, (REDUCE, 8): 4}
                assert not weights
                continue
            # the norm: over the replicas, then over tp and pp
            assert gradients == {(SCATTER, 4): own * 4 * times, (REDUCE, 4): 4, (REDUCE, 8): 4}
            again = batches * (2 * own - 5000 * (stage == 0))   # the embedding's gradient does not need its weight
            assert weights == {(GATHER, 4): (own if zero < 3 else again) * 2 / 4}


def test_hybrid_sharding_reduces_the_shards_over_the_other_axes() -> None:
    mesh = mesh_of("megatron", sp=2, dp=4)
    generated = assemble(recipe("1f1b", layers=2, batches=1, mesh=mesh, zero=2, zero_axes=("sp",), clip=False))
    own = 2 * 11000 + 2 * 5000
    assert bytes_by(generated, 0, "gradients") == {(SCATTER, 2): own * 4, (REDUCE, 4): own * 4 / 2}


def test_buckets() -> None:
    """No collective of less than a bucket, but for the last; the sum does not change."""
    mesh = mesh_of("megatron", dp=2)
    sums, counts = set(), []
    for bucket in (1e9, 100e3, 10e3):
        generated = assemble(recipe("1f1b", layers=8, batches=1, mesh=mesh, bucket=bucket, clip=False))
        trace = generated.classes[0]
        sizes = trace.comm_size[(trace.type == NodeKind.COMM_COLL)]
        sums.add(int(sizes.sum()))
        counts.append(len(sizes))
        assert (sizes[:-1] >= bucket * 0.999).all()
    assert len(sums) == 1
    assert counts[0] == 1 < counts[1] < counts[2]


def test_overlap_hides_the_reduction() -> None:
    mesh = mesh_of("megatron", dp=4)
    times = {}
    for overlap in (True, False):
        made = recipe("1f1b", layers=8, batches=2, mesh=mesh, bucket=1e4, overlap=overlap)
        times[overlap] = _run(made, assemble(made)).makespan
    assert times[True] < times[False]


def test_messages_between_stages() -> None:
    """2 messages per boundary and micro-batch, of the block's output; the interleaved wrap adds v - 1 boundaries."""
    made = recipe("interleaved", layers=8, batches=4, chunks=2, mesh=mesh_of("megatron", pp=4))
    generated = assemble(made)
    sends = [int((trace.type == NodeKind.COMM_SEND).sum()) for trace in generated.classes]
    assert sends == [4 * (2 + 1), 4 * 4, 4 * 4, 4 * (2 + 1)]
    sizes = np.concatenate([trace.comm_size[trace.type == NodeKind.COMM_SEND] for trace in generated.classes])
    assert set(sizes.tolist()) == {4096}


@pytest.mark.parametrize("schedule", KIND.names())
def test_each_rank_sends_its_part(schedule: str) -> None:
    """Of an activation that all ranks of tp have each sends a part, rounded up; the others' parts are gathered."""
    made = recipe(schedule, layers=8, batches=8, mesh=mesh_of("megatron", tp=3, pp=4), scattered=("tp",))
    generated = assemble(made)
    check(generated)
    for trace in generated.classes:
        receives = np.flatnonzero(trace.type == NodeKind.COMM_RECV)
        assert set(trace.comm_size[receives].tolist()) == {-(-4096 // 3)}
        assert trace.names is not None
        gathers = [node for node in range(len(trace.type)) if "activations.all_gather" in trace.names(node)]
        assert gathers == (receives + 1).tolist()
        assert (trace.comm_size[gathers] == -(-4096 // 3)).all()
        assert [trace.parent[trace.parent_ptr[node]:trace.parent_ptr[node + 1]].tolist() for node in gathers] == [
            [receive] for receive in receives.tolist()]


def test_tied_embedding_is_summed_over_first_and_last_stage() -> None:
    mesh = mesh_of("megatron", tp=2, dp=2, pp=4)
    generated = assemble(recipe(mesh=mesh, tied=frozenset({"wte"}), clip=False))
    rank = programs(generated)
    for stage in range(4):
        own = int(mesh.on("pp", stage)[0])
        found = bytes_by(generated, own, "step.gradients")
        assert found == ({(REDUCE, 2): 5000 * 4} if stage in (0, 3) else {})
    trace, row = rank[0]
    slots = {tuple(generated.groups[group].tolist()) for group in trace.slot_b[row].tolist() if group >= 0}
    assert (0, 12) in slots


def test_copies_of_dualpipe_are_summed() -> None:
    """Stage i and s - 1 - i hold the same two parts: each sums up both copies' gradients."""
    generated = assemble(recipe("dualpipe", layers=8, batches=8, mesh=mesh_of("megatron", pp=4), clip=False))
    check(generated)
    whole = (8 * 11000 + 2 * 5000) * 4
    assert sum(sum(bytes_by(generated, rank, ".gradients.").values()) for rank in range(4)) == 2 * whole


def test_names_say_where_a_node_belongs() -> None:
    generated = assemble(recipe("interleaved", layers=8, batches=4, chunks=2))
    names = [[trace.names(node) for node in range(len(trace.node_id))] for trace in generated.classes
             if trace.names is not None]
    assert names[0][0] == "batch0.block0.forward.gather"
    assert names[0][-1] == "step.optimizer.step"
    assert "batch3.block9.backward.d_logits" in names[3]
    assert "batch2.block5.forward.qkv" in names[0]
    assert "batch2.block5.forward.qkv" not in names[1]
    layers = {name.split(".")[1] for each in names for name in each if name.endswith("forward.qkv")}
    assert layers == {f"block{n}" for n in range(1, 9)}


def test_ring_steps_go_around_one_axis() -> None:
    """Ring attention of 4: three sends, from each rank to the next of its cp group, matched by the one before."""
    steps = tuple(step for turn in range(3) for step in (
        Step(f"send{turn}", NodeKind.COMM_SEND, (turn * 3 - 1,) if turn else (), bytes=64, axes=("cp",), shift=1),
        Step(f"receive{turn}", NodeKind.COMM_RECV, (turn * 3 - 1,) if turn else (), bytes=64, axes=("cp",), shift=-1),
        Step(f"op{turn}", NodeKind.COMP, (turn * 3 + 1,), flops=1.0, bytes=1.0)))
    kinds = (embedding(), replace(layer(False), forward=Piece(steps, 8)), head())
    mesh = mesh_of("megatron", tp=2, cp=4)
    generated = assemble(recipe("1f1b", layers=1, batches=2, mesh=mesh, kinds=kinds))
    check(generated)
    trace = generated.classes[0]
    assert trace.slot is not None
    first = int(trace.slot[0])
    assert trace.type[1] == NodeKind.COMM_SEND
    assert trace.slot_a[:, first].tolist() == [2, 3, 4, 5, 6, 7, 0, 1]


def test_same_recipe_same_columns() -> None:
    one, two = assemble(recipe("interleaved", chunks=2, zero=3)), assemble(recipe("interleaved", chunks=2, zero=3))
    for left, right in zip(one.classes, two.classes, strict=True):
        for name in ("type", "comm_size", "parent", "parent_ptr", "slot", "slot_a", "slot_b", "tensor_size"):
            assert np.array_equal(getattr(left, name), getattr(right, name))


def test_prefetch_hides_the_gathers() -> None:
    """ZeRO 3: weights that are gathered a layer ahead arrive while the layer before runs."""
    mesh, times = mesh_of("megatron", dp=4), []
    for prefetch in (0, 1, 2):
        made = recipe("1f1b", layers=8, batches=2, mesh=mesh, zero=3, prefetch=prefetch)
        times.append(_run(made, assemble(made)).makespan)
    assert times[0] > times[1] >= times[2]


def test_a_recipe_that_is_changed_forgets_what_it_knew() -> None:
    made = recipe("1f1b", mesh=mesh_of("megatron", dp=2, pp=2), zero=3)
    assemble(made)
    larger = tuple(replace(kind, weights=tuple(each._replace(elements=2 * each.elements) for each in kind.weights))
                   for kind in made.kinds)
    once, twice = (bytes_by(assemble(each), 0, "weights.all_gather")[GATHER, 2]
                   for each in (made, replace(made, kinds=larger)))
    assert twice == 2 * once > 0


def test_a_run_that_keeps_no_node_times_makes_no_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astrarium.workload.assemble.assembly.tensors_of", lambda *_: pytest.fail("nobody asked"))
    design = ar.Design(workload=ar.Transformer("gpt2-small", dp=2, global_batch=2),
                       network=ar.Network([ar.Ring(2, bandwidth="1 GB/s", latency="1 us")]),
                       compute=ar.Roofline(peak="1 TFLOP/s"), memory=ar.Memory(bandwidth="1 TB/s"))
    assert ar.simulate(design, record=False).makespan > 0
