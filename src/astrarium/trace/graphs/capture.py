"""Traces of models that never run: `torch.export`, AOTAutograd's joint graph, Inductor's graphs after its passes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from astrarium.errors import InputError
from astrarium.trace._torch import torch_module
from astrarium.trace.graphs.fx import add_graph
from astrarium.trace.graphs.nodes import GraphTrace, Maker

__all__ = ["compiled_trace", "export_trace", "joint_trace"]


def export_trace(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> GraphTrace:
    """The forward pass before any transformation (`kind: pre`).

    Build module and arguments under `torch.device("meta")`: then nothing of the model's size is ever allocated.
    """
    torch = torch_module()
    program = torch.export.export(module, tuple(args), dict(kwargs or {})).run_decompositions({})
    maker = Maker("pre", "torch.export")
    add_graph(maker, program.graph)
    return maker.done()


def joint_trace(module: Any, args: Sequence[Any], loss: Callable[[Any], Any] | None = None) -> GraphTrace:
    """Forward and backward as one graph (`kind: post`), from AOTAutograd. `loss` makes a scalar of the module's output;
    left out, its sum."""
    torch = torch_module()
    aot = torch_module("torch._functorch.aot_autograd")
    total = loss if loss is not None else torch.sum

    class WithLoss(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *given: Any) -> Any:
            return (total(self.inner(*given)),)

    graph, _ = aot.aot_export_module(WithLoss(), tuple(args), trace_joint=True, output_loss_index=0)
    maker = Maker("post", "AOTAutograd, joint graph")
    add_graph(maker, graph.graph)
    return maker.done()


def compiled_trace(module: Any, args: Sequence[Any], *, backward: bool = True, passes: bool = True) -> GraphTrace:
    """What `torch.compile` would hand to code generation (`kind: post`): partitioned forward and backward graphs.

    `passes` runs Inductor's post-grad passes on them; no kernel is generated. The module is called once, with the
    operators of the graph: made under `FakeTensorMode`, nothing of its size is allocated. A mesh of DTensors shows its
    collectives; those of a fake process group do nothing. Raises InputError where the module is not one graph.
    """
    torch = torch_module()
    inductor = torch_module("torch._inductor.compile_fx")
    graphs: list[Any] = []

    def keep(graph: Any, inputs: Any, **_: Any) -> Any:
        kept = copy.deepcopy(graph)
        if passes:
            with inductor.V.set_fake_mode(torch_module("torch._guards").detect_fake_mode(inputs)):
                inductor._recursive_post_grad_passes(kept, is_inference=not backward)
        graphs.append(kept)
        return torch_module("functorch.compile").make_boxed_func(graph.forward)

    torch._dynamo.reset()
    try:
        run = torch.compile(module, backend=partial(inductor.compile_fx, inner_compile=keep), fullgraph=True)
        out = run(*args)
        if backward:
            _scalar(torch, out).backward()
    except torch._dynamo.exc.Unsupported as error:
        raise InputError("module", f"is not one graph: {str(error).splitlines()[0]}",
                         expected="a module that torch.compile(fullgraph=True) takes") from None
    finally:
        torch._dynamo.reset()
    if not graphs:
        raise InputError("module", "was not compiled: PyTorch skips meta tensors",
                         expected="module and arguments made under torch._subclasses.FakeTensorMode, or on a device")
    return _joined(graphs, passes)


def _scalar(torch: Any, out: Any) -> Any:
    """The sum of the first tensor of an output; a DTensor's own part of it, which needs no further collective."""
    while isinstance(out, (list, tuple)):
        out = out[0]
    if isinstance(out, torch.distributed.tensor.DTensor):
        out = out.to_local()
    return out.sum()


def _joined(graphs: Sequence[Any], passes: bool) -> GraphTrace:
    """Forward, then backward: its inputs are values of the forward graph of the same name, or gradients of outputs."""
    maker = Maker("post", "Inductor, after post-grad passes" if passes else "Inductor, before post-grad passes")
    for number, graph in enumerate(graphs):
        prefix = ("", "backward.")[min(number, 1)]
        results = [node.name for g in graphs[:1] for out in g.graph.nodes if out.op == "output"
                   for node in out.all_input_nodes] if number else []
        add_graph(maker, graph.graph, prefix, outside=partial(_from_forward, maker, results))
    return maker.done()


def _from_forward(maker: Maker, results: Sequence[str], name: str) -> Iterable[str]:
    if maker.known(name):
        return (name,)
    return results if name.startswith("tangents") else ()
