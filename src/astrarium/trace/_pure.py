"""Reading traces without the compiled core: the same columns, rows and errors as native/trace, slowly.

The readable specification of the reader, and its oracle in the tests.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from astrarium.trace._attribute import ATTR_BY_NAME, FIRST_MASKED, Attribute, Filling, filling_of, read_attribute
from astrarium.trace._wire import DELIMITED, VARINT, Cursor, signed

__all__ = ["Strings", "TraceClass", "topological_order"]

MAX_EMPTY_NODES = 1024
MAX_MESSAGE = (1 << 31) - 1
_COMM = (5, 6, 7)
_METADATA = 1
_DTYPES = {"node_id": np.uint64, "type": np.uint8, "start": np.uint64, "duration": np.uint64, "offset": np.uint64,
           "size": np.uint32, "name_offset": np.uint64, "name_size": np.uint32, "present": np.uint16,
           "wrong": np.uint16, "is_cpu_op": np.uint8, "comm_type": np.int64, "comm_size": np.int64,
           "comm_priority": np.int64, "num_ops": np.float64, "tensor_size": np.int64, "stream": np.int64,
           "dims": np.uint32, "dims_count": np.uint8}
_LISTS = {"data_ptr": np.int64, "data_dep": np.uint64, "ctrl_ptr": np.int64, "ctrl_dep": np.uint64,
          "comm_node": np.int32, "meta_node": np.int32, "meta_offset": np.uint64, "meta_size": np.uint32}
_ROWS = {"group": np.int32, "source": np.int64, "destination": np.int64, "tag": np.int64}
_ROW_OF = {ATTR_BY_NAME[b"comm_src"]: "source", ATTR_BY_NAME[b"comm_dst"]: "destination",
           ATTR_BY_NAME[b"comm_tag"]: "tag", ATTR_BY_NAME[b"pg_name"]: "group"}
_SCALARS = {number: name.decode() for name, number in ATTR_BY_NAME.items()
            if number < FIRST_MASKED and name != b"involved_dim"}


class Strings:
    """Texts by number, in order of first appearance."""

    def __init__(self) -> None:
        self._index: dict[bytes, int] = {}

    def add(self, text: bytes) -> int:
        return self._index.setdefault(text, len(self._index))

    def all(self) -> list[bytes]:
        return list(self._index)


class Hole(NamedTuple):
    """A place of a template that differs between ranks of a class; bytes `[start, end)` of the first rank's file."""

    start: int
    end: int
    kind: str                     # metadata, frame, name, attribute, end
    attr: int | None = None
    filling: Filling = Filling.NOTHING
    slot: int = -1


Row = dict[str, list[int]]


