"""Offloaded ZeRO on the engine against closed forms of the exposed transfers, to the ps."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astrarium as ar
from astrarium.result import Result
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import NodeKind, Placed
from astrarium.workload.assemble import Recipe, assemble
from astrarium.workload.assemble.recipe import Sizes
from astrarium.workload.mesh import mesh_of
from astrarium.workload.pieces import BlockPieces, Piece, Step, Weight
from astrarium.workload.schedule import load_schedule

US = 10**6      # ps
LATENCY = 2 * US
TIMES = st.lists(st.tuples(*[st.integers(1, 60)] * 3), min_size=1, max_size=6)


def _block(number: int, forward: int, backward: int, elements: int, saved: int = 0) -> BlockPieces:
    """Forward and backward of one operator each, of so many us on an NPU of 1 TFLOP/s."""
    def piece(time: int) -> Piece:
        return Piece((Step("op", NodeKind.COMP, flops=time * 1e6, bytes=1.0),), 0)

    return BlockPieces(f"block{number}", piece(forward), piece(backward), (Weight("w", float(elements), ()),), saved,
                       1.0, 1.0)


def _recipe(blocks: list[BlockPieces], placed: Placed, **more: Any) -> Recipe:
    return Recipe(mesh=mesh_of("megatron"), kinds=tuple(blocks), parts=(tuple(range(len(blocks))),),
                  schedule=load_schedule("1f1b"), batches=1, sizes=Sizes(gradients=2, sent=2), bucket=0.0, clip=False,
                  placed=placed, **more)


def _run(recipe: Recipe, *, pure: bool = False, duplex: bool = True) -> Result:
    """A host tier of 1 GB/s (1 kB is 1 us) and 2 us; its processor steps at 1 GB/s."""
    tier = ar.Tier("host", capacity="1 TB", bandwidth="1 GB/s", latency="2 us", duplex=duplex, step_bandwidth="1 GB/s")
    design = ar.Design(workload=ar.Trace("generated"), compute=ar.Roofline(peak="1 TFLOP/s"),
                       memory=ar.Memory(bandwidth="1000000 TB/s", tiers=[tier]),
                       network=ar.Network([ar.Switch(1, bandwidth="1 GB/s", latency="0 ns")]))
    return ar.simulate(design, traces=assemble(recipe), pure=pure)


def _trace(result: Result) -> TraceClass:
    """The first class."""
    assert isinstance(result.traces, Generated)
    return result.traces.classes[0]


def _names(trace: TraceClass) -> list[str]:
    assert trace.names is not None
    return [trace.names(node) for node in range(len(trace.type))]


def _fetched(compute: list[int], fetch: list[int]) -> int:
    """One pass over blocks whose weights come one block ahead: the first fetch, then of each block its compute or the
    next fetch, whichever is longer."""
    return fetch[0] + sum(max(here, later) for here, later in zip(compute, fetch[1:], strict=False)) + compute[-1]


@settings(max_examples=25)
@given(TIMES, st.booleans())
def test_parameters_fetched_layer_by_layer(times: list[tuple[int, int, int]], pure: bool) -> None:
    """ZeRO-Infinity: exposed = first fetch + sum of max(0, fetch of the next layer - compute of this one), per pass."""
    blocks = [_block(number, forward, backward, 500 * size) for number, (forward, backward, size) in enumerate(times)]
    result = _run(_recipe(blocks, Placed(parameters="host", states="host", gradients="host", step=True)), pure=pure)
    forward, backward = [each[0] * US for each in times], [each[1] * US for each in times][::-1]
    fetch = [LATENCY + each[2] * US for each in times]
    one, two = _fetched(forward, fetch), _fetched(backward, fetch[::-1])
    exposed = sum(fetch[place] for place in (0, -1)) + sum(
        max(0, later - here) for compute, order in ((forward, fetch), (backward, fetch[::-1]))
        for here, later in zip(compute, order[1:], strict=False))
    assert one + two - sum(forward) - sum(backward) == exposed
    starts = {name: node for node, name in enumerate(_names(_trace(result)))}
    assert result.nodes.end[starts[f"batch0.block{len(times) - 1}.forward.op"]] == one
    stores = [LATENCY + each[2] * US for each in times][::-1]
    if all(store <= compute for store, compute in zip(stores, backward[1:], strict=False)):
        # gradients leave while the next layer computes; only the last store is exposed, then the step in the tier
        step = 30 * 500 * sum(each[2] for each in times) // 1000 * US
        assert result.makespan_ps == one + two + stores[-1] + step
        assert result.ranks.exposed_memory[0] == exposed + stores[-1]


def _backward(compute: list[int], stores: list[int]) -> int:
    """When the last gradient is stored, if a block begins once the store of the block two before it has ended."""
    now, ended = 0, [0]
    for place, (time, store) in enumerate(zip(compute, stores, strict=True)):
        now = max(now, ended[place - 1] if place >= 2 else 0) + time
        ended.append(max(ended[-1], now) + store)
    return ended[-1]


@settings(max_examples=25)
@given(TIMES, st.booleans())
def test_gradients_stored_during_backward(times: list[tuple[int, int, int]], pure: bool) -> None:
    """ZeRO-Offload: gradients leave during backward, the host steps, and new weights come back."""
    blocks = [_block(number, *each[:2], 500 * each[2]) for number, each in enumerate(times)]
    result = _run(_recipe(blocks, Placed(states="host", gradients="host", step=True)), pure=pure)
    backward, stores = [each[1] * US for each in times][::-1], [LATENCY + each[2] * US for each in times][::-1]
    own = 500 * sum(each[2] for each in times)
    step, load = own * 30 // 1000 * US, LATENCY + own * 2 // 1000 * US
    assert result.makespan_ps == sum(each[0] * US for each in times) + _backward(backward, stores) + step + load
    if all(store <= compute for store, compute in zip(stores, backward[1:], strict=False)):
        assert _backward(backward, stores) == sum(backward) + stores[-1]


def test_states_stepped_on_the_npu() -> None:
    """Without a processor beside the tier: load, step, store, all exposed."""
    blocks = [_block(0, 10, 20, 1000)]
    result = _run(_recipe(blocks, Placed(states="host")))
    step = 15 * 1000 // 1000 * 1000     # 15 FLOPs of 1,000 elements at 1 TFLOP/s: 15 ns
    assert result.makespan_ps == 30 * US + 2 * (LATENCY + 12 * US) + step


@settings(max_examples=15)
@given(st.integers(1, 8), st.integers(1, 40), st.integers(1, 3))
def test_states_streamed_through_the_npu(blocks: int, size: int, prefetch: int) -> None:
    """A piece per layer; load, step and store overlap in `prefetch` + 2 buffers."""
    recipe = _recipe([_block(number, 1, 1, 1000 * size) for number in range(blocks)],
                     Placed(states="host", prefetch=prefetch))
    result = _run(recipe)
    move, step = LATENCY + 12 * size * US, 15 * size * 1000     # 15 FLOPs per element at 1 TFLOP/s
    assert result.makespan_ps == 2 * blocks * US + 2 * move + step + (blocks - 1) * move
    held = min(blocks, prefetch + 2) * 12_000 * size
    assert held * 0.6 <= float(result.peak_memory or 0) - blocks * 1000 * size * 4 <= held + 2


@settings(max_examples=20)
@given(TIMES, st.sampled_from([1, 2]))
def test_activations_leave_and_come_back(times: list[tuple[int, int, int]], prefetch: int) -> None:
    """Stored behind each block of forward, loaded `prefetch` blocks ahead of backward, which waits for the last store;
    no more than `prefetch` stores are late."""
    blocks = [_block(number, *each[:2], 0, 1000 * each[2]) for number, each in enumerate(times)]
    result = _run(_recipe(blocks, Placed(activations="host", prefetch=prefetch)))
    moves = [LATENCY + each[2] * US for each in times]
    now, ended = 0, list[int]()
    for place, (forward, _, _) in enumerate(times):
        now = max(now, ended[place - 1 - prefetch] if place > prefetch else 0) + forward * US
        ended.append(max(now, ended[-1] if ended else 0) + moves[place])
    issued, loaded = list[int](), list[int]()
    begin = now
    for place, (_, backward, _) in enumerate(times[::-1]):
        issued += [now] * (min(prefetch + (place == 0), len(times)) if place == 0 else 1)
        while len(loaded) < min(place + 1 + prefetch, len(times)):
            asked = begin if len(loaded) < prefetch else now
            loaded.append(max(asked, loaded[-1] if loaded else ended[-1]) + moves[::-1][len(loaded)])
        now = max(now, loaded[place]) + backward * US
    assert result.makespan_ps == now
    held = result.memory.over_time(0, "host")[1]
    assert held.max() == sum(each[2] for each in times) * 1000
    assert held[-1] == 0


def test_one_order_where_a_tier_is_not_duplex() -> None:
    """Loads and stores take turns: no two transfers of the tier at once."""
    blocks = [_block(number, 10, 20, 5000, 4000) for number in range(5)]
    placed = Placed(parameters="host", gradients="host", activations="host", states="host", step=True)
    for duplex in (False, True):
        result = _run(_recipe(blocks, placed), duplex=duplex)
        trace = _trace(result)
        together = 0
        for kinds in ((NodeKind.MEM_LOAD, NodeKind.MEM_STORE),) if not duplex else (
                (NodeKind.MEM_LOAD,), (NodeKind.MEM_STORE,)):
            nodes = np.flatnonzero(np.isin(trace.type, kinds))
            order = nodes[np.argsort(result.nodes.start[nodes], kind="stable")]
            assert all(result.nodes.end[a] <= result.nodes.start[b] for a, b in pairwise(order))
            together += len(nodes)
        assert together == np.count_nonzero(np.isin(trace.type, (NodeKind.MEM_LOAD, NodeKind.MEM_STORE)))


def test_zero_3_fetches_its_shards_and_gathers_them() -> None:
    """A rank of four loads a quarter of a layer; the gather of it waits for the load."""
    work = ar.Transformer("gpt2-small", dp=4, global_batch=4, zero=3)
    memory = {"bandwidth": "900 GB/s", "tiers": [ar.Tier("host", capacity="1 TB", bandwidth="16 GB/s")]}
    network = ar.Network([ar.Ring(4, bandwidth="100 GB/s", latency="1 us")])
    found = []
    for placement in (ar.Placement(), ar.Placement(parameters="host")):
        design = ar.Design(workload=work, compute=ar.Roofline(peak="100 TFLOP/s"), network=network,
                           memory=ar.Memory(**memory, placement=placement))
        found.append(ar.simulate(design))
    trace = _trace(found[1])
    names = _names(trace)
    loads = [node for node, name in enumerate(names) if name.endswith("weights.load")]
    gathers = [node for node, name in enumerate(names) if name.endswith("weights.all_gather")]
    assert len(loads) == 14 + 13     # the embedding's gradient does not need its weight
    assert sum(trace.tensor_size[loads].tolist()) == sum(trace.comm_size[gathers].tolist())
    assert found[1].makespan_ps > found[0].makespan_ps
    (tier,) = found[1].memory.tiers
    assert tier.peak[0] == pytest.approx(float(found[0].peak_memory or 0) - float(found[1].peak_memory or 0), rel=0.2)
    with pytest.raises(ar.InputError, match=r"memory.placement.parameters.*cannot be under workload.zero: 2"):
        ar.Design(workload=ar.replace(work, "zero", 2), compute=ar.Roofline(peak="100 TFLOP/s"), network=network,
                  memory=ar.Memory(**memory, placement=ar.Placement(parameters="host")))
