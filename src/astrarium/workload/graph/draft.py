"""Steps of one piece while they are being written down: order, dependencies, bytes, what is alive when."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct, field

from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.graph.amount import largest, total
from astrarium.workload.graph.kernels import merged
from astrarium.workload.pieces import Fusion, Piece, Sketch, Step

__all__ = ["BESIDE", "ENTRY", "EXPERTS", "Draft", "Drafts"]

EXPERTS = "experts"     # what a whole layer of experts is fused under
BESIDE = "beside"       # what runs on a second stream in the time of the layer of experts before it
ENTRY = -1      # "what the piece waits for", where a step number is expected


class Draft(Struct):
    """A step to be. `reads` and `writes`: tensor -> bytes."""

    name: str
    kind: NodeKind
    after: set[int]
    flops: float = 0.0
    gemm: float = 0.0
    reads: dict[str, float] = field(default_factory=dict)
    writes: dict[str, float] = field(default_factory=dict)
    pointwise: bool = False
    product: bool = False
    op: CommOp | None = None
    axes: tuple[str, ...] = ()
    shift: int = 0
    payload: float = 0.0
    weight: bool = False
    kernel: Sketch | None = None
    fused: str = ""


class Drafts:
    """A growing list of drafts. As `fuse` says, pointwise neighbours share a kernel, as do products of one operand, and
    what an engine has in one; an engine also sends what two collectives of one group have to send in one."""

    def __init__(self, fuse: Fusion) -> None:
        self._fuse, self._steps = fuse, list[Draft]()

    def __len__(self) -> int:
        return len(self._steps)

    def emit(self, draft: Draft) -> int:
        """Adds a step, or merges it into the last one; returns the step's number."""
        draft.after.discard(ENTRY)
        last = self._steps[-1] if self._steps else None
        here = len(self._steps) - 1
        beside = self._fuse.engine and draft.fused == BESIDE
        if last is not None and not beside and draft.weight == last.weight and _one_kernel(last, draft, here,
                                                                                          self._fuse):
            _merge(last, draft, here, layer=self._fuse.engine and draft.fused == EXPERTS)
            return here
        if beside:
            there = max(n for n, each in enumerate(self._steps) if each.fused == EXPERTS)
            draft.kernel = None     # the layer's time is that of its own kernel
            _merge(self._steps[there], draft, there)
            return there
        if self._fuse.engine and draft.kind == NodeKind.COMM_COLL:
            there = max((n for n, each in enumerate(self._steps) if each.kind == draft.kind), default=ENTRY)
            if there != ENTRY and _one_collective(self._steps[there], draft, there):
                _merge(self._steps[there], draft, there)
                return there
        self._steps.append(draft)
        return here + 1

    def wait(self, step: int, others: Iterable[int]) -> None:
        """Lets `step` wait for earlier steps as well."""
        if step != ENTRY:
            self._steps[step].after |= {other for other in others if 0 <= other < step}

    def read_besides(self, step: int, tensors: Mapping[str, float]) -> bool:
        """Lets the kernel of `step` read more if it is pointwise; whether it is."""
        if step == ENTRY or not self._steps[step].pointwise:
            return False
        self._steps[step].reads.update(tensors)
        return True

    def both(self, one: int, other: int) -> int:
        """A step after which both have been done: the later of the two, which then waits for the other."""
        last = max(one, other)
        self.wait(last, {min(one, other)} - {last})
        return last

    def products(self) -> Mapping[str, int]:
        """Tensor -> the product that writes it."""
        return {name: number for number, draft in enumerate(self._steps) if draft.product for name in draft.writes}

    def piece(self, exit_step: int, kept: Collection[str]) -> Piece:
        """The finished piece. A tensor that one step writes, no other step reads and that is not `kept` never reaches
        memory. An engine runs all on one stream: every step waits for the one before."""
        for number in range(1, len(self._steps) if self._fuse.engine else 0):
            self.wait(number, {number - 1})
        if self._fuse.reduced:
            self._join_norms()
        needed = {name for draft in self._steps for name in draft.reads} | set(kept)
        return Piece(tuple(_step(draft, needed) for draft in self._steps), exit_step)

    def _join_norms(self) -> None:
        """Make norms of the residual stream the end of the all_reduce in front of them. Those of queries, keys and
        latents are parts of kernels of their own (`fused`)."""
        before = CommOp.ALL_REDUCE if self._fuse.carried else None
        for draft in self._steps:
            if before == CommOp.ALL_REDUCE and draft.kernel is not None and _normalises(draft) and not draft.fused:
                draft.kernel = draft.kernel._replace(launches=0)
            before = draft.op

    def working(self, kept: Collection[str], sizes: Mapping[str, float] = MappingProxyType({}),
                last: bool = False, there: Mapping[str, float] = MappingProxyType({})) -> float:
        """Most bytes alive at once of what the steps write and is not `kept`: each from its step to its last reader.
        `sizes`: of tensors that are there in another format than they are written in the end; `last`: these stay to
        the end; `there`: sizes of tensors that are there from the start."""
        born = {name: (0, size) for name, size in there.items()}
        ends: dict[str, int] = {}
        for number, draft in enumerate(self._steps):
            for name, size in draft.writes.items():
                born.setdefault(name, (number, sizes.get(name, size)))
            for name in draft.reads:
                ends[name] = number
        change = [0.0] * (len(self._steps) + 1)
        for name, (start, size) in born.items():
            if name in kept:
                continue
            change[start] += size
            if not (last and name in sizes):
                change[max(ends.get(name, start), start) + 1] -= size
        peak = level = 0.0
        for each in change:
            level += each
            peak = largest(peak, level)
        return peak


