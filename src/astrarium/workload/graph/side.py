"""One pass of a block, forward or backward, while its operators become steps: where every tensor lies, and what
brings it to where the next operator wants it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct, field

from astrarium.vocab import NodeKind
from astrarium.workload.graph.amount import largest
from astrarium.workload.graph.draft import ENTRY, Draft, Drafts
from astrarium.workload.graph.infer import Placed, changes
from astrarium.workload.graph.ir import Block, Measures, Op, Use
from astrarium.workload.graph.kernels import kernel_of, role_of
from astrarium.workload.graph.ops import KINDS, looked_up
from astrarium.workload.graph.ring import emit_ring
from astrarium.workload.pieces import Fusion, Numbers

__all__ = ["WIDTHS", "Axes", "Known", "Side"]

WIDTHS: Mapping[str, float] = MappingProxyType({
    "weights": 2, "activations": 2, "gradients": 4, "state": 2, "stats": 4, "mask": 1, "index": 8})


Axes = tuple[tuple[str, ...], ...]      # of every dim of a tensor, those that shard it


class Known(Struct):
    """A tensor that steps can use: where it lies, what gives it, and the copies that collectives made."""

    placed: Placed
    step: int
    copies: dict[Axes, int] = field(default_factory=dict)


class Side:
    """Writes one piece: operators in, steps out."""

    def __init__(self, block: Block, layout: Measures, widths: Mapping[str, float], fuse: Fusion,
                 numbers: Numbers) -> None:
        self.block, self.layout, self.widths, self.numbers = block, layout, widths, numbers
        self.drafts, self.known = Drafts(fuse), dict[str, Known]()
        self.sums: dict[str, list[tuple[Placed, int]]] = {}

    def width(self, tensor: str) -> float:
        """Bytes per element."""
        block, plain = self.block, tensor.removeprefix("d.")
        if tensor in block.widths:
            return self.widths[block.widths[tensor]]
        if plain in block.weights:
            return self.widths.get(role_of(plain, block), self.widths["weights"]) if plain == tensor else self.widths[
                "gradients"]
        return self.widths["state" if plain in block.states else "activations"]

    def bytes_of(self, use: Use) -> float:
        return self.layout.elements(use.dims) * self.width(use.tensor)

    def appended(self, source: Use, state: Use) -> float:
        """Bytes of the new rows of a state that are on this rank."""
        axes = {axis for dim in source.dims for axis in self.layout.axes_of(dim)}
        more = [axis for dim in state.dims for axis in self.layout.axes_of(dim) if axis not in axes]
        return self.layout.elements(source.dims) / self.layout.degree(more) * self.width(state.tensor)

    def axes(self, dims: tuple[str, ...]) -> Axes:
        """How a tensor lies."""
        return tuple(self.layout.axes_of(dim) for dim in dims)

    def need(self, use: Use) -> int:
        """The step after which the tensor lies as `use` says; collectives are added where it does not yet."""
        stored = use.tensor in self.block.weights or use.tensor in self.block.states
        if stored and use.tensor not in self.known:     # a state to which this block appends is known
            return ENTRY
        found = self.known[use.tensor]
        key = self.axes(use.dims)
        if key not in found.copies:
            found.copies[key] = self.redistribute(use.tensor, found.placed, use.dims, found.step)
        return found.copies[key]

    def redistribute(self, tensor: str, placed: Placed, dims: tuple[str, ...], step: int) -> int:
        for change in changes(placed, dims, self.layout):
            if change.op is None:
                continue
            size = change.elements * self.width(tensor)
            copy = f"{tensor}@{len(self.drafts)}"
            whole = self.layout.elements(dims) * self.width(tensor)
            step = self.drafts.emit(Draft(
                f"{self.block.name}.{tensor}.{change.op.name.lower()}", NodeKind.COMM_COLL, {step},
                reads={tensor: size}, writes={copy: whole}, op=change.op, axes=change.axes, payload=size))
        return step

    def partial(self, op: Op, out: Use) -> tuple[str, ...]:
        """Axes of the dims that the operator sums over, unless the result is sharded on them too."""
        axes_of = self.layout.axes_of
        kept = {axis for dim in out.dims for axis in axes_of(dim)}
        offset = op.kind == "gemm" and out != op.outputs[0]      # a bias: its gradient sums dY alone
        inputs = op.inputs[-1:] if offset else op.inputs
        summed = (axis for use in inputs for dim in use.dims if dim not in out.dims for axis in axes_of(dim))
        return tuple(axis for axis in dict.fromkeys(summed) if axis not in kept)

    def run(self, op: Op, prefix: str = "", *, weight: bool = False) -> int:
        """One operator: its operands brought into place, its step."""
        after = {self.need(use) for use in op.inputs}
        kind, cost = KINDS[op.kind], KINDS[op.kind].cost(op, self.layout)
        name = f"{prefix}{self.block.name}.{op.name}"
        reads = self._widest(op.inputs)
        writes = {use.tensor: self.bytes_of(use) for use in op.outputs}
        if op.kind in ("gather", "scatter"):     # of the table only the rows that are touched
            rows = op.outputs[0] if op.kind == "gather" else op.inputs[1]
            moved = self.bytes_of(rows) * looked_up(op.inputs[0], rows, self.layout)
            if op.kind == "gather":
                reads[op.inputs[1].tensor] = moved
            else:
                writes = dict.fromkeys(writes, moved)
        if op.kind == "append":
            writes = {use.tensor: self.appended(op.inputs[0], use) for use in op.outputs}
        draft = Draft(name, NodeKind.COMP, after, cost.flops, cost.gemm, reads, writes, kind.pointwise,
                      op.kind == "gemm", weight=weight,
                      kernel=kernel_of(op, self.block, self.layout, self.numbers))
        if op.ring and self.layout.ranks(op.ring) > 1:
            return emit_ring(self.drafts, draft, op.ring, self.layout.ranks(op.ring),
                             [self.bytes_of(use) for use in op.inputs[1:3]], op.kind == "attention_backward")
        return self.drafts.emit(draft)

    def _widest(self, uses: Iterable[Use]) -> dict[str, float]:
        """Tensor -> bytes of its widest use."""
        found: dict[str, float] = {}
        for use in uses:
            size = self.bytes_of(use)
            found[use.tensor] = largest(found[use.tensor], size) if use.tensor in found else size
        return found

    def forward(self, ops: Iterable[Op], prefix: str = "") -> None:
        for op in ops:
            step = self.run(op, prefix)
            for out in op.outputs:
                self.known[out.tensor] = Known(Placed(out.dims, self.partial(op, out)), step)

    def summed(self, tensor: str, dims: tuple[str, ...]) -> int:
        """The step after which all contributions to a gradient are added up, lying as `dims`."""
        groups: dict[Placed, set[int]] = {}
        for placed, step in self.sums.pop(tensor):
            groups.setdefault(placed, set()).add(step)
        done = set()
        for placed, steps in groups.items():
            last = max(steps)
            self.drafts.wait(last, steps - {last})       # accumulated in the kernel of the last
            done.add(self.redistribute(tensor, placed, dims, last))
        last = max(done)
        self.drafts.wait(last, done - {last})
        return last

    def contribute(self, use: Use, partial: tuple[str, ...], step: int) -> None:
        self.sums.setdefault(use.tensor, []).append((Placed(use.dims, partial), step))
