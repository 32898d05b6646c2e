"""Passes of a model over micro-batches, stage after stage, as columns per pipeline stage.

A stage runs its passes in the order given: round by round, in each round every micro-batch. A pass waits for the pass
before on its stage, for the activations of the stage before, and on the first stage, where it continues what the last
one sampled, for the tokens of the same micro-batch's pass in the round before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import I32
from astrarium.trace.work import Generated, Phase, Tensors, TraceClass
from astrarium.vocab import NodeKind
from astrarium.workload import schedule
from astrarium.workload.assemble.builder import BEFORE, Builder, Template
from astrarium.workload.assemble.pool import Arguments, Pool, strip_of
from astrarium.workload.assemble.slots import Groups, groups_of, slots_of
from astrarium.workload.assemble.stages import Places
from astrarium.workload.assemble.tile import Tiled, tile
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.replica import Replica

__all__ = ["Pass", "Program", "Stage", "assemble", "assembled", "class_of", "places_of"]

PREFILL = ("prefill", "draft_prefill")
TOKEN = 8       # bytes of a token's number
FORWARD, BACK = 0, 1        # ways of messages: activations to the next stage, tokens to the first


class Pass(Struct, frozen=True):
    """One pass of a micro-batch of one data-parallel replica through `model` (0: the model, 1: the draft).

    `waits`: it continues with what the last stage sampled in the round before, if there was one.
    """

    name: str
    packed: Packed
    waits: bool = False
    model: int = 0


class Program(Struct, frozen=True):
    """`rounds` of passes, prefill before decode; every micro-batch runs each. `models` are on the same mesh: the model,
    then the draft. `generated` tokens that decode gives each sequence."""

    models: tuple[Replica, ...]
    rounds: tuple[Pass, ...]
    micro_batches: int = 1
    generated: float = 1.0

    @property
    def replica(self) -> Replica:
        """The model."""
        return self.models[0]

    @property
    def prefills(self) -> int:
        """Rounds of prefill."""
        return sum(each.name in PREFILL for each in self.rounds)

    def sends_tokens(self, number: int) -> bool:
        """Whether the last stage of a round tells the first one what it sampled."""
        return self.replica.stages > 1 and number + 1 < len(self.rounds) and self.rounds[number + 1].waits


class Stage(Struct, frozen=True, eq=False):
    """One pipeline stage: nodes, what they are called, tensors."""

    tiled: Tiled
    tensors: Tensors
    label: Callable[[tuple[str, ...]], Callable[[int], str]]


def assemble(program: Program) -> Generated:
    """What every rank runs: a class per pipeline stage. Raises InputError where a size does not divide."""
    return assembled(program)[0]


def assembled(program: Program) -> tuple[Generated, list[Tiled]]:
    """What every rank runs (see `assemble`), and where the units of each class begin and end."""
    mesh = program.replica.mesh
    pool, where = Pool(mesh), places_of(program.replica.stages)
    stages = [_stage(program, pool, stage) for stage in range(program.replica.stages)]
    groups = groups_of(mesh, pool.arguments, where)
    classes = tuple(class_of(pool, groups, where, number, stage.tiled, stage.label)
                    for number, stage in enumerate(stages))
    made = Generated(classes, groups.members, tuple(str(number + 1) for number in range(len(groups.members))),
                     tuple(stage.tensors for stage in stages), tuple(_phases(program, stage) for stage in stages))
    return made, [stage.tiled for stage in stages]


def _phases(program: Program, stage: Stage) -> tuple[Phase, ...]:
    unit, nodes = program.prefills * program.micro_batches, len(stage.tiled.rows)
    first = int(stage.tiled.offset[unit]) if unit < len(stage.tiled.offset) else nodes
    return tuple(phase for phase in (Phase("prefill", first, 1.0), Phase("decode", nodes - first, program.generated))
                 if phase.nodes)


def places_of(stages: int) -> Places:
    """Where messages go. Chunk 0: activations from stage to stage; chunk 1: tokens from the last to the first."""
    table = np.stack([np.arange(stages), np.arange(stages)], axis=1).astype(np.int32)
    before = {(stage, 0): (stage - 1, 0) for stage in range(1, stages)}
    after = {(stage, 0): (stage + 1, 0) for stage in range(stages - 1)}
    return Places(table, {**before, (stages - 1, 1): (0, 1)}, {**after, (0, 1): (stages - 1, 1)})


def _stage(program: Program, pool: Pool, stage: int) -> Stage:
    templates: list[Template] = []
    number_of: dict[tuple[Pass, bool, bool], int] = {}
    which = []
    for number, each in enumerate(program.rounds):
        key = (each, number > 0 and program.sends_tokens(number - 1), program.sends_tokens(number))
        if key not in number_of:
            number_of[key] = len(templates)
            templates.append(_template(program, pool, stage, *key))
        which += [number_of[key]] * program.micro_batches
    order = np.array(which, np.int32)
    tiled = tile(templates, order, np.zeros(len(order), np.bool_))
    return Stage(tiled, _tensors_of(program, stage, order, tiled),
                 lambda steps: _namer(program, stage, tiled, templates, order, steps))


def _template(program: Program, pool: Pool, stage: int, each: Pass, told: bool, tells: bool) -> Template:
    """One pass of one micro-batch on one stage; `told` what the round before sampled, and `tells` the next one."""
    replica, build = program.models[each.model], Builder()
    pieces = replica.pieces(each.packed)
    blocks, last = replica.blocks_of(stage, pieces), replica.stages - 1
    entry: tuple[int, ...] = (BEFORE,)
    if stage > 0:
        source = replica.blocks_of(stage - 1, pieces)[-1]
        entry = (build.node(_message(pool, "activations", NodeKind.COMM_RECV, FORWARD, pieces.blocks[source].output),
                            entry),)
    elif told:
        entry = (build.node(_message(pool, "tokens", NodeKind.COMM_RECV, BACK, TOKEN * each.packed.sampled), entry),)
    begun, place = entry, 0
    while place < len(blocks):
        count = 1
        while place + count < len(blocks) and blocks[place + count] == blocks[place]:
            count += 1
        strip = strip_of(pool, pieces.blocks[blocks[place]].forward, schedule.FORWARD)
        base = build.strips(strip, entry, block=place, count=count)
        entry = (base + (count - 1) * len(strip) + strip.exit,) if strip.exit >= 0 else entry
        place += count
    if replica.launch > 0:
        launched = build.node(pool.host("host.launches", replica.launch * replica.launches(stage, pieces)), begun)
        entry = (build.node(pool.host("host.waits", 0.0), (*entry, launched)),)
    if stage < last:
        build.node(_message(pool, "activations", NodeKind.COMM_SEND, FORWARD, pieces.blocks[blocks[-1]].output), entry)
    elif tells:
        build.node(_message(pool, "tokens", NodeKind.COMM_SEND, BACK, TOKEN * each.packed.sampled), entry)
    return build.template(entry[0])


def _message(pool: Pool, what: str, kind: NodeKind, way: int, size: float) -> int:
    name = f"{what}.{'send' if kind == NodeKind.COMM_SEND else 'receive'}"
    return pool.comm(name, Arguments(kind, None, round(size), 2, way=way, chunk=way))


def class_of(pool: Pool, groups: Groups, where: Places, number: int, tiled: Tiled,
             label: Callable[[tuple[str, ...]], Callable[[int], str]] | None = None) -> TraceClass:
    """The columns of a stage; comm nodes of equal arguments share a slot. `label` names nodes, given names by row."""
    columns: Mapping[str, npt.NDArray[Any]] = pool.columns()
    rows, mesh = tiled.rows, pool.mesh
    ranks, size = mesh.on("pp", number), len(rows)
    told, micros = columns["arguments"][rows], columns["duration_us"][rows]
    used, slot = np.unique(told[told >= 0], return_inverse=True)
    every = list(pool.arguments)
    slot_a, slot_b = slots_of(mesh, groups, where, number, ranks, [every[each] for each in used.tolist()])
    return TraceClass(
        ranks=ranks, node_id=np.arange(1, size + 1, dtype=np.uint64), type=columns["type"][rows],
        is_cpu=micros > 0, duration_us=micros, num_ops=columns["num_ops"][rows],
        tensor_size=columns["tensor_size"][rows], comm_type=columns["comm_type"][rows],
        comm_size=columns["comm_size"][rows], involved=np.full(size, -1, np.int32), priority=columns["priority"][rows],
        parent_ptr=tiled.parent_ptr, parent=tiled.parent, slot_a=slot_a, slot_b=slot_b,
        names=label(pool.names()) if label else None, slot=slot.reshape(-1).astype(np.int32),
        kernel=columns["kernel"][rows], kernels=tuple(pool.kernels))


def _namer(program: Program, stage: int, tiled: Tiled, templates: Sequence[Template], order: I32,
           steps: Sequence[str]) -> Callable[[int], str]:
    """node -> `decode3.batch0.block12.layer.q`; rounds and blocks count from 0 over the whole program and model."""
    many = program.micro_batches

    def name(node: int) -> str:
        unit = int(np.searchsorted(tiled.offset, node, side="right")) - 1
        template, inner = templates[int(order[unit])], node - int(tiled.offset[unit])
        each = program.rounds[unit // many]
        replica = program.models[each.model]
        pieces = replica.pieces(each.packed)
        first = sum(replica.layers_of(len(pieces.layers))[:stage]) + (len(pieces.first) if stage else 0)
        block = template.block_of(inner)
        where = "" if block is None else f"block{first + block}."
        return f"{each.name}.round{unit // many}.batch{unit % many}.{where}{steps[int(tiled.rows[node])]}"

    return name


class _Tensors:
    """A growing list: bytes, the node that makes it (-1: there before), the node that is the last to need it."""

    def __init__(self) -> None:
        self.size, self.writer, self.reader = list[int](), list[int](), list[int]()

    def add(self, size: float, writer: int = -1, reader: int = -1) -> None:
        if size >= 0.5:
            self.size.append(round(size))
            self.writer.append(writer)
            self.reader.append(reader)

    def packed(self) -> Tensors:
        reader = np.array(self.reader, np.int32)
        pointer = np.zeros(len(reader) + 1, np.int64)
        np.cumsum(reader >= 0, out=pointer[1:])
        return Tensors(np.array(self.size, np.int64), np.array(self.writer, np.int32), pointer, reader[reader >= 0])


def _tensors_of(program: Program, stage: int, order: I32, tiled: Tiled) -> Tensors:
    """All tensors of a stage. Weights, and the cache of what came before, are there from the start; a pass adds its
    new tokens when it begins, and they stay (those of a draft that were refused are written over)."""
    many, found = program.micro_batches, _Tensors()
    for replica in program.models:
        found.add(replica.weight_bytes(stage))
    held: dict[tuple[int, int], float] = {}
    for unit in range(len(order)):
        each, batch = program.rounds[unit // many], unit % many
        replica, first = program.models[each.model], int(tiled.offset[unit])
        key = (each.model, batch)
        if key not in held:
            step = _found_by(each.packed)
            held[key] = 0.0 if step is None else replica.cache_bytes(stage, step)
            found.add(held[key])
        after = replica.cache_bytes(stage, each.packed)
        if after > held[key]:
            found.add(after - held[key], first)
            held[key] = after
        found.add(replica.working(stage, each.packed), first, int(tiled.exit[unit]))
    return found.packed()


def _found_by(step: Packed) -> Packed | None:
    """A step after which the cache holds what `step` finds there; None: nothing."""
    parts: Sequence[Sequences] = [Sequences(part.count, 1, part.past - 1, 0) for part in step.parts if part.past]
    return Packed(tuple(parts)) if parts else None
