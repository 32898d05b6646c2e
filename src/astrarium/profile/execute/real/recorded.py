"""Nodes of a linked trace as a replay needs them: the operator's schema and arguments, its caller, its stream."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from astrarium.trace.columns import Columns
from astrarium.trace.graph import index_of
from astrarium.trace.linked import STRIDES
from astrarium.trace.node import IOInfo, Node, decode_node
from astrarium.vocab import NodeKind

__all__ = ["Opaque", "Operator", "Recording", "Ref", "recording", "refs"]

UNDEFINED = "nullptr"      # in the type of a tensor that was not defined
ODD = re.compile(r"[\"\\]|True|False|(?<!<)None")      # in texts that are not JSON with other quotes
NOT_FINITE = ("inf", "-inf", "nan")      # which JSON has as texts
MARKS = (b"op_schema", b"rest_of", b"stream", b"part_of")


class Ref(Struct, frozen=True):
    """A recorded tensor. `storage`: the recording's id of its memory, which later tensors use again; `offset` and
    `strides` in elements; `dtype` as PyTorch prints it (`float`, `BFloat16`)."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    width: int
    device: str

    @property
    def extent(self) -> int:
        """Bytes of the storage up to the tensor's last element."""
        if 0 in self.shape:
            return 0
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (self.offset + last + 1) * self.width


class Opaque(Struct, frozen=True):
    """An argument whose value the recording does not hold, such as a process group."""

    type: str


class Operator(Struct, frozen=True):
    """One call: `schema` as recorded, arguments as Ref, number, text, list, None or Opaque."""

    schema: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


class Recording(Struct, frozen=True):
    """Lists are [nodes]: `above` the index of the node that called it or that it continues, -1 for none; `lane` the
    (device, stream) of a GPU operation, None for others. `operators`: node -> call; `name`: of a node."""

    above: list[int]
    lane: list[tuple[int, int] | None]
    operators: dict[int, Operator]
    name: Callable[[int], str]


def recording(columns: Columns) -> Recording:
    """Reads the nodes of one rank."""
    count, data = columns.nodes, columns.data
    above, lane = [-1] * count, list[tuple[int, int] | None]([None]) * count
    operators = dict[int, Operator]()
    lists = _Lists()
    caller = index_of(columns, columns.ctrl_dep).tolist()
    ptr = columns.ctrl_ptr.tolist()
    place = {number: index for index, number in enumerate(columns.node_id.tolist())}
    for index, (start, size) in enumerate(zip(columns.offset.tolist(), columns.size.tolist(), strict=True)):
        if ptr[index] < ptr[index + 1]:
            above[index] = caller[ptr[index]]
        message = data[start:start + size]
        if not any(mark in message for mark in MARKS):
            continue
        node = decode_node(message)
        said = {attr.name: attr.value for attr in node.attrs}
        for key in ("rest_of", "part_of"):
            above[index] = place.get(said[key], above[index]) if key in said else above[index]
        if isinstance(said.get("stream"), int):
            lane[index] = (_whole(said.get("device")), said["stream"])
        schema = said.get("op_schema")
        if isinstance(schema, str) and schema and columns.type[index] != NodeKind.METADATA:
            operators[index] = _operator(node, schema, said.get(STRIDES), lists)
    return Recording(above, lane, operators, lambda index: _name(columns, index))


def _name(columns: Columns, index: int) -> str:
    start = int(columns.offset[index])
    return decode_node(columns.data[start:start + int(columns.size[index])]).name


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def refs(value: Any) -> Iterator[Ref]:
    """The tensors in an argument, or in several."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from refs(each)


class _Lists:
    """Lists as Python prints them; shapes and types repeat, so what was read is kept."""

    def __init__(self) -> None:
        self._known: dict[str, list[Any]] = {}

    def read(self, text: str) -> list[Any]:
        found = self._known.get(text)
        if found is None:
            found = _literal(text)
            if len(self._known) < 1 << 16:
                self._known[text] = found
        return found


def _literal(text: str) -> list[Any]:
    """A list as Python prints it; empty where the text is none. Most are JSON but for their quotes, which is faster."""
    try:
        found = ast.literal_eval(text) if ODD.search(text) else msgspec.json.decode(text.replace("'", '"'))
    except (msgspec.DecodeError, ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _operator(node: Node, schema: str, strides: Any, lists: _Lists) -> Operator:
    found = lists.read(strides) if isinstance(strides, str) else []
    return Operator(schema, _values(node.inputs, found, lists), _values(node.outputs, [], lists))


def _values(info: IOInfo | None, strides: list[Any], lists: _Lists) -> tuple[Any, ...]:
    if info is None:
        return ()
    values, shapes, types = _literal(info.values), lists.read(info.shapes), lists.read(info.types)
    if not len(values) == len(shapes) == len(types):
        return (Opaque("arguments of unequal count"),)
    strides = strides if len(strides) == len(values) else [None] * len(values)
    return tuple(map(_value, values, shapes, types, strides))


def _value(value: Any, shape: Any, kind: Any, strides: Any) -> Any:
    kind = str(kind)
    if kind.startswith("Tensor("):
        return _ref(value, shape, kind, strides)
    if kind == "None" or value == "<None>":
        return None
    if kind == "Double" and value in NOT_FINITE:
        return float(value)
    if kind.startswith("GenericList[") and isinstance(value, list):
        kinds = kind[len("GenericList["):-1].split(",") if value else []
        shapes = shape if isinstance(shape, list) and len(shape) == len(value) else [[]] * len(value)
        inner = strides if isinstance(strides, list) and len(strides) == len(value) else [None] * len(value)
        if len(kinds) == len(value):
            return list(map(_value, value, shapes, kinds, inner))
    if isinstance(value, (bool, int, float)) or (isinstance(value, str) and kind in ("String", "Device")):
        return value
    return Opaque(kind)


def _ref(value: Any, shape: Any, kind: str, strides: Any) -> Ref | Opaque | None:
    if UNDEFINED in kind:
        return None
    if not (isinstance(value, list) and len(value) == 6 and isinstance(value[5], str) and isinstance(shape, list)
            and all(isinstance(each, int) and each >= 0 for each in (*value[1:5], *shape))):
        return Opaque(kind)
    odd = isinstance(strides, list) and len(strides) == len(shape) and all(
        isinstance(each, int) and each >= 0 for each in strides)
    return Ref(value[1], value[2], tuple(shape), tuple(strides) if odd else _contiguous(shape),
               kind[len("Tensor("):-1].removeprefix("c10::"), value[4], value[5])


def _contiguous(shape: list[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
