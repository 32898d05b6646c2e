"""FX graphs of ATen operators, as `torch.export` and AOTAutograd make them, to a trace."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from astrarium.errors import InputError, UnsupportedError
from astrarium.trace._torch import torch_module
from astrarium.trace.graphs.nodes import Maker, Tensor
from astrarium.vocab import CommOp

__all__ = ["COLLECTIVES", "FREE", "add_graph", "gemm_flops", "ranks_of_group", "tensors_in"]

COLLECTIVES = {"all_reduce": CommOp.ALL_REDUCE, "all_gather_into_tensor": CommOp.ALL_GATHER,
               "reduce_scatter_tensor": CommOp.REDUCE_SCATTER, "all_to_all_single": CommOp.ALL_TO_ALL,
               "broadcast": CommOp.BROADCAST}
"""Operators of `_c10d_functional`, without `_out`, `_` and `_coalesced` at their ends."""

FREE = {"aten::_unsafe_view", "aten::detach", "aten::lift_fresh_copy", "aten::sym_size", "aten::empty",
        "aten::empty_like", "aten::new_empty", "aten::_assert_tensor_metadata", "aten::empty_strided"}
"""Operators that move nothing, except those that PyTorch itself calls views."""


def add_graph(maker: Maker, graph: Any, prefix: str = "", *, outside: Callable[[str], Iterable[Any]] | None = None,
              ) -> None:
    """Adds the nodes of a `torch.fx.Graph` whose nodes know their values. Names and values carry `prefix`.

    `outside` maps the name of an input to its values. Raises UnsupportedError for a node that is
    not an operator (control flow, calls of modules or Python functions).
    """
    for node in graph.nodes:
        key = prefix + node.name
        before = [prefix + other.name for other in node.all_input_nodes]
        if node.op in ("placeholder", "get_attr"):
            maker.value(key, outside(node.name) if outside is not None else ())
        elif node.op == "call_function":
            _function(maker, node, key, before)
        elif node.op != "output":
            raise UnsupportedError(f"FX node {node.name}", f"{node.op} of {node.target}",
                                   expected="a graph of operators, from torch.export or AOTAutograd")


def _function(maker: Maker, node: Any, key: str, before: list[str]) -> None:
    torch = torch_module()
    target = node.target
    outputs = tensors_in(node.meta.get("val", node.meta.get("example_value")))
    if target is operator.getitem or _arithmetic(target, outputs):
        maker.value(key, before)
        return
    if not isinstance(target, torch._ops.OpOverload):
        raise UnsupportedError(f"FX node {node.name}", f"calls {getattr(target, '__name__', target)}",
                               expected="an operator of ATen or of functional collectives")
    name = target._schema.name
    args, kwargs = _values(node)
    if target.is_view or name in FREE or name.endswith("::wait_tensor"):
        maker.value(key, before)
        return
    inputs = tensors_in((args, kwargs))
    module = _module(node)
    if name.startswith(("_c10d_functional", "c10d")):
        op = _collective(node.name, name)
        maker.collective(key, key, op, before, inputs, outputs, _named(maker, _group(node, target, args, kwargs)),
                         op_type=name, module=module)
        return
    maker.compute(key, key, name, before, inputs, outputs, gemm_flops(target, args, kwargs, node.meta.get("val")),
                  module=module)


def _arithmetic(target: Any, outputs: list[Tensor]) -> bool:
    """Python's arithmetic on sizes makes no tensor."""
    return not outputs and getattr(target, "__module__", "") in ("_operator", "operator", "math", "torch")


def _values(node: Any) -> tuple[Any, Any]:
    """Arguments with nodes replaced by their values."""
    fx = torch_module("torch.fx")
    take = partial(fx.node.map_arg, fn=lambda other: other.meta.get("val", other.meta.get("example_value")))
    return take(node.args), take(node.kwargs)


def tensors_in(value: Any) -> list[Tensor]:
    """All tensors inside nested lists, tuples and dictionaries."""
    torch = torch_module()
    if isinstance(value, torch.Tensor):
        shape = tuple(_size(size) for size in value.shape)
        return [Tensor(shape, str(value.dtype).removeprefix("torch."), value.element_size())]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for item in inside for tensor in tensors_in(item)]


def _size(size: Any) -> int:
    if isinstance(size, int):
        return size
    hint = getattr(getattr(size, "node", None), "hint", None)
    if not isinstance(hint, int):
        raise InputError("shape", f"{size} has no value", expected="an export with static shapes")
    return hint


def gemm_flops(target: Any, args: Any, kwargs: Any, out: Any) -> int | None:
    """FLOPs by PyTorch's own formulas (torch.utils.flop_counter); None where it has none: not a matrix product.

    An operator that is made of others (`aten::linear`) is run on its fake arguments, and those are counted.
    """
    torch, counter = torch_module(), torch_module("torch.utils.flop_counter")
    formula = counter.flop_registry.get(target._overloadpacket)
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=out))
    if not torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd"):
        return None
    with torch.no_grad(), counter.FlopCounterMode(display=False) as counted:
        target(*args, **kwargs)
    return int(counted.get_total_flops()) or None


def _collective(node: str, name: str) -> CommOp:
    word = name.partition("::")[2].removesuffix("_out").removesuffix("_").removesuffix("_coalesced")
    op = COLLECTIVES.get(word)
    if op is None:
        raise UnsupportedError(f"FX node {node}", f"collective {name}", expected=", ".join(sorted(COLLECTIVES)))
    return op


def _group(node: Any, target: Any, args: Any, kwargs: Any) -> str:
    names = [argument.name for argument in target._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    name = given.get("group_name")
    if not isinstance(name, str):
        raise UnsupportedError(f"FX node {node.name}", "no group name", expected="a functional collective")
    return name


def _named(maker: Maker, name: str) -> str | None:
    """PyTorch's own name: the same on every rank."""
    ranks = ranks_of_group(name)
    return None if ranks is None else maker.group(ranks, name)


def ranks_of_group(name: str) -> tuple[int, ...] | None:
    """Global ranks of a process group that exists in this process; None where it has all of them."""
    distributed = torch_module("torch.distributed")
    core = torch_module("torch.distributed.distributed_c10d")
    ranks = tuple(distributed.get_process_group_ranks(core._resolve_process_group(name)))
    return None if ranks == tuple(range(distributed.get_world_size())) else ranks


def _module(node: Any) -> str | None:
    """The path of the module that a node came from."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [entry[0] for entry in stack.values() if isinstance(entry, tuple) and entry]
    return str(paths[-1]) if paths and paths[-1] else None
