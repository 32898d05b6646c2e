"""Selective checkpointing: what a block keeps, and which operators run again.

By modules (Megatron core's recompute_modules, megatron/core/transformer/transformer_config.py at d98e8a64): the
operators of `MODULES` run again, all else is kept that backward or they need.

By operators: PyTorch's policy as torchtitan sets it (pytorch/torchtitan at 238fa995,
torchtitan/distributed/activation_checkpoint.py and models/llama3/infra/parallelize.py): results of attention, of
reduce_scatter and all_to_all, and of every second matrix product are kept, all others are computed again. A compiler
(torch.compile; here fusion) drops results that backward needs in no way, such as that of a layer's last product; eager
PyTorch keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from astrarium.vocab import CommOp
from astrarium.workload.graph.infer import Placed, changes
from astrarium.workload.graph.ir import Block, Op, Use, base
from astrarium.workload.graph.side import Side

__all__ = ["MODULES", "kept_results", "not_of_modules", "run_again"]

KEPT_MOVES = (CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL)


MODULES: Mapping[str, re.Pattern[str]] = MappingProxyType({name: re.compile(text) for name, text in {
    "norms": "norm[12]", "ffn": "up|gate|activation|down", "latent": "[qkv]_up|rope_[qk]|join_key",
    "expert_activation": "expert_activation", "shared_experts": "shared_.*",
    "experts": "router|scores|choose|permute|sort|expert_.*|combine|shared_.*|experts_sum"}.items()})
"""Module -> names of its operators in a decoder's layer; `attention` are the operators marked `core`."""


def not_of_modules(block: Block, modules: Collection[str]) -> set[str]:
    """Tensors that no operator of the modules makes."""
    patterns = [MODULES[name] for name in modules if name in MODULES]
    again = [op for op in block.ops if (op.core and "attention" in modules)
             or any(pattern.fullmatch(op.name) for pattern in patterns)]
    made = {out.tensor for op in again for out in op.outputs}
    return {use.tensor for op in block.ops for use in (*op.inputs, *op.outputs)} - made


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
    """(operators that run again so that backward has `saved`; tensors that both read, with their uses)."""
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
