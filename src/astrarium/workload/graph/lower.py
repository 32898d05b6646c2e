"""A block under a layout: the steps of its forward and backward pass on one rank."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from astrarium.vocab import CommOp
from astrarium.workload.graph.amount import largest, total
from astrarium.workload.graph.checkpoint import kept_results, not_of_modules, run_again
from astrarium.workload.graph.draft import ENTRY
from astrarium.workload.graph.infer import Placed, changes
from astrarium.workload.graph.ir import Block, Measures, Op, Use, base
from astrarium.workload.graph.kernels import role_of
from astrarium.workload.graph.ops import KINDS, gradient
from astrarium.workload.graph.side import CAST, WIDTHS, Axes, Known, Side
from astrarium.workload.pieces import BF16, FUSED, BlockPieces, Fusion, Numbers, Piece, Weight

__all__ = ["lower_block"]

ATTENTION = ("attention",)


def _stored(ops: Sequence[Op], side: Side) -> dict[str, Placed]:
    """How forward leaves every tensor: as made, or, where it is made as a partial sum, as first used."""
    stored = {name: known.placed for name, known in side.known.items()}
    for op in ops:
        for use in op.inputs:
            if use.tensor in stored and stored[use.tensor].partial:
                stored[use.tensor] = Placed(use.dims)
    return {name: Placed(placed.dims) for name, placed in stored.items()}


def _needs(op: Op) -> tuple[Use, ...]:
    """The operands and results that backward of an operator reads."""
    if op.kind == "attention":
        return (*op.inputs[:3], *op.outputs)
    return {"inputs": op.inputs, "outputs": op.outputs, "index": op.inputs[:1]}.get(op.saves, ())


def _saved(block: Block, ops: Sequence[Op], selective: bool) -> tuple[dict[str, list[Use]], list[tuple[str, Op]]]:
    """(tensors that backward needs, each as it reads them; masks and statistics as (kind, operator))."""
    made_by_core = {out.tensor for op in ops if op.core and selective for out in op.outputs}
    found: dict[str, list[Use]] = {}
    extra: list[tuple[str, Op]] = []
    for op in ops:
        if not op.grad:
            continue
        hidden = made_by_core if op.core else set[str]()
        if op.kind == "attention":
            extra.append(("stats", op))
        for use in _needs(op):
            if use.tensor not in hidden and use.tensor not in block.weights and use.tensor not in block.states:
                found.setdefault(use.tensor, []).append(use)
        if op.saves == "mask" and not (op.core and selective):
            extra.append(("mask", op))
    return found, extra


def _kept(side: Side, stored: Mapping[str, Placed], saved: Mapping[str, Sequence[Use]]) -> dict[str, list[Placed]]:
    """How every saved tensor lies while it waits for backward: as it is stored, or, where an exchange (all_to_all)
    brought it to its user, as used, for that is as large. A shard is gathered again in place of being kept whole, but
    in PyTorch, whose products keep their operands."""
    left = {CommOp.ALL_TO_ALL} | ({CommOp.ALL_GATHER} if side.fuse.operators != "fused" else set())
    found: dict[str, list[Placed]] = {}
    for name, uses in saved.items():
        places: dict[Axes, Placed] = {}
        for use in uses or [Use(name, stored[name].dims)]:
            moves = changes(stored[name], use.dims, side.layout)
            exchanged = bool(moves) and all(move.op in left for move in moves)
            placed = Placed(use.dims) if exchanged else stored[name]
            places.setdefault(side.axes(placed.dims), placed)
        found[name] = list(places.values())
    return found


def _kept_width(side: Side, again: bool) -> Callable[[str], float]:
    """Bytes per element of a saved tensor: in the format of products where these alone need it, in that and its own
    where others do, too. `again`: the block runs again, and what is saved is its input."""
    block, width = side.block, side.widths.get("product", 0.0)
    products = {op.name: op.inputs[0].tensor for op in block.ops if op.kind == "gemm" and len(op.inputs) > 1
                and op.inputs[1].tensor in block.weights and not any(base(dim) == "vocab" for dim in op.inputs[1].dims)}
    others = {use.tensor for op in block.ops if op.name not in products
              for use in (*op.inputs, *op.outputs) if use in _needs(op)}
    narrow = set() if again or not width else set(products.values())

    def of(name: str) -> float:
        plain = side.width(name)
        return plain if name not in narrow or width >= plain else width + (plain if name in others else 0.0)
    return of


def _saved_bytes(side: Side, kept: Mapping[str, Sequence[Placed]], extra: Iterable[tuple[str, Op]],
                 again: bool) -> float:
    width = _kept_width(side, again)
    saved = total(side.layout.elements(placed.dims) * width(name) for name in sorted(kept) for placed in kept[name])
    for kind, op in extra:
        dims = op.outputs[0].dims if kind == "mask" else op.inputs[0].dims[:3]
        saved += side.layout.elements(dims) * side.widths[kind]
    return saved


def _differentiable(block: Block, ops: Sequence[Op]) -> set[str]:
    """Tensors through which a gradient flows: weights, the stream, and what is made of them."""
    found = set(block.weights) | {use.tensor for use in _entering(block)}
    for op in ops:
        if op.grad and any(use.tensor in found for use in op.inputs):
            found |= {out.tensor for out in op.outputs}
    return found


def _backward(side: Side, ops: Sequence[Op], wanted: Collection[str], selective: bool, front: Side) -> None:
    """Gradients of every operator, last first; products of one operand (q, k, v) give its gradient before weights'.
    `front` ran forward."""
    again = [op for op in ops if op.core] if selective else []
    waiting: list[Op] = []
    for number in range(len(ops) - 1, -1, -1):
        op = ops[number]
        outs = [out for out in op.outputs if gradient(out.tensor) in side.sums]
        if not op.grad or not outs:
            continue
        if op.core and again:
            side.forward(again, "again.")
            again = []
        for out in outs:
            _add_up(side, op, Use(gradient(out.tensor), out.dims))
        if op.kind == "add":
            _pass_on(side, op, wanted)
            continue
        for made in KINDS[op.kind].gradients(op, wanted):
            if made.kind == "gemm" and _is_weight(side.block, made):
                waiting.append(made)
            else:
                _add_gradient(side, made, front.whole(op))
        if not (number and op.kind == ops[number - 1].kind == "gemm" and op.inputs[0] == ops[number - 1].inputs[0]):
            for made in waiting:
                _add_gradient(side, made, {})
            waiting = []


def _add_up(side: Side, op: Op, use: Use) -> None:
    """The gradient of what an operator gives, as its own gradients read it."""
    partial = side.common(use) if op.linear and op.kind != "add" else ()
    side.known[use.tensor] = Known(Placed(use.dims, partial), side.summed(use.tensor, use.dims, partial))


def _is_weight(block: Block, made: Op) -> bool:
    return all(out.tensor.removeprefix("d.") in block.weights for out in made.outputs)


def _add_gradient(side: Side, made: Op, whole: Mapping[str, tuple[str, ...]]) -> None:
    """The step of a gradient. `whole`: see Side.whole, of the operator whose gradient it is."""
    step, passed = side.run(made, weight=_is_weight(side.block, made)), side.passed(made)
    for out in made.outputs:
        axes = (*side.partial(made, out), *passed, *whole.get(out.tensor.removeprefix("d."), ()))
        side.contribute(out, tuple(dict.fromkeys(axes)), step)


def _pass_on(side: Side, op: Op, wanted: Collection[str]) -> None:
    """The gradient of a sum is that of each of its terms."""
    dy = op.outputs[0]
    side.passed_on.add(gradient(dy.tensor))
    step = side.need(Use(gradient(dy.tensor), dy.dims))
    for use in op.inputs:
        if use.tensor in wanted:
            side.contribute(Use(gradient(use.tensor), use.dims), (), step)


def _weights(side: Side) -> tuple[Weight, ...]:
    """Shards on this rank, and the axes over which their gradients are still to be summed."""
    block, layout, found = side.block, side.layout, []
    products = side.drafts.products()
    for name, dims in block.weights.items():
        sums = side.sums.pop(gradient(name), [])
        axes = dict.fromkeys(axis for placed, _ in sums for axis in placed.partial)
        if name not in block.borrowed:
            matrix = layout.elements(dims[1:] if name in block.experts else dims)
            found.append(Weight(name, layout.elements(dims), tuple(axes), name not in block.experts,
                                products.get(gradient(name), -1), matrix))
    return tuple(found)


def _loose(side: Side) -> dict[str, float]:
    """Gradients of weights as separate tensors, in the weights' format."""
    return {gradient(name): side.layout.elements(dims) * side.width(name) for name, dims in side.block.weights.items()}


