"""One pass of a block, forward or backward, while its operators become steps: where every tensor lies, and what
brings it to where the next operator wants it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct, field

from astrarium.vocab import NodeKind
from astrarium.workload.graph.amount import largest
from astrarium.workload.graph.draft import ENTRY, Draft, Drafts
from astrarium.workload.graph.eager import launched
from astrarium.workload.graph.infer import Placed, changes
from astrarium.workload.graph.ir import Block, Measures, Op, Use
from astrarium.workload.graph.kernels import kernel_of, role_of
from astrarium.workload.graph.ops import KINDS, looked_up
from astrarium.workload.graph.ring import emit_ring
from astrarium.workload.graph.torch_rotary import WIDE
from astrarium.workload.pieces import Fusion, Numbers, Sketch

__all__ = ["CAST", "WIDTHS", "Axes", "Known", "Side"]

CAST = ".cast"      # ends the names of copies of weights in 16 bits

WIDTHS: Mapping[str, float] = MappingProxyType({
    "weights": 2, "activations": 2, "gradients": 4, "state": 2, "stats": 4, "mask": 1, "index": 8,
    "dispatch": 2})


Axes = tuple[tuple[str, ...], ...]      # of every dim of a tensor, those that shard it


class Known(Struct):
    """A tensor that steps can use: where it lies, what gives it, and the copies that collectives made (by the axes that
    shard each dim, and those over which the copy is a partial sum)."""

    placed: Placed
    step: int
    copies: dict[tuple[Axes, tuple[str, ...]], int] = field(default_factory=dict)


class Side:
    """Writes one piece: operators in, steps out."""

    def __init__(self, block: Block, layout: Measures, widths: Mapping[str, float], fuse: Fusion,
                 numbers: Numbers) -> None:
        self.block, self.layout, self.widths, self.numbers = block, layout, widths, numbers
        self.drafts, self.known, self.fuse = Drafts(fuse), dict[str, Known](), fuse
        self.sums: dict[str, list[tuple[Placed, int]]] = {}
        self.others: dict[str, dict[str, float]] = {}       # of gradients: contributions that their reader adds up
        self.passed_on: set[str] = set()        # gradients that are those of other tensors, too
        self.joined_sizes: dict[str, float] = {}     # bytes of tensors whose rows several operators make
        self._widths: dict[str, float] = {}

    def width(self, tensor: str) -> float:
        """Bytes per element."""
        found = self._widths.get(tensor)
        if found is None:
            found = self._widths[tensor] = self._width(tensor)
        return found

    def _width(self, tensor: str) -> float:
        block, plain = self.block, tensor.removeprefix("d.")
        if tensor in block.widths:
            return self.widths[block.widths[tensor]]
        if tensor.endswith(WIDE):
            return self.widths["stats"]
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

    def need(self, use: Use, partial: tuple[str, ...] = ()) -> int:
        """The step after which the tensor lies as `use` says, a sum over all axes but `partial`; collectives are added
        where it does not yet."""
        stored = use.tensor in self.block.weights or use.tensor in self.block.states
        if stored and use.tensor not in self.known:     # a state to which this block appends is known
            return ENTRY
        found = self.known[use.tensor]
        left = tuple(axis for axis in found.placed.partial if axis in partial)
        key = self.axes(use.dims), left
        if key not in found.copies:
            summed = tuple(axis for axis in found.placed.partial if axis not in left)
            placed = Placed(found.placed.dims, summed)
            found.copies[key] = self.redistribute(use.tensor, placed, use.dims, found.step)
        return found.copies[key]

    def passed(self, op: Op) -> tuple[str, ...]:
        """Axes over which an operator takes partial sums and gives one: of a sum, those of all its terms."""
        if not op.linear:
            return ()
        found = [self._unsummed(use) for use in op.inputs]
        if op.kind == "add":
            return tuple(axis for axis in found[0] if all(axis in each for each in found))
        return tuple(dict.fromkeys(axis for each in found for axis in each))

    def whole(self, op: Op) -> dict[str, tuple[str, ...]]:
        """Operands that are whole -> axes over which others are partial sums, and then the gradients of these, too."""
        passed = self.passed(op)
        return {use.tensor: passed for use in op.inputs if passed and not self._unsummed(use)}

    def _unsummed(self, use: Use) -> tuple[str, ...]:
        """Axes over which a tensor is a partial sum, but those that shard it where it is used."""
        known = self.known.get(use.tensor)
        if known is None or not known.placed.partial:
            return ()
        sharding = {axis for dim in use.dims for axis in self.layout.axes_of(dim)}
        return tuple(axis for axis in known.placed.partial if axis not in sharding)

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
        offset = op.kind == "gemm" and out != op.outputs[0]      # a bias: its gradient sums dY alone
        inputs = op.inputs[-1:] if offset else op.inputs
        summed = dict.fromkeys(axis for use in inputs for dim in use.dims if dim not in out.dims
                               for axis in axes_of(dim))
        if not summed:
            return ()
        kept = {axis for dim in out.dims for axis in axes_of(dim)}
        return tuple(axis for axis in summed if axis not in kept)

    def run(self, op: Op, prefix: str = "", *, weight: bool = False) -> int:
        """One operator: the steps of its kernels; returns the last."""
        if op.kind == "views":
            return self._seen(op)
        if self.fuse.operators == "fused":
            return self._one(op, prefix, weight=weight)
        kernels = launched(op)
        there = {use.tensor for each in (op.inputs, *(kernel.outputs for kernel in kernels)) for use in each}
        for use in (use for kernel in kernels for use in kernel.inputs if use.tensor not in there):
            self.known.setdefault(use.tensor, Known(Placed(use.dims), ENTRY))       # tables of angles, labels
        for kernel in kernels[:-1]:
            step = self._one(kernel, prefix, weight=weight)
            self.known |= {out.tensor: Known(Placed(out.dims), step) for out in kernel.outputs}
        return self._one(kernels[-1], prefix, weight=weight, frees=op.inputs)

    def _one(self, op: Op, prefix: str, *, weight: bool, frees: Iterable[Use] = ()) -> int:
        """One kernel: its operands brought into place, its step. `frees`: what the operator holds until it is done."""
        passed = self.passed(op)
        after = {self.need(use, passed) for use in op.inputs}
        kind, cost = KINDS[op.kind], KINDS[op.kind].cost(op, self.layout)
        name = f"{prefix}{self.block.name}.{op.name}"
        reads = {**dict.fromkeys((use.tensor for use in frees), 0.0), **self._widest(op.inputs)}
        for use in op.inputs if self.others else ():
            reads.update(self.others.pop(use.tensor, {}))
        writes = {use.tensor: self.bytes_of(use) for use in op.outputs}
        if self.fuse.casts and op.kind == "gemm":
            after |= self._cast(op, reads)
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
                      op.kind == "gemm", weight=weight, fused=op.fused,
                      kernel=kernel_of(op, self.block, self.layout, self.numbers))
        if op.ring and self.layout.ranks(op.ring) > 1:
            return emit_ring(self.drafts, draft, op.ring, self.layout.ranks(op.ring),
                             [self.bytes_of(use) for use in op.inputs[1:3]], op.kind == "attention_backward")
        step = self.drafts.emit(draft)
        return self._cast_back(draft, step) if self.fuse.casts and op.kind == "gemm" and weight else step

    def _cast(self, op: Op, reads: dict[str, float]) -> set[int]:
        """Autocast: the steps that cast the weights of a product, which then `reads` the copies."""
        found = set[int]()
        for use in (use for use in op.inputs if use.tensor in self.block.weights):
            size, copy = reads.pop(use.tensor), use.tensor + CAST
            if copy not in self.known:
                cast = Sketch("pointwise", self.numbers.vector, op="to_bf16")
                step = self.drafts.emit(Draft(f"{self.block.name}.{copy}", NodeKind.COMP, set(), kernel=cast,
                                              reads={use.tensor: size}, writes={copy: size / 2}))
                self.known[copy] = Known(Placed(use.dims), step)
            reads[copy] = size / 2
            found.add(self.known[copy].step)
        return found

    def _cast_back(self, draft: Draft, made: int) -> int:
        """The step that casts a weight's gradient, which its product gives in 16 bits, to fp32."""
        copies = {f"{name}{CAST}": size / 2 for name, size in draft.writes.items()}
        whole, draft.writes = draft.writes, copies
        return self.drafts.emit(Draft(f"{draft.name}.to_fp32", NodeKind.COMP, {made}, reads=copies, writes=whole,
                                      weight=True, kernel=Sketch("pointwise", self.numbers.vector, op="to_fp32")))

    def _widest(self, uses: Iterable[Use]) -> dict[str, float]:
        """Tensor -> bytes of its widest use."""
        found: dict[str, float] = {}
        for use in uses:
            size = self.bytes_of(use)
            found[use.tensor] = largest(found[use.tensor], size) if use.tensor in found else size
        return found

    def forward(self, ops: Iterable[Op], prefix: str = "") -> None:
        for op in ops:
            step = self._seen(op) if op.view and self.fuse.engine else self.run(op, prefix)
            for out in op.outputs:
                placed = Placed(out.dims, self.partial(op, out) + self.passed(op))
                self.known[out.tensor] = self._joined(out, placed, step) if op.joins else Known(placed, step)
                if op.kind == "append":     # a reader of a part of its rows finds it in place
                    self.known[out.tensor].copies[self.axes(out.dims), ()] = step

    def _seen(self, op: Op) -> int:
        """The step after which what a view shows is there."""
        steps = {self.need(use, self.passed(op)) for use in op.inputs}
        self.drafts.wait(max(steps), steps - {max(steps)})
        return max(steps)

    def _joined(self, out: Use, placed: Placed, step: int) -> Known:
        """The tensor of which an operator made some rows, after it and those that made others."""
        dims = tuple(dim.rstrip("0123456789").rstrip(".") for dim in out.dims)
        self.joined_sizes[out.tensor] = self.bytes_of(Use(out.tensor, dims))
        before = self.known.get(out.tensor)
        return Known(Placed(dims, placed.partial), step if before is None else self.drafts.both(before.step, step))

    def common(self, use: Use) -> tuple[str, ...]:
        """Axes over which all contributions to a gradient are partial sums, but those that shard it."""
        sharding = {axis for dim in use.dims for axis in self.layout.axes_of(dim)}
        every = [set(placed.partial) for placed, _ in self.sums[use.tensor]]
        return tuple(sorted(set.intersection(*every) - sharding))

    def summed(self, tensor: str, dims: tuple[str, ...], partial: tuple[str, ...] = ()) -> int:
        """The step after which all contributions to a gradient are added up, lying as `dims`; over `partial` they stay
        partial sums."""
        groups: dict[tuple[Axes, frozenset[str]], tuple[Placed, set[int]]] = {}
        for placed, step in self.sums.pop(tensor):
            left = Placed(placed.dims, tuple(axis for axis in placed.partial if axis not in partial))
            groups.setdefault((self.axes(left.dims), frozenset(left.partial)), (left, set()))[1].add(step)
        done = set()
        for placed, steps in groups.values():
            last = max(steps) if self.fuse.operators == "fused" else self._added(tensor, dims, steps)
            self.drafts.wait(last, steps - {last})       # accumulated in the kernel of the last
            done.add(self.redistribute(tensor, placed, dims, last))
        last = max(done)
        self.drafts.wait(last, done - {last})
        return last

    def _added(self, tensor: str, dims: tuple[str, ...], steps: set[int]) -> int:
        """The last of the kernels that add up contributions to a gradient, one for each but the first (autograd). In a
        compiled block the kernel of the last contribution reads the others, or that which reads their sum."""
        size, last = self.bytes_of(Use(tensor, dims)), max(steps)
        if self.fuse.operators == "compiled":
            others = {f"{tensor}.others": (len(steps) - 1) * size} if len(steps) > 1 else {}
            if not self.drafts.read_besides(last, others):
                self.others[tensor] = others
            return last
        for _ in range(len(steps) - 1):
            last = self.drafts.emit(Draft(
                f"{self.block.name}.{tensor}.add", NodeKind.COMP, {last}, self.layout.elements(dims), 0.0,
                {tensor: 2 * size}, {tensor: size}, kernel=Sketch("pointwise", self.numbers.vector, op="add")))
        return last

    def contribute(self, use: Use, partial: tuple[str, ...], step: int) -> None:
        self.sums.setdefault(use.tensor, []).append((Placed(use.dims, partial), step))
