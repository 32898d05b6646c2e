"""A block's pieces as a software stack runs them: casts, accumulation, collectives during products, host time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.pieces import BlockPieces, Piece, Sketch, Step
from astrarium.workload.software import Software

__all__ = ["realised"]

NARROW = {"fp8": 1.0, "fp4": 0.5, "int8": 1.0}
GATHERS, REDUCES = (CommOp.ALL_GATHER,), (CommOp.REDUCE_SCATTER, CommOp.ALL_REDUCE)


def realised(block: BlockPieces, software: Software, tp: int, passes: int, gradients: float) -> BlockPieces:
    """The pieces of a layer under a stack. `passes` are those of backward (2 with full recomputation); `gradients`
    bytes of one gradient of a weight."""
    if software == Software():
        return block
    host = float(software.host) + float(software.host_tp) * tp
    forward, backward = block.forward, block.backward
    return replace(block, forward=_piece(forward, software, host, gradients, tp, back=False),
                   backward=_piece(backward, software, host * passes, gradients, tp, back=True))


def _piece(piece: Piece, software: Software, host: float, gradients: float, tp: int, *, back: bool) -> Piece:
    if software.accumulation != "write":
        piece = _with_behind(piece, lambda step: _added(step, software.accumulation, gradients))
    if not software.tp_async:
        piece = _in_line(piece)
    if software.tp_overlap > 0:
        piece = _beside(_parted(piece, software.tp_overlap), tp, back)
    if software.casts:
        piece = _with_front(piece)
    return _hosted(piece, host) if host > 0 and any(_is_product(step) for step in piece.steps) else piece


def _is_product(step: Step) -> bool:
    return step.kernel is not None and step.kernel.kind in ("gemm", "grouped_gemm")


def _added(step: Step, how: str, gradients: float) -> tuple[Step, Step | None]:
    """A gradient of weights that is added to what is there: (its product, a kernel behind it)."""
    if not (step.weight and step.kernel is not None and _is_product(step)):
        return step, None
    batch, m, n, k = step.kernel.shape
    elements = batch * m * n if step.kernel.kind == "gemm" else m * n
    if step.kernel.kind == "grouped_gemm":      # (groups, rows of all groups, n, k): the gradient is [groups, n, k]
        elements = batch * n * k
    if how == "fused":
        return step._replace(bytes=step.bytes + elements * gradients), None
    add = Step(f"{step.name}.add", NodeKind.COMP, (), elements, 0.0, elements * (2 + 2 * gradients), weight=True,
               kernel=Sketch("pointwise", "fp32"))
    return step._replace(bytes=step.bytes - elements * (gradients - 2)), add


def _with_behind(piece: Piece, change: Callable[[Step], tuple[Step, Step | None]]) -> Piece:
    """Every step changed, some with another behind them, for which their readers wait."""
    steps: list[Step] = []
    place: list[int] = []
    for step in piece.steps:
        made, behind = change(_moved(step, place))
        steps.append(made)
        if behind is not None:
            steps.append(behind._replace(after=(len(steps) - 1,)))
        place.append(len(steps) - 1)
    return Piece(tuple(steps), place[piece.exit] if piece.exit >= 0 else -1)


def _moved(step: Step, place: Sequence[int]) -> Step:
    """The step, with its dependencies renumbered."""
    after = tuple([place[other] for other in step.after])
    return step if after == step.after else step._replace(after=after)


def _with_front(piece: Piece) -> Piece:
    """Casts in front of products of 8 or 4 bits. Gradients of weights take what was cast before; norms cast what they
    write."""
    steps: list[Step] = []
    place: list[int] = []
    for step in piece.steps:
        after = tuple(place[other] for other in step.after)
        narrow = step.kernel is not None and _is_product(step) and step.kernel.precision in NARROW
        if step.kernel is not None and narrow and not step.weight and not _from_norm(piece.steps, step):
            batch, m, _, k = step.kernel.shape
            elements = m * k * (batch if step.kernel.kind == "gemm" else 1)
            moved = elements * (2 + 2 * NARROW[step.kernel.precision])      # as it is, and transposed
            steps.append(Step(f"{step.name}.cast", NodeKind.COMP, after, elements, 0.0, moved,
                              kernel=Sketch("quantisation", step.kernel.precision)))
            after = (len(steps) - 1,)
        steps.append(step._replace(after=after))
        place.append(len(steps) - 1)
    return Piece(tuple(steps), place[piece.exit] if piece.exit >= 0 else -1)


def _from_norm(steps: Sequence[Step], step: Step) -> bool:
    """Whether a step reads what a norm wrote, gathered or not: the norm casts it in place of writing 16 bits."""
    makers = [steps[number] for number in step.after]
    makers += [steps[number] for each in makers if each.kind == NodeKind.COMM_COLL for number in each.after]
    return any(each.kernel is not None and each.kernel.kind == "normalisation" for each in makers)


HIDDEN = ".beside"      # ends the name of the part of a collective that runs during a product


def _in_line(piece: Piece) -> Piece:
    """Collectives of tp between the kernel in front of them and the one behind."""
    steps = list(piece.steps)
    for number, step in enumerate(piece.steps):
        if step.kind == NodeKind.COMM_COLL and step.axes == ("tp",):
            before = [n for n in range(number) if steps[n].kind == NodeKind.COMP][-1:]
            steps[number] = steps[number]._replace(after=tuple(sorted({*steps[number].after, *before})))
            behind = next((n for n in range(number + 1, len(steps)) if steps[n].kind == NodeKind.COMP), None)
            if behind is not None:
                steps[behind] = steps[behind]._replace(after=tuple(sorted({*steps[behind].after, number})))
    return Piece(tuple(steps), piece.exit)


def _parted(piece: Piece, share: float) -> Piece:
    """Collectives of tp in two: the part that is waited for, and that which runs beside a product: gathers start with
    the first, reductions with the second."""
    steps: list[Step] = []
    place: list[int] = []
    for old in piece.steps:
        step = _moved(old, place)
        if step.kind != NodeKind.COMM_COLL or step.axes != ("tp",) or step.op not in GATHERS + REDUCES:
            steps.append(step)
            place.append(len(steps) - 1)
            continue
        beside = step._replace(name=step.name + HIDDEN, bytes=step.bytes * share)
        if share >= 1:
            steps.append(beside)
        elif step.op in GATHERS:
            steps += [step._replace(bytes=step.bytes * (1 - share)), beside._replace(after=(len(steps),))]
        else:
            steps += [beside, step._replace(bytes=step.bytes * (1 - share), after=(*step.after, len(steps)))]
        place.append(len(steps) - 1)
    return Piece(tuple(steps), place[piece.exit] if piece.exit >= 0 else -1)


def _beside(piece: Piece, tp: int, back: bool) -> Piece:
    """Gathers over tp run beside the products that read them, reductions beside those that give them: a product does
    not wait for its gather, nor a reduction for its product, but what follows waits for both. Products are cut into tp
    pieces along their rows, but for gradients in front of a reduction, which runs beside the next product (Transformer
    Engine's ring exchange, pipelined and bulk overlap)."""
    steps = list(piece.steps)
    for number, step in enumerate(piece.steps):
        if not step.name.endswith(HIDDEN):
            continue
        if step.op in GATHERS:
            for reader in [n for n, each in enumerate(steps) if number in each.after and _is_product(each)]:
                _unhook(steps, reader, number)
                steps[reader] = steps[reader] if steps[reader].weight else _cut(steps[reader], tp)
        elif step.op in REDUCES:
            for giver in [n for n in step.after if _is_product(steps[n])]:
                if not back:
                    _unhook(steps, number, giver)
                    steps[giver] = _cut(steps[giver], tp)
    return Piece(tuple(steps), piece.exit)


def _cut(step: Step, pieces: int) -> Step:
    """A product in `pieces` pieces along its rows."""
    kernel = step.kernel
    if kernel is None or kernel.kind != "gemm" or kernel.launches > 1 or kernel.shape[1] < pieces:
        return step
    batch, m, n, k = kernel.shape
    return step._replace(kernel=kernel._replace(shape=(batch, m / pieces, n, k), launches=pieces))


def _unhook(steps: list[Step], later: int, earlier: int) -> None:
    """`later` waits for what `earlier` waits for; the readers of `later` wait for both."""
    waits = (set(steps[later].after) - {earlier}) | set(steps[earlier].after)
    steps[later] = steps[later]._replace(after=tuple(sorted(waits)))
    for number, step in enumerate(steps):
        if later in step.after:
            steps[number] = step._replace(after=tuple(sorted({*step.after, earlier})))


def _hosted(piece: Piece, host: float) -> Piece:
    """A host step at the front, for which the last step that others wait for waits: it is issued last."""
    if piece.exit < 0:
        return piece
    steps = [step._replace(after=tuple(other + 1 for other in step.after)) for step in piece.steps]
    steps[piece.exit] = steps[piece.exit]._replace(after=(0, *steps[piece.exit].after))
    first = Step(f"{_block(piece.steps)}.host", NodeKind.COMP, (), host=host, kernel=Sketch("host", "fp32"))
    return Piece((first, *steps), piece.exit + 1)


def _block(steps: Sequence[Step]) -> str:
    return steps[0].name.removeprefix("again.").partition(".")[0]