def _one_collective(last: Draft, draft: Draft, there: int) -> bool:
    return (last.op, last.axes) == (draft.op, draft.axes) and all(step < there for step in draft.after)


def _one_kernel(last: Draft, draft: Draft, here: int, fuse: Fusion) -> bool:
    if not fuse.neighbours:
        return False
    if fuse.engine and (draft.fused or last.fused):
        return draft.fused == last.fused
    if draft.pointwise and last.pointwise:
        return here in draft.after and (fuse.norms or not (_normalises(draft) or _normalises(last)))
    if not (draft.product and last.product and fuse.operators == "fused"):
        return False
    if fuse.qkv and here not in draft.after and (draft.writes.keys() & last.writes
                                                 or (draft.weight and draft.reads.keys() & last.reads)):
        return True
    if draft.after != last.after:
        return False
    return bool(draft.reads.keys() & last.reads or draft.writes.keys() & last.writes)


def _normalises(draft: Draft) -> bool:
    return draft.kernel is not None and draft.kernel.kind == "normalisation"


def _merge(last: Draft, draft: Draft, here: int, *, layer: bool = False) -> None:
    """`draft` into `last`, step `here`: one kernel, what passes between them stays on chip. `layer`: see `merged`."""
    last.name += "+" + draft.name.rpartition(".")[2]
    last.flops += draft.flops
    last.gemm += draft.gemm
    last.payload += draft.payload
    last.pointwise = last.pointwise and draft.pointwise
    last.after |= draft.after - {here}
    last.reads.update({name: size for name, size in draft.reads.items() if name not in last.writes})
    last.writes.update(draft.writes)
    if last.kernel is not None and draft.kernel is not None:
        last.kernel = merged(last.kernel, draft.kernel, layer=layer)


def _step(draft: Draft, in_memory: Collection[str]) -> Step:
    if draft.kind == NodeKind.COMP:
        size = total(draft.reads.values()) + total(each for name, each in draft.writes.items()
                                                   if not draft.pointwise or name in in_memory)
    else:
        size = draft.payload
    return Step(draft.name, draft.kind, tuple(sorted(draft.after)), draft.flops, draft.gemm, size, draft.op, draft.axes,
                draft.shift, draft.weight, draft.kernel)