class TraceClass:
    """Ranks that are equal up to groups, peers, tags and names of comm nodes; see native/trace/trace_class.hpp."""

    def __init__(self, data: bytes, strings: Strings):
        self.data = data
        self._columns: dict[str, list[Any]] = {name: [] for name in (*_DTYPES, *_LISTS)}
        self._holes: list[Hole] = []
        self._rows: list[Row] = [{name: [] for name in _ROWS}]
        self._files = [data]
        self._strings = strings
        self._read(Cursor(data, 0, len(data)))
        key = tuple((data[a.end:b.start], *b[2:5]) for a, b in zip(self._holes, self._holes[1:], strict=False))
        self.hash = hash((key, data[self._holes[-1].end:]))

    @property
    def ranks(self) -> int:
        return len(self._rows)

    def rebuild(self, row: int) -> bytes:
        return self._files[row]

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        found: dict[str, npt.NDArray[Any]] = {
            name: np.array(self._columns[name], dtype) for name, dtype in (_DTYPES | _LISTS).items()}
        for name, kind in _ROWS.items():
            found[name] = np.array([row[name] for row in self._rows], kind).reshape(self.ranks, -1)
        for array in found.values():
            array.flags.writeable = False
        return found

    # ------------------------------------------------------------ parsing
    def _read(self, file: Cursor) -> None:
        if file.at == file.end:
            raise file.fail(0, "the file is empty")
        span = _frame(file)
        file.inside(span).validate()
        self.metadata = self.data[span[0]:span[1]]
        self._holes.append(Hole(0, file.at, "metadata"))
        _count_nodes(Cursor(self.data, file.at, file.end))
        self._columns["data_ptr"].append(0)
        self._columns["ctrl_ptr"].append(0)
        while file.at != file.end:
            start = file.at
            self._read_node(file.inside(_frame(file)), start)

    def _read_node(self, cursor: Cursor, start: int) -> None:
        columns = self._columns
        for name in _DTYPES:
            columns[name].append(0)
        columns["offset"][-1], columns["size"][-1] = cursor.at, cursor.end - cursor.at
        holes, values = [Hole(start, cursor.at, "frame")], (0, 0)
        while cursor.at != cursor.end:
            values = self._read_field(cursor, holes) or values
        columns["data_ptr"].append(len(columns["data_dep"]))
        columns["ctrl_ptr"].append(len(columns["ctrl_dep"]))
        holes.append(Hole(cursor.at, cursor.at, "end"))
        if columns["type"][-1] in _COMM:
            self._finish_comm(holes)
        if columns["type"][-1] == _METADATA and values[1] > values[0]:
            columns["meta_node"].append(len(columns["type"]) - 1)
            columns["meta_offset"].append(values[0])
            columns["meta_size"].append(values[1] - values[0])

    def _read_field(self, cursor: Cursor, holes: list[Hole]) -> tuple[int, int] | None:
        columns, tag = self._columns, cursor.tag()
        field, wire = tag >> 3, tag & 7
        if wire == VARINT and field in (1, 3, 4, 5, 6, 7):
            value = cursor.varint()
            if field in (4, 5):
                columns["ctrl_dep" if field == 4 else "data_dep"].append(value)
            elif field == 3:
                columns["type"][-1] = value if value <= 7 else 255
            else:
                columns[{1: "node_id", 6: "start", 7: "duration"}[field]][-1] = value
        elif wire == DELIMITED and field in (2, 4, 5, 8, 9, 10):
            start, span = cursor.at, cursor.delimited()
            if field == 2:
                columns["name_offset"][-1], columns["name_size"][-1] = span[0], span[1] - span[0]
                holes.append(Hole(start, cursor.at, "name"))
            elif field in (4, 5):
                _read_ids(columns["ctrl_dep" if field == 4 else "data_dep"], cursor.inside(span))
            elif field == 10:
                self._read_attr(read_attribute(cursor.inside(span)), start, cursor.at, holes)
            else:
                values = _read_info(cursor.inside(span))
                return values if field == 8 else None
        else:
            cursor.skip(tag)
        return None

    def _read_attr(self, attribute: Attribute, start: int, end: int, holes: list[Hole]) -> None:
        if attribute.attr is None:
            return
        filling, bit, columns = filling_of(attribute), 1 << attribute.attr, self._columns
        if attribute.attr >= FIRST_MASKED:
            holes.append(Hole(start, end, "attribute", attribute.attr, filling))
        if filling is Filling.NOTHING:
            return
        good = filling is Filling.READABLE
        columns["present"][-1] = columns["present"][-1] & ~bit | (bit if good else 0)
        columns["wrong"][-1] = columns["wrong"][-1] & ~bit | (0 if good else bit)
        if attribute.attr < FIRST_MASKED:
            self._store(attribute.attr, attribute.value if good else None)

    def _store(self, attr: int, value: object) -> None:
        columns = self._columns
        if attr not in _SCALARS:
            bools = value if isinstance(value, list) else []
            columns["dims"][-1] = sum(1 << i for i, on in enumerate(bools) if on)
            columns["dims_count"][-1] = len(bools)
        elif _SCALARS[attr] == "num_ops":
            columns["num_ops"][-1] = float(value) if isinstance(value, (int, float)) else 0.0
        else:
            number = value if isinstance(value, int) else 0
            columns[_SCALARS[attr]][-1] = int(number != 0) if _SCALARS[attr] == "is_cpu_op" else signed(number)

    def _finish_comm(self, holes: list[Hole]) -> None:
        slot = len(self._columns["comm_node"])
        self._columns["comm_node"].append(len(self._columns["type"]) - 1)
        for column in self._rows[0].values():
            column.append(-1)
        for hole in holes:
            self._holes.append(hole._replace(slot=slot))
            if hole.kind == "attribute":
                again = Cursor(self.data, hole.start, hole.end)
                fill(self._rows[0], slot, read_attribute(again.inside(again.delimited())), hole.filling, self._strings)

    # ------------------------------------------------------------ matching
    def add(self, data: bytes, strings: Strings) -> bool:
        """Adds a rank if its file fits the template."""
        row: Row = {name: [-1] * len(self._columns["comm_node"]) for name in _ROWS}
        try:
            fits = self._match(Cursor(data, 0, len(data)), row, strings)
        except ValueError:
            fits = False   # not this class; the full parse will say what is wrong with the file
        if fits:
            self._rows.append(row)
            self._files.append(data)
        return fits

    def _match(self, file: Cursor, row: Row, strings: Strings) -> bool:
        at = node_end = 0
        for hole in (*self._holes, Hole(len(self.data), len(self.data), "file end")):
            literal = self.data[at:hole.start]
            if file.data[file.at:file.at + len(literal)] != literal:
                return False
            file.at, at = file.at + len(literal), hole.end
            if hole.kind == "metadata":
                file.inside(file.delimited()).validate()
            elif hole.kind == "frame":
                node_end = file.varint() + file.at
            elif hole.kind == "name":
                file.delimited()
            elif hole.kind == "attribute":
                attribute = read_attribute(file.inside(file.delimited()))
                if (attribute.attr, filling_of(attribute)) != (hole.attr, hole.filling):
                    return False
                fill(row, hole.slot, attribute, hole.filling, strings)
            elif file.at != (node_end if hole.kind == "end" else file.end):
                return False
        return True