def lower_block(block: Block, layout: Measures, *, recompute: str = "none", modules: Collection[str] = ATTENTION,
                fuse: Fusion = FUSED, widths: Mapping[str, float] = WIDTHS, backward: bool = True,
                numbers: Numbers = BF16, gradients: str = "in_place") -> BlockPieces:
    """The pieces of a block on one rank.

    `recompute`: `none`, `selective` (operators of `modules` run again, of `attention` alone those marked `core`, right
    before their gradients), `operators` (see `checkpoint`) or `full` (the whole block from its input).
    `widths`: bytes per element by precision role; `numbers`: formats in which kernels compute. `backward` False:
    inference; nothing is saved. `gradients` of weights: `temporary`: tensors of their own before they are added to what
    is kept; `fresh`: made here, and kept.
    Raises InputError where the layout refuses an uneven size.
    """
    front = Side(block, layout, widths, fuse, numbers)
    for use in _entering(block):
        front.known[use.tensor] = Known(Placed(use.dims), ENTRY)
    _external(front, block)
    front.forward(block.ops)
    end = front.need(block.output) if block.output.tensor else len(front.drafts) - 1
    stored = _stored(block.ops, front)
    core = recompute == "selective" and tuple(modules) == ATTENTION
    saved, extra = _saved(block, block.ops, core)
    again: list[Op] = []
    if recompute in ("operators", "selective") and backward and not core:
        keep = kept_results(block, front, stored) if recompute == "operators" else not_of_modules(block, modules)
        again, saved = run_again(block, keep, saved)
        if recompute == "operators" and not fuse.neighbours:
            saved = {**{name: [] for name in sorted(keep)}, **saved}
        extra = [(kind, op) for kind, op in extra if op not in again]
    output = total(front.bytes_of(use) for use in _leaving(block))
    saved.pop(block.memory.tensor, None)
    waiting = _kept(front, stored, {**saved, **dict.fromkeys(_made_memory(block), ())})
    if not backward:
        return _forward_alone(front, end, output)
    back = Side(block, layout, widths, fuse, numbers)
    start, kept = ENTRY, waiting
    if recompute == "full":
        if block.input.tensor:
            kept = {name: [stored[name]] for name in {block.input.tensor} | _made_memory(block)}
        again, extra = _until(block.ops, saved) if fuse.operators == "eager" else list(block.ops), []
    if again:
        back.known.update({name: Known(Placed(front.known[name].placed.dims), ENTRY) for name in front.known
                           if front.known[name].step == ENTRY})
        _find(back, {name: stored[name] for name in kept}, kept, ENTRY)
        back.forward(again, "again.")
        start = len(back.drafts) - 1
    casts = _kept_casts(front, back) if fuse.casts and recompute == "none" else set[str]()
    _find(back, stored, waiting, start)
    _first_gradient(back, block, start)
    wanted = _differentiable(block, block.ops)
    _backward(back, block.ops, wanted, core, front)
    source = gradient(block.input.tensor)
    done = back.summed(source, block.input.dims) if source in back.sums else len(back.drafts) - 1
    if block.takes_memory:
        done = back.drafts.both(done, back.summed(gradient(block.memory.tensor), block.memory.dims))
    weights = _weights(back)
    held = kept.keys() | {gradient(name) for name in block.weights} | casts
    left = kept.keys() | {block.output.tensor} | casts
    working, working_back = front.drafts.working(left), _working_back(back, held, gradients, weights, recompute)
    if gradients != "fresh":
        working = working_back = largest(working, working_back)
    given = held if fuse.operators == "fused" else held | {source} | back.passed_on
    size = _saved_bytes(front, kept, extra, recompute in ("full", "operators")) + _cast_bytes(front, casts)
    return BlockPieces(block.name, front.drafts.piece(end, left), back.drafts.piece(done, given), weights, size,
                       working, output, working_back)


