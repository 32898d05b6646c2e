"""Whether a call can run here: its operator, its arguments, and that its results are as large as recorded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from astrarium.profile.execute.real.recorded import Opaque, Operator, Ref, refs
from astrarium.profile.execute.real.resolve import Call, Resolver
from astrarium.profile.execute.real.tensors import torch_dtype
from astrarium.trace._torch import torch_module

__all__ = ["Checker", "arguments", "tensors_in"]

DEVICES = ("cpu", "cuda")
CONTENTS = "meta tensor"     # in messages of operators that need contents
MOST_RANK = 64       # dimensions of a tensor in PyTorch
MOST_BYTES = 1 << 60


class Checker:
    """Calls of one trace on one device. Equal signatures are checked once, on PyTorch's meta device: shapes without
    memory."""

    def __init__(self, device: str) -> None:
        self._torch, self._resolver, self._device = torch_module(), Resolver(), device
        self._faults: dict[Any, str] = {}

    def call(self, operator: Operator, launches: bool) -> Call | None:
        """The call; None for an operator that only calls others, or is not known: those that it calls may be. One that
        `launches` a kernel itself was more than that where it was recorded."""
        known = self._resolver.known(operator.schema)
        if known.fault or (known.composite and not launches and not self._resolver.has_kernel(known, self._device)):
            return None
        call = self._resolver.bind(known, operator)
        if call.fault or known.views:
            return call
        key = (known.name, _signature(call.values), _signature(operator.outputs))
        fault = self._faults.get(key)
        if fault is None:
            fault = self._faults[key] = self._fault(call, operator)
        return replace(call, fault=fault) if fault else call

    def fault(self, operator: Operator) -> str:
        """Why an operator is not called, as far as its schema says."""
        return self._resolver.known(operator.schema).fault or "its kernels belong to no operator that is called"

    def _fault(self, call: Call, operator: Operator) -> str:
        tensors = list(refs((operator.inputs, operator.outputs)))
        for ref in tensors:
            fault = _tensor_fault(ref)
            if fault:
                return fault
        recorded = [ref.shape for ref in refs(operator.outputs)]
        expected = self._shapes(call)
        if isinstance(expected, str):
            return expected
        if expected is not None and not _agree(expected, recorded, tensors):
            return f"gives {_listed(expected)} in this PyTorch, recorded are {_listed(recorded)}"
        if not call.known.composite and not self._resolver.has_kernel(call.known, self._device):
            return f"no kernel for {self._device} in this PyTorch"
        return ""

    def _shapes(self, call: Call) -> list[tuple[int, ...]] | str | None:
        """Shapes of the results; None where PyTorch cannot say them without the contents; a text where it refuses."""
        torch = self._torch
        tags = call.known.op.tags
        if torch.Tag.dynamic_output_shape in tags or torch.Tag.data_dependent_output in tags:
            return None
        try:
            with torch.no_grad():
                given, named = arguments(call, _meta, "meta")
                if any(each.name == "device" for each in call.known.schema.arguments):
                    named["device"] = "meta"      # what makes tensors of no other would make them on the CPU
                return [tuple(each.shape) for each in tensors_in(call.known.op(*given, **named), torch.Tensor)]
        except NotImplementedError:
            return None
        except Exception as error:      # of any kind: it is PyTorch's answer to these arguments
            if CONTENTS in str(error):
                return None
            return f"refused by PyTorch: {str(error).strip().splitlines()[0] if str(error).strip() else repr(error)}"


def arguments(call: Call, tensor: Callable[[Ref], Any], device: str) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments; `tensor` makes a tensor of a Ref, and a GPU as an argument becomes `device`."""
    given: list[Any] = []
    named: dict[str, Any] = {}
    for name, value, keyword in zip(call.names, call.values, call.keyword, strict=True):
        made = _argument(value, tensor)
        if name == "device" and isinstance(value, str):
            made = "cpu" if value.startswith("cpu") else device
        if keyword:
            named[name] = made
        else:
            given.append(made)
    return given, named


def _argument(value: Any, tensor: Callable[[Ref], Any]) -> Any:
    if isinstance(value, Ref):
        return tensor(value)
    return [_argument(each, tensor) for each in value] if isinstance(value, list) else value


def tensors_in(result: Any, kind: type) -> list[Any]:
    """The tensors of a result, in order; `kind` is torch.Tensor."""
    if isinstance(result, kind):
        return [result]
    return [each for part in result for each in tensors_in(part, kind)] if isinstance(result, (tuple, list)) else []


def _meta(ref: Ref) -> Any:
    return torch_module().empty_strided(ref.shape, ref.strides, dtype=torch_dtype(ref.dtype), device="meta")


def _tensor_fault(ref: Ref) -> str:
    try:
        dtype = torch_dtype(ref.dtype)
    except KeyError:
        return f"tensors of {ref.dtype!r} are not known here"
    if ref.device.partition(":")[0] not in DEVICES:
        return f"a tensor on device {ref.device!r}"
    if dtype.itemsize != ref.width:
        return f"a tensor of {ref.width} B elements, which {ref.dtype} has not"
    if len(ref.shape) > MOST_RANK:
        return f"a tensor of {len(ref.shape)} dimensions; PyTorch has at most {MOST_RANK}"
    return f"a tensor that ends at byte {ref.extent:.3g} of its memory" if ref.extent > MOST_BYTES else ""


def _signature(value: Any) -> Any:
    """What of arguments decides about shapes; hashable."""
    if isinstance(value, Ref):
        return value.shape, value.strides, value.dtype, value.device, value.offset == 0
    if isinstance(value, (tuple, list)):
        return tuple(map(_signature, value))
    return value if isinstance(value, Opaque) else (type(value), value)


def _agree(expected: list[tuple[int, ...]], recorded: list[tuple[int, ...]], tensors: list[Ref]) -> bool:
    """Whether the first recorded result is expected, and what else is (unused results, workspaces) is as
    recorded or no larger than the tensors of the call."""
    extra = Counter(expected)
    extra.subtract(recorded)
    most = max((math.prod(ref.shape) for ref in tensors), default=1)
    return (not recorded or recorded[0] in expected) and all(
        math.prod(shape) <= most for shape, count in extra.items() if count > 0)


def _listed(shapes: list[tuple[int, ...]]) -> str:
    return ", ".join(str(list(each)) for each in shapes[:4]) or "no tensor"