def fill(row: Row, slot: int, attribute: Attribute, filling: Filling, strings: Strings) -> None:
    """Writes what a masked attribute says of comm node `slot`; the last one that holds something counts."""
    if filling is Filling.NOTHING or attribute.attr is None:
        return
    value = attribute.value if filling is Filling.READABLE else -1
    column = row[_ROW_OF[attribute.attr]]
    if attribute.attr != FIRST_MASKED or filling is Filling.WRONG:
        column[slot] = signed(value) if isinstance(value, int) else -1
    else:
        column[slot] = strings.add(value if isinstance(value, bytes) else str(value).encode())


def _frame(file: Cursor) -> tuple[int, int]:
    start, span = file.at, file.delimited()
    if span[1] - span[0] > MAX_MESSAGE:
        raise file.fail(start, "a message is longer than 2 GiB")
    return span


def _count_nodes(file: Cursor) -> None:
    empty = 0
    while file.at != file.end:
        start, span = file.at, _frame(file)
        empty += span[0] == span[1]
        if empty > MAX_EMPTY_NODES:
            raise file.fail(start, "more than 1024 empty nodes")


def _read_ids(into: list[int], packed: Cursor) -> None:
    while packed.at != packed.end:
        into.append(packed.varint())


def _read_info(info: Cursor) -> tuple[int, int] | None:
    """Where `values` of an IOInfo is."""
    values = None
    while info.at != info.end:
        tag = info.tag()
        if tag == 1 << 3 | DELIMITED:
            values = info.delimited()
        else:
            info.skip(tag)
    return values


def topological_order(node_id: npt.NDArray[np.uint64], ptr: npt.NDArray[np.int64],
                      parent: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Indexes of the nodes that can run, lowest id first among the ready ones; see native/trace/order.hpp."""
    ids, starts, parents = node_id.tolist(), ptr.tolist(), parent.tolist()
    waits = np.diff(ptr).tolist()
    children: list[list[int]] = [[] for _ in ids]
    for node in range(len(ids)):
        for edge in range(starts[node], starts[node + 1]):
            if parents[edge] >= 0:
                children[parents[edge]].append(node)
    ready = [(ids[node], node) for node, count in enumerate(waits) if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)[1]
        order.append(node)
        for child in children[node]:
            waits[child] -= 1
            if waits[child] == 0:
                heapq.heappush(ready, (ids[child], child))
    return np.array(order, np.int32)
