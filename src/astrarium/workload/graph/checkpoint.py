"""Selective checkpointing of operators: what a block keeps, and which operators run again.

PyTorch's policy as torchtitan sets it (pytorch/torchtitan at 238fa995, torchtitan/distributed/activation_checkpoint.py,
and llama3/infra/parallelize.py for the list): results of attention, of reduce_scatter and all_to_all, and of every
second matrix product are kept, all others are computed again. As under torch.compile, a result that backward needs in
no way is not kept; eager PyTorch also keeps that of a block's last product.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from astrarium.vocab import CommOp
from astrarium.workload.graph.infer import Placed, changes
from astrarium.workload.graph.ir import Block, Op, Use, base
from astrarium.workload.graph.side import Side

__all__ = ["kept_results", "run_again"]

KEPT_MOVES = (CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL)


def kept_results(block: Block, side: Side, stored: Mapping[str, Placed]) -> set[str]:
    """Tensors that the policy keeps of a block's forward pass: `side` ran it, `stored` says how its tensors lie."""
    found: set[str] = set()
    products = 0
    for op in block.ops:
        if op.kind == "attention":
            found |= {out.tensor for out in op.outputs}
        if _counts(op, block):
            products += 1
            found |= {out.tensor for out in op.outputs if products % 2}
        for out in op.outputs:
            moves = changes(side.known[out.tensor].placed, stored[out.tensor].dims, side.layout)
            found |= {out.tensor for move in moves if move.op in KEPT_MOVES}
        for use in op.inputs:
            if use.tensor in stored and any(move.op in KEPT_MOVES for move in
                                            changes(stored[use.tensor], use.dims, side.layout)):
                found.add(use.tensor)
    return found


def _counts(op: Op, block: Block) -> bool:
    """Whether an operator is one of the products of which every second is kept: with a weight, but no router's and no
    experts'."""
    return op.kind == "gemm" and op.inputs[1].tensor in block.weights and \
        not any(base(dim) == "experts" for dim in op.inputs[1].dims)


def run_again(block: Block, keep: Collection[str], saved: Mapping[str, Sequence[Use]]
              ) -> tuple[list[Op], dict[str, list[Use]]]:
    """(operators that run again so that backward has `saved`; what is kept for both, each as they read it)."""
    wanted = {name: list(uses) for name, uses in saved.items()}
    again: list[Op] = []
    for op in reversed(block.ops):
        if not any(out.tensor in wanted and out.tensor not in keep for out in op.outputs):
            continue
        again.append(op)
        for use in op.inputs:
            if use.tensor not in block.weights and use.tensor not in block.states:
                wanted.setdefault(use.tensor, []).append(use)
    made = {out.tensor for op in again for out in op.outputs} - set(keep)
    return again[::-1], {name: uses for name, uses in wanted.items() if name not in made}