def _forward_alone(front: Side, end: int, output: float) -> BlockPieces:
    """The pieces of a block in inference."""
    block, layout = front.block, front.layout
    weights = tuple(Weight(name, layout.elements(dims), (), name not in block.experts, role=role_of(name, block))
                    for name, dims in block.weights.items() if name not in block.borrowed)
    held = {block.output.tensor, *block.states} | ({block.memory.tensor} if block.gives_memory else set())
    return BlockPieces(block.name, front.drafts.piece(end, held), Piece((), -1), weights, 0.0,
                       front.drafts.working(held, front.joined_sizes), output)


def _working_back(back: Side, held: AbstractSet[str], gradients: str, weights: Iterable[Weight],
                  recompute: str) -> float:
    """Working memory of backward, less all fresh gradients of the block, which count from its start on. PyTorch holds
    the gradient with which backward begins until its last reader is done, and, measured where blocks run again, one
    more tensor of the stream."""
    block, torch = back.block, back.fuse.operators != "fused"
    leaving = {gradient(use.tensor): back.bytes_of(use) for use in _leaving(block)} if torch else {}
    loose = _loose(back) if gradients in ("temporary", "fresh") else {}
    still = held - loose.keys() | {gradient(name) for name in block.reused}
    found = back.drafts.working(still, loose, gradients == "fresh", leaving)
    if torch and recompute == "full":
        found = total(leaving.values(), found)
    return found - total(loose[gradient(weight.name)] for weight in weights) if gradients == "fresh" else found


