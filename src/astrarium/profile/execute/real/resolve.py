"""Recorded schemas to operators of the PyTorch that is installed; arguments bound by the registered schema.

A name is looked up in PyTorch's dispatcher and nowhere else; nothing of a trace is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from astrarium.profile.execute.real.recorded import Opaque, Operator
from astrarium.trace._torch import torch_module

__all__ = ["Call", "Known", "Resolver"]

NAME = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)(?:\.(\w+))?\(")
CLOSED = frozenset({"prim", "c10d", "_c10d_functional", "_c10d_functional_autograd", "profiler", "inductor", "dist",
                    "symm_mem"})
"""Namespaces whose operators are not called: their communication is a separate node, or they reach past tensors."""

ALLOCATIONS = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted",
                         "resize_", "resize_as_", "set_", "set_data", "detach_"})
"""Operators that make tensors and launch nothing: storages are made here when an operator first uses them."""

ABSENT = "not in this PyTorch, nor in what is imported (--import)"
CHECKS = "_assert"         # operators that stop the GPU where contents, which are not recorded, are not as expected
COMPOSITE = "CompositeImplicitAutograd"
GENERAL = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


class Known(Struct, frozen=True):
    """A registered operator. `composite`: it only calls others, which are recorded too; `views`: it launches nothing
    (views, allocations). `fault`: why it cannot be called, "" where it can."""

    name: str
    op: Any = None
    schema: Any = None
    composite: bool = False
    views: bool = False
    fault: str = ""


class Call(Struct, frozen=True):
    """An operator and its arguments, tensors as Ref; `names` are those of `values`. `fault`: why it cannot run."""

    known: Known
    values: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    keyword: tuple[bool, ...] = ()
    fault: str = ""


class Resolver:
    """Looks up every schema once."""

    def __init__(self) -> None:
        self._torch = torch_module()
        self._known: dict[str, Known] = {}

    def known(self, schema: str) -> Known:
        """The registered operator of a recorded schema."""
        found = self._known.get(schema)
        if found is None:
            found = self._known[schema] = self._look(schema)
        return found

    def has_kernel(self, known: Known, device: str) -> bool:
        """Whether the operator runs on `device` (cpu, cuda)."""
        has = self._torch._C._dispatch_has_kernel_for_dispatch_key
        return any(has(known.name, key) for key in (device.upper(), *GENERAL))

    def _look(self, schema: str) -> Known:
        match = NAME.match(schema)
        if match is None:
            return Known(schema[:80], fault="not a schema of PyTorch")
        space, base, overload = match.groups()
        name = f"{space}::{base}" + (f".{overload}" if overload else "")
        if space in CLOSED or base.startswith(CHECKS):
            return Known(name, fault="not called in a replay")
        core = self._torch._C
        try:
            registered = core._get_schema(f"{space}::{base}", overload or "")
            recorded = core.parse_schema(schema)
        except RuntimeError:
            return Known(name, fault=ABSENT)
        if not core._dispatch_has_kernel(name):
            return Known(name, fault=ABSENT)
        arguments = registered.arguments
        if any("file" in each.name for each in arguments):
            return Known(name, fault="reads or writes files")
        if not any("Tensor" in str(each.type) for each in (*arguments, *registered.returns)):
            return Known(name, fault="not called in a replay")
        said = [each.name for each in recorded.arguments]
        now = [each.name for each in arguments]
        if said != now[:len(said)] or not all(each.has_default_value() for each in arguments[len(said):]):
            return Known(name, fault=f"has other arguments in this PyTorch: {', '.join(now)}")
        op = getattr(getattr(getattr(self._torch.ops, space), base), overload or "default")
        return Known(name, op, registered, core._dispatch_has_kernel_for_dispatch_key(name, COMPOSITE),
                     base in ALLOCATIONS or _views(registered))

    def bind(self, known: Known, operator: Operator) -> Call:
        """The call with its recorded arguments."""
        if known.fault:
            return Call(known, fault=known.fault)
        arguments = known.schema.arguments
        given = operator.inputs
        if len(given) > len(arguments) or not all(each.has_default_value() for each in arguments[len(given):]):
            return Call(known, fault=f"{len(given)} arguments recorded, {len(arguments)} expected")
        for argument, value in zip(arguments, given, strict=False):
            if _opaque(value):
                return Call(known, fault=f"argument {argument.name!r}: its value is not recorded ({argument.type})")
        used = arguments[:len(given)]
        return Call(known, given, tuple(each.name for each in used), tuple(each.kwarg_only for each in used))


def _views(schema: Any) -> bool:
    """Whether all results are views of arguments, none of which is written."""
    aliases = [each.alias_info for each in (*schema.returns, *schema.arguments) if each.alias_info is not None]
    results = [each for each in schema.returns if each.alias_info is not None]
    return bool(results) and len(results) == len(schema.returns) and not any(each.is_write for each in aliases)


def _opaque(value: Any) -> bool:
    return isinstance(value, Opaque) or (isinstance(value, Sequence) and not isinstance(value, str)
                                         and any(map(_opaque, value)))
