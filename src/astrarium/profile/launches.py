"""What ran on the GPU of one rank, how long it took, and the operator, with its tensors, that launched it.

`launches_of_trace` reads it from a Chakra trace that holds a recording; `astrarium.profile.link.launches` from the
files of PyTorch's profilers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from astrarium.arrays import I64
from astrarium.errors import InputError
from astrarium.trace.columns import Columns
from astrarium.trace.node import IOInfo, Node, decode_node, trace_kind
from astrarium.trace.read import read_traces
from astrarium.vocab import NodeKind

__all__ = ["COMMUNICATION", "COPY", "ELEMENT_BYTES", "Argument", "Launches", "Operator", "Tensor", "arguments",
           "launches_of", "launches_of_trace"]

COMMUNICATION, COPY = "communication", "copies and fills"
COPIES = ("Memcpy", "Memset", "CopyDeviceToDevice", "CopyHostToDevice", "CopyDeviceToHost", "FillBuffer")

ELEMENT_BYTES = {"float": 4, "double": 8, "Half": 2, "BFloat16": 2, "Float8_e4m3fn": 1, "Float8_e5m2": 1,
                 "Float8_e4m3fnuz": 1, "Float8_e5m2fnuz": 1, "long int": 8, "long": 8, "int": 4, "short int": 2,
                 "short": 2, "signed char": 1, "unsigned char": 1, "bool": 1}
"""Bytes of an element of PyTorch's types by the names that its profilers print, without `c10::`."""


class Tensor(NamedTuple):
    """`type`: a name of ELEMENT_BYTES, or another that PyTorch prints."""

    shape: tuple[int, ...]
    type: str


Argument = Tensor | bool | int | float | str | None


class Operator(NamedTuple):
    """One call of an operator. `inputs`: None where none was recorded; `outputs`: None where the recording has no
    outputs."""

    name: str
    inputs: tuple[Argument, ...] | None
    outputs: tuple[Argument, ...] | None


class Launches(Struct, frozen=True, eq=False):
    """Arrays [GPU operations], times in ns. `other`: COMMUNICATION or COPY; "" is a kernel that computes. `owner`: the
    number of the operator call that launched it, -1 where none is known; `operator` describes a call by that number.
    `tick`: ns to which the recording rounds durations."""

    where: str
    name: Sequence[str]
    other: Sequence[str]
    start: I64
    end: I64
    owner: I64
    operator: Callable[[int], Operator]
    tick: int


def arguments(shapes: Any, types: Any, values: Any) -> tuple[Argument, ...] | None:
    """Arguments from the three lists that both of PyTorch's profilers write; None where they are no such lists."""
    lists = [each if isinstance(each, list) else [] for each in (shapes, types, values)]
    if not lists[0] or len(lists[0]) != len(lists[1]):
        return None
    lists[2] += [None] * (len(lists[0]) - len(lists[2]))
    return tuple(map(_argument, *lists))


def _argument(shape: Any, kind: Any, value: Any) -> Argument:
    kind = str(kind).removeprefix("Tensor(").removesuffix(")").removeprefix("c10::")
    if kind in ELEMENT_BYTES and isinstance(shape, list) and all(isinstance(each, int) for each in shape):
        return Tensor(tuple(shape), kind)
    if isinstance(value, str):      # Kineto prints scalars as texts
        return {"True": True, "False": False, "": None, "<None>": None}.get(value, _number(value))
    absent = kind in ("", "None") or kind.startswith("nullptr")      # of a tensor that was left out
    return value if isinstance(value, (bool, int, float)) else None if absent else kind


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def launches_of_trace(path: str) -> Launches:
    """Launches of one recorded Chakra trace. Raises InputError if it was not recorded."""
    columns = read_traces([path]).classes[0]
    kind = trace_kind(columns.metadata)
    if kind not in (None, "profiled"):
        raise InputError(path, f"was not recorded: its kind is {kind!r}",
                         expected="what `astrarium trace link` wrote from a profiler's files")
    return launches_of(columns, path)[1]


def launches_of(columns: Columns, where: str) -> tuple[I64, Launches]:
    """(the node of each GPU operation, in file order; what ran) of a recorded trace."""
    found = np.flatnonzero((columns.is_cpu_op == 0) & (columns.type != NodeKind.METADATA) & (columns.duration > 0))
    place = {number: index for index, number in enumerate(columns.node_id.tolist())}
    nodes = [_node(columns, index) for index in found.tolist()]
    owner = [place.get(node.ctrl_deps[0], -1) if node.ctrl_deps else -1 for node in nodes]
    start = columns.start[found].astype(np.int64) * 1000
    return found, Launches(where, [node.name for node in nodes], [_other(node) for node in nodes], start,
                           start + columns.duration[found].astype(np.int64) * 1000, np.array(owner, np.int64),
                           cache(lambda index: _operator(_node(columns, index))), 1000)


def _node(columns: Columns, index: int) -> Node:
    at = int(columns.offset[index])
    return decode_node(columns.data[at:at + int(columns.size[index])])


def _other(node: Node) -> str:
    if node.type != NodeKind.COMP:
        return COMMUNICATION
    category = node.attr("cat")
    copied = str(category.value) in ("gpu_memcpy", "gpu_memset") if category else node.name.startswith(COPIES)
    return COPY if copied else ""


def _operator(node: Node) -> Operator:
    return Operator(node.name, _texts(node.inputs), _texts(node.outputs))


def _texts(info: IOInfo | None) -> tuple[Argument, ...] | None:
    return None if info is None else arguments(*_read((info.shapes, info.types, info.values)))


def _read(texts: Iterable[str]) -> list[Any]:
    """Lists as Python prints them; an empty one where the text is none."""
    out = []
    for text in texts:
        try:
            out.append(ast.literal_eval(text))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            out.append([])
    return out