def _kept_casts(front: Side, back: Side) -> set[str]:
    """Copies of weights that autocast made forward, and that backward finds."""
    found = {name: known for name, known in front.known.items() if name.endswith(CAST)}
    back.known |= {name: Known(known.placed, ENTRY) for name, known in found.items()}
    return set(found)


def _cast_bytes(side: Side, casts: Collection[str]) -> float:
    return total(side.layout.elements(side.known[name].placed.dims) * side.width(name.removesuffix(CAST)) / 2
                 for name in sorted(casts))


def _until(ops: Sequence[Op], saved: Collection[str]) -> list[Op]:
    """The operators that run again where recomputation stops at the last one whose result backward needs (PyTorch's
    checkpoint without re-entrance, `set_checkpoint_early_stop`)."""
    last = max((number for number, op in enumerate(ops) if any(out.tensor in saved for out in op.outputs)), default=-1)
    return list(ops[:last + 1])


def _find(side: Side, stored: Mapping[str, Placed], waiting: Mapping[str, Sequence[Placed]], step: int) -> None:
    """Tensors are there after `step`, as they are stored and as they wait."""
    for name, placed in stored.items():
        side.known[name] = Known(placed, step, {(side.axes(each.dims), ()): step for each in waiting.get(name, ())})


def _entering(block: Block) -> tuple[Use, ...]:
    """The stream and the tensors that travel with it, at the block's start."""
    return tuple(use for use, there in ((block.input, bool(block.input.tensor)), (block.memory, block.takes_memory))
                 if there)


def _leaving(block: Block) -> tuple[Use, ...]:
    return tuple(use for use, there in ((block.output, bool(block.output.tensor)), (block.memory, block.gives_memory))
                 if there)


def _made_memory(block: Block) -> set[str]:
    """Tensors, other than the stream, that later blocks read from this one; each is kept once."""
    return {block.memory.tensor} if block.gives_memory and not block.takes_memory else set()


def _external(side: Side, block: Block) -> None:
    """Token indices and the like: tensors that no operator of the block makes lie as they are first used."""
    there = {out.tensor for op in block.ops for out in op.outputs}.union(block.weights, block.states, side.known)
    for use in (use for op in block.ops for use in op.inputs if use.tensor not in there):
        side.known.setdefault(use.tensor, Known(Placed(use.dims), ENTRY))


def _first_gradient(back: Side, block: Block, start: int) -> None:
    """The gradients with which backward begins: of the stream, or of the loss that the last operator gives, and of the
    block's own losses."""
    for use in (*(_leaving(block) or (block.ops[-1].outputs[0],)), *block.losses):
        back.contribute(Use(gradient(use.tensor), use.dims), (), start)
