"""Training loops of ASTRA-sim's ASPLOS'23 tutorial (exercise 2) to the ns: VGG16, three layers of GPT-3; 256 NPUs.

They ran on ASTRA-sim 1, where any number of collectives are under way at once and the queues of the dims put the chunks
of the newest first: `system.comm_streams` under `compat: astra_sim`. Its loop counts whole ns, which traces do not, and
takes 1 ns for each step and 1 ns (the file's update time) after each collective; so times are put into the Plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import astrarium as ar
from astrarium.config import Config
from astrarium.engine import execute
from astrarium.engine.plan import Kind, Lane, Plan, Program
from astrarium.lower import lower
from astrarium.profile.text_generate import generate_text
from astrarium.profile.text_workload import TextWorkload, parse_text
from astrarium.trace.compose import ClassBuilder
from astrarium.trace.work import Generated

MANY = 64
SCALE = float(np.float32(0.41))     # --compute-scale of the DGX-2 runs
TIME, US, LATENCY = 1000, 1_000_000, "500 ns"       # ps in a ns, in a us
DGX2: list[Config] = [ar.Switch(16, bandwidth="150 GiB/s", latency=LATENCY),
                      ar.Switch(16, bandwidth="6.25 GiB/s", latency=LATENCY)]
TPU: list[Config] = [ar.Ring(16, bandwidth="124 GiB/s", latency=LATENCY)] * 2
Loop = Callable[[TextWorkload, float], Generated]

PASSES = [(3429, 3584), (73143, 73856), (36571, 147712), (73143, 295168), (36571, 590336), *[(73143, 1180160)] * 2,
          (36571, 2360320), *[(73143, 4719616)] * 2, *[(18286, 4719616)] * 3, (4063, 205529088), (663, 33562624),
          (162, 8194000)]                       # ns; bytes of the layer's all_reduce
VGG16 = "DATA\n16\n" + "\n".join(f"l{i} -1 {time} NONE 0 {time} NONE 0 {time} ALLREDUCE {size} 1"
                                 for i, (time, size) in enumerate(PASSES))

WIDE, NONE, SENT, GATHERED = 36290323, "NONE 0", "ALLREDUCE 805306368", "ALLGATHER 50331648"
BLOCK = [*[(9072581, NONE, before, "ALLREDUCE 18874368") for before in (SENT, NONE, NONE)],
         *[(756048, NONE, NONE, NONE)] * 2, (9072581, SENT, GATHERED, "ALLREDUCE 18874368"),
         (WIDE, NONE, SENT, "ALLREDUCE 75497472"), (WIDE, SENT, NONE, "ALLREDUCE 75497472"), (11813, NONE, NONE, NONE)]
GPT3 = ("HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 16 checkpoints: 3 0 9 18 checkpoint_initiates: "
        "3 26 17 8\n28\n") + "\n".join(
    f"l{i} -1 {time} {forward} {time} {inputs} {time} {weights} 1" for i, (time, forward, inputs, weights) in enumerate(
        [*BLOCK * 3, (26579826, "ALLGATHER 147456000", SENT, "ALLREDUCE 55296000")]))


def design(dims: list[Any], algorithm: str, streams: int = MANY, **given: Any) -> ar.Design:
    chosen: dict[str, Any] = {op: [algorithm] * len(dims) for op in ("all_reduce", "all_gather", "reduce_scatter")}
    return ar.Design(**{
        "workload": ar.Trace("text"), "network": ar.Network(dims), "compat": "astra_sim",
        "memory": ar.Memory(bandwidth="500000 GB/s"), "system": ar.System(comm_streams=streams),
        "collective": ar.Collective(**chosen, choice="none", chunks=4, endpoint_delay="10 ns",
                                    composition="blueconnect"), **given})


def data_parallel(work: TextWorkload, scale: float) -> Generated:
    return generate_text(work, 256, compute_scale=scale)


def forward_in_backward(work: TextWorkload, scale: float) -> Generated:
    """The tutorial's loop for GPT-3: as in ASTRA-sim 1.0, but the collectives of input gradients are waited for.
    Model-parallel collectives run over dim 0, those of weight gradients over dim 1."""
    builder, over = ClassBuilder(np.arange(256, dtype=np.int32)), {}
    chain: list[int] = []

    def part(number: int, kind: str) -> None:
        nonlocal chain
        what = getattr(work.layers[number], kind)
        chain = [builder.comp(kind, int(np.float32(what.time) * np.float32(scale)), after=chain)]
        if what.op is not None:
            node = builder.coll(kind, what.op, what.size, after=chain)
            over[node] = 2 if kind == "weights" else 1
            if kind != "weights":
                chain = [node]

    for number in range(len(work.layers)):
        part(number, "forward")
    for number in reversed(range(len(work.layers))):
        if number in work.restarts:
            chain = [builder.comp("restart", after=chain)]      # a step of the loop by itself
            for again in range(max(each for each in work.checkpoints if each < number), number):
                part(again, "forward")
        part(number, "inputs")
        part(number, "weights")
    trace = builder.build()
    involved = np.array([over.get(node, -1) for node in range(trace.type.size)], np.int32)
    return Generated((replace(trace, involved=involved),), (), (), (None,))


def in_ns(plan: Plan) -> Plan:
    """What the trace calls us as ns, and the ns between steps: one by itself, one more after a collective."""
    def timed(program: Program) -> Program:
        computes = program.lane == Lane.COMPUTE
        after = np.zeros(computes.size, np.int64)
        for node in np.flatnonzero(program.kind == Kind.COLLECTIVE):
            after[program.child[program.child_ptr[node]:program.child_ptr[node + 1]]] = 1
        return replace(program, duration=np.where(computes, program.duration // US + 1 + after, 0) * TIME,
                       busy=program.busy // US * TIME)
    return replace(plan, programs=tuple(timed(program) for program in plan.programs))


@pytest.mark.parametrize(("text", "loop", "dims", "algorithm", "scale", "total", "compute"), [
    (VGG16, data_parallel, DGX2, "halving_doubling", SCALE, 5_632_316, 751_019),
    (VGG16, data_parallel, TPU, "ring", 1.0, 5_489_225, 1_831_809),
    (GPT3, forward_in_backward, DGX2, "halving_doubling", SCALE, 787_767_340, 575_821_446),
    (GPT3, forward_in_backward, TPU, "ring", 1.0, 1_655_238_425, 1_404_442_611)])
def test_totals(text: str, loop: Loop, dims: list[Config], algorithm: str, scale: float, total: int,
                compute: int) -> None:
    """ns on the slides, but for GPT-3 on TPUs: there the slide has 1,655,238.43 us, 1,404,442.610 of them compute, and
    the tutorial's own build prints what stands here."""
    plan = in_ns(lower(design(dims, algorithm), loop(parse_text(text), scale)))
    found = execute(plan)
    assert found.unfolded_because
    assert (set(found.finish.tolist()), int(plan.programs[0].busy.sum())) == ({total * TIME}, compute * TIME)


@pytest.mark.parametrize(("dims", "algorithm", "scale", "total", "streams", "ratio"), [
    (DGX2, "halving_doubling", SCALE, 5_632_316, 1, 1.1610), (DGX2, "halving_doubling", SCALE, 5_632_316, MANY, 1.0),
    (TPU, "ring", 1.0, 5_489_225, 1, 1.0138)])
def test_through_the_product(dims: list[Config], algorithm: str, scale: float, total: int, streams: int,
                             ratio: float) -> None:
    """VGG16 with computes in whole us: how far one collective at a time is from the slide's total, and how far many."""
    generated = generate_text(parse_text(VGG16), 256, compute_scale=scale, unit="ns")
    found = ar.simulate(design(dims, algorithm, streams), traces=generated).makespan_ps
    assert found / (total * TIME) == pytest.approx(ratio, abs=0.0005)
