"""Operators as they are dispatched: any step, FSDP's hooks among it, on fake tensors and a fake process group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from astrarium.errors import UnsupportedError
from astrarium.trace._torch import torch_module
from astrarium.trace.graphs.fx import COLLECTIVES, FREE, gemm_flops, ranks_of_group, tensors_in
from astrarium.trace.graphs.nodes import GraphTrace, Maker
from astrarium.vocab import CommOp

__all__ = ["dispatched_trace"]

C10D = {
    "allreduce_": CommOp.ALL_REDUCE, "allreduce_coalesced_": CommOp.ALL_REDUCE, "allgather_": CommOp.ALL_GATHER,
    "_allgather_base_": CommOp.ALL_GATHER, "allgather_into_tensor_coalesced_": CommOp.ALL_GATHER,
    "_reduce_scatter_base_": CommOp.REDUCE_SCATTER, "reduce_scatter_": CommOp.REDUCE_SCATTER,
    "reduce_scatter_tensor_coalesced_": CommOp.REDUCE_SCATTER, "alltoall_base_": CommOp.ALL_TO_ALL,
    "alltoall_": CommOp.ALL_TO_ALL, "broadcast_": CommOp.BROADCAST, "reduce_": CommOp.REDUCE, "gather_": CommOp.GATHER,
    "scatter_": CommOp.SCATTER, "barrier": CommOp.BARRIER}
"""Operators of `c10d`, which torch.distributed's own functions call."""
OUT_FIRST = ("_allgather_base_", "allgather_", "allgather_into_tensor_coalesced_", "_reduce_scatter_base_",
             "reduce_scatter_", "reduce_scatter_tensor_coalesced_", "alltoall_base_", "alltoall_", "gather_",
             "scatter_")


def dispatched_trace(step: Callable[[], Any]) -> GraphTrace:
    """Calls `step` once and records every operator that it dispatches (`kind: post`), forward, backward, optimizer and
    collectives alike, in the order of dispatch.

    Dependencies follow the memory that operators read and write. Make the model under `FakeTensorMode` (or on
    `meta`) and nothing of its size is allocated; collectives of a fake process group do nothing. Raises
    UnsupportedError naming a collective that is not known here.
    """
    maker = Maker("post", "dispatch")
    recorder = _recorder(maker)
    with recorder:
        step()
    return maker.done()


def _recorder(maker: Maker) -> Any:
    dispatch = torch_module("torch.utils._python_dispatch")
    writer = _Writer(maker)

    class Recorder(dispatch.TorchDispatchMode):  # type: ignore[name-defined,misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            given = kwargs or {}
            out = func(*args, **given)
            writer.take(func, args, given, out)
            return out

    return Recorder()


class _Writer:
    def __init__(self, maker: Maker) -> None:
        self.maker, self.count = maker, 0
        self.torch, self.refs = torch_module(), torch_module("torch.multiprocessing.reductions").StorageWeakRef
        self._held: dict[int, Any] = {}      # weak references: a number is not used again while one is held

    def take(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """One operator."""
        name = func._schema.name
        short = name.partition("::")[2]
        if func.is_view or name in FREE or name.endswith("::wait_tensor") or name.startswith("prim::"):
            return
        reads, writes = self._memory((args, kwargs)), self._memory(out)
        self.count += 1
        label = f"{short}_{self.count}"
        if name.startswith("c10d::"):
            self._c10d(label, name, short, args, reads)
            return
        inputs, outputs = tensors_in((args, kwargs)), tensors_in(out)
        if name.startswith("_c10d_functional"):
            word = short.removesuffix("_out").removesuffix("_").removesuffix("_coalesced")
            if word not in COLLECTIVES:
                raise UnsupportedError(label, f"collective {name}", expected=", ".join(sorted(COLLECTIVES)))
            group = self._group(next(each for each in reversed(args) if isinstance(each, str)))
            self.maker.collective(label, label, COLLECTIVES[word], reads, inputs, outputs, group, op_type=name)
        else:
            self.maker.compute(label, label, name, reads, inputs, outputs, gemm_flops(func, args, kwargs, out))
        self._written(func, args, kwargs, writes, label)

    def _c10d(self, label: str, name: str, short: str, args: Any, touched: list[int]) -> None:
        op = C10D.get(short)
        if op is None:
            raise UnsupportedError(label, f"collective {name}", expected=", ".join(sorted(C10D)))
        tensors = [each for each in args if tensors_in(each)]
        source = tensors[1] if short in OUT_FIRST and len(tensors) > 1 else tensors[0] if tensors else ()
        group = next((each for each in args if isinstance(each, self.torch.ScriptObject)
                      and "ProcessGroup" in str(each._type())), None)
        if group is None:
            raise UnsupportedError(label, f"{name} without a process group", expected="torch.distributed's own")
        unboxed = self.torch.distributed.ProcessGroup.unbox(group)
        inputs = tensors_in(source) if op != CommOp.BARRIER else []
        self.maker.collective(label, label, op, touched, inputs, tensors_in(tensors[:1]),
                              self._group(unboxed.group_name), op_type=name)
        for each in touched:
            self.maker.value(each, [label])

    def _group(self, name: str) -> str | None:
        ranks = ranks_of_group(name)
        return None if ranks is None else self.maker.group(ranks, name)

    def _written(self, func: Any, args: Any, kwargs: Any, outputs: list[int], label: str) -> None:
        """What it returns, and the arguments that its schema says it writes."""
        names = [argument.name for argument in func._schema.arguments]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        changed = [given.get(argument.name) for argument in func._schema.arguments
                   if argument.alias_info is not None and argument.alias_info.is_write]
        for each in (*outputs, *self._memory(changed)):
            self.maker.value(each, [label])

    def _memory(self, value: Any) -> list[int]:
        """Numbers of the storages of all tensors inside nested values."""
        if isinstance(value, self.torch.Tensor):
            try:
                reference = self.refs(value.untyped_storage())
            except (NotImplementedError, RuntimeError):      # a wrapper without memory of its own
                return []
            self._held.setdefault(reference.cdata, reference)
            return [reference.cdata]
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        return [number for item in inside for number in self._memory(item)]
