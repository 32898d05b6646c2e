"""What the ranks of one of ASTRA-sim 1.0's text workloads run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct, field

from astrarium.arrays import I32
from astrarium.errors import InputError
from astrarium.profile.text_workload import LOOPS, Aicb, Layer, Pass, TextWorkload
from astrarium.trace.compose import ClassBuilder
from astrarium.trace.work import Generated
from astrarium.vocab import CommOp

__all__ = ["generate_text", "text_notes", "text_unit"]

MOST_NODES, MOST_RANKS = 10_000_000, 1 << 22
PER_LAYER = 8       # nodes of a layer and pass at most
UNITS = {"us": 1, "ns": 1000}


def text_unit(work: TextWorkload) -> str:
    """The unit of a file's times: AICB's are ns (SimAI counts ns), others us."""
    return "us" if work.aicb is None else "ns"


def text_notes(work: TextWorkload) -> tuple[str, ...]:
    """What the traces of a file of AICB leave out."""
    head = work.aicb
    if head is None:
        return ()
    sends = f", no sends of {head.sent:,} bytes between stages" if head.sent else ""
    stages = (f"pp: {head.stages}: every rank runs the one stage that the file has{sends} and no bubble (SimAI adds "
              f"(pp - 1) / (ga * vpp) = {head.stages - 1} / {head.batches * head.parts:,} of the step)",)
    return ("AICB's file: times in ns, and a time of 1 is none", *(stages if head.stages > 1 else ()))


def generate_text(work: TextWorkload, ranks: int, *, passes: int = 1, inner: int | None = None, unit: str | None = None,
                  compute_scale: float = 1.0, comm_scale: float = 1.0) -> Generated:
    """The columns of `passes` iterations on `ranks` ranks.

    Times of the file are in `unit`: `us`, as Chakra's converter reads them, or `ns`, as ASTRA-sim 1.0 did (rounded to
    the nearest whole microsecond, at least 1: a trace counts in those); left out: `text_unit`. `inner` neighbours form
    a model-parallel group (a data-parallel one under HYBRID_MODEL_DATA); left out: what the file says. The scales
    multiply times and bytes. The update time of a layer is left out, as by Chakra's converter. Raises InputError where
    `inner` is missing or does not divide `ranks`.
    """
    unit = text_unit(work) if unit is None else unit
    if unit not in UNITS:
        raise InputError("unit", f"{unit!r} is not known", expected="us or ns")
    if not 0 < ranks <= MOST_RANKS:
        raise InputError("npus", f"{ranks} ranks", expected=f"1 to {MOST_RANKS}")
    if len(work.layers) * passes * PER_LAYER > MOST_NODES:
        raise InputError("passes", f"{passes} passes of {len(work.layers)} layers",
                         expected=f"at most {MOST_NODES} nodes")
    groups, builder = _groups(work, ranks, inner), ClassBuilder(np.arange(ranks, dtype=np.int32))
    run = _Run(work, builder, groups.of, UNITS[unit], compute_scale, comm_scale)
    for number in range(passes):
        run.iteration(f"pass{number}." if passes > 1 else "")
    return Generated((builder.build(),), groups.members, groups.names, (None,))


class _Groups(Struct, frozen=True, eq=False):
    members: tuple[I32, ...]
    names: tuple[str, ...]
    of: dict[str, I32]          # all, inner, outer, experts, replicas: [ranks] group of every rank


def _groups(work: TextWorkload, ranks: int, inner: int | None) -> _Groups:
    """Groups of neighbours, and across them; none where only all ranks take part."""
    every = np.arange(ranks, dtype=np.int32)
    of = {"all": np.full(ranks, -1, np.int32)}
    used = {way for layer in work.layers for way in (
        LOOPS[layer.keyword].forward, LOOPS[layer.keyword].weight,
        *(part.over for part in (layer.forward, layer.inputs, layer.weights)))}
    if not used & {"inner", "outer", "experts", "replicas"}:
        return _Groups((), (), of)
    size = work.inner if inner is None else inner
    if size is None:
        raise InputError("inner", "is missing", expected="how many neighbours form a group: dim 0 of the network")
    if size < 1 or ranks % size:
        raise InputError("inner", f"{size} does not divide {ranks} ranks")
    head = work.aicb or Aicb()
    if ranks % (size * head.stages * head.experts):
        raise InputError("npus", f"{ranks} ranks", expected=f"a multiple of {size} (model_parallel_NPU_group) times "
                         f"{head.experts} (ep) times {head.stages} (pp)")
    # stages, replicas of an expert, ranks that share experts, neighbours: as SimAI and Megatron number them
    grid = every.reshape(head.stages, -1, head.experts, size)
    outer = grid.reshape(head.stages, -1, size).swapaxes(1, 2)
    kinds = {"inner": grid.reshape(-1, size), "outer": outer.reshape(-1, outer.shape[2])}
    if used & {"experts", "replicas"}:
        kinds |= {"experts": grid.swapaxes(2, 3).reshape(-1, head.experts),
                  "replicas": grid.transpose(0, 2, 3, 1).reshape(-1, grid.shape[1])}
    members = list[I32]()
    for kind, rows in kinds.items():
        of[kind] = np.empty(ranks, np.int32)
        of[kind][rows] = np.arange(len(members), len(members) + len(rows), dtype=np.int32)[:, None]
        members += list(np.ascontiguousarray(rows))
    return _Groups(tuple(members), tuple(str(number) for number in range(1, len(members) + 1)), of)


class _Run(Struct):
    """The nodes so far: `chain` is what the next compute node waits for, `pending` the collectives of weight gradients
    that a layer's next forward pass waits for."""

    work: TextWorkload
    builder: ClassBuilder
    groups: dict[str, I32]
    divide: int
    compute_scale: float
    comm_scale: float
    chain: list[int] = field(default_factory=list)
    pending: dict[int, int] = field(default_factory=dict)
    before: str = ""

    def iteration(self, before: str) -> None:
        """One pass of the loop."""
        self.before = before
        if self.work.keyword == "MICRO":
            for layer in self.work.layers:
                self.collective(layer, "weights", layer.weights, "all", [])
        elif self.work.keyword.startswith("HYBRID_DLRM"):
            self.embeddings()
        else:
            self.training()

    def training(self) -> None:
        """Forward, then backward from the last layer, with forward again from checkpoints where the file says so."""
        layers, loop = self.work.layers, LOOPS[self.work.keyword]
        for number in range(len(layers)):
            self.forward(number)
        for number in reversed(range(len(layers))):
            layer, own = layers[number], LOOPS[layers[number].keyword]
            if loop.weight_first:
                self.compute(layer, "weights", layer.weights)
                self.weight_collective(number, own.weight)
                if number:
                    self.compute(layer, "inputs", layer.inputs)
                continue
            if number in self.work.restarts:
                for again in self.recomputed(number):
                    self.forward(again, word="again")
            self.compute(layer, "inputs", layer.inputs)
            sent = (self.collective(layer, "inputs", layer.inputs, own.forward, self.chain)
                    if number or loop.first_too else [])
            self.compute(layer, "weights", layer.weights)
            self.weight_collective(number, own.weight)
            self.chain = [*self.chain, *sent]

    def recomputed(self, number: int) -> Iterator[int]:
        """Layers from the nearest checkpoint before `number` up to it."""
        yield from range(max(each for each in self.work.checkpoints if each < number), number)

    def embeddings(self) -> None:
        """Recommendation models: the embedding's all_to_all runs in parallel with the bottom layers."""
        layers, last = self.work.layers, self.work.last_bottom
        looked_up: list[int] = []
        for number, layer in enumerate(layers):
            self.forward(number, wait=False)
            if number == 0 and layer.forward.op == CommOp.ALL_TO_ALL:
                looked_up = self.collective(layer, "forward", layer.forward, "all", self.chain)
            if number == last:
                self.chain = [*self.chain, *looked_up]
        sent: list[int] = []
        for number in reversed(range(len(layers))):
            self.compute(layers[number], "weights", layers[number].weights)
            self.weight_collective(number, "all")
            if number:
                self.compute(layers[number], "inputs", layers[number].inputs)
            elif self.work.keyword == "HYBRID_DLRM":
                self.chain = [*self.chain, *sent]
            if number == last + 1:
                sent = self.collective(layers[0], "inputs", layers[0].inputs, "all", self.chain)

    def forward(self, number: int, *, wait: bool = True, word: str = "forward") -> None:
        """One layer; with `wait` its collective is waited for."""
        layer = self.work.layers[number]
        self.chain = [*self.chain, *([self.pending.pop(number)] if number in self.pending else [])]
        self.compute(layer, word, layer.forward)
        if wait:
            over = LOOPS[layer.keyword].forward
            self.chain = self.collective(layer, word, layer.forward, over, self.chain) or self.chain

    def compute(self, layer: Layer, word: str, part: Pass) -> None:
        """A compute node that the next one waits for; none where it takes no time."""
        time = int(part.time * self.compute_scale)
        if time and (part.time > 1 or self.work.aicb is None):      # AICB writes 1 for no time
            micros = max(1, (time + self.divide // 2) // self.divide)
            self.chain = [self.builder.comp(f"{self.before}{layer.name}.{word}", micros, after=self.chain)]

    def weight_collective(self, number: int, over: str) -> None:
        """The collective of a weight gradient. Only the layer's next forward pass waits for it."""
        layer = self.work.layers[number]
        for node in self.collective(layer, "weights", layer.weights, over, self.chain):
            self.pending[number] = node

    def collective(self, layer: Layer, word: str, part: Pass, over: str, after: Sequence[int]) -> list[int]:
        """The node; none if the layer has no collective there, or the group has one rank."""
        over = over and (part.over or over)
        if part.op is None or not over:
            return []
        name, size = f"{self.before}{layer.name}.{word}.{part.op.name.lower()}", int(part.size * self.comm_scale)
        return [self.builder.coll(name, part.op, size, group=self.groups[over], after=after)]
