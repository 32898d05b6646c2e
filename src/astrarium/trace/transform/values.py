"""Steps that change nodes and leave the graph as it is: rename, strip, scale, roofline."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from astrarium.config import Config, Knob
from astrarium.errors import InputError, TraceError
from astrarium.trace._check_nodes import LONGEST
from astrarium.trace._wire import DELIMITED, VARINT, delimited, tagged, varint
from astrarium.trace.columns import Attr, Columns, Traces
from astrarium.trace.linked import UNEXPLAINED
from astrarium.trace.transform.files import Edit, Job, rebuilt
from astrarium.trace.transform.patch import DURATION, NAME, Change
from astrarium.trace.transform.select import gpu, matching, named
from astrarium.trace.transform.splice import Splice
from astrarium.vocab import NodeKind

__all__ = ["Rename", "Roofline", "ScaleDurations", "ScaleOps", "ScaleSizes", "Strip", "rename", "roofline", "rounded",
           "scale_durations", "scale_ops", "scale_sizes", "strip"]

READ_ATTRS = frozenset(attr.name.lower() for attr in Attr) | {UNEXPLAINED}
WORD = re.compile(r"\{(\w+)\}")


class _Chosen(Config, frozen=True, kw_only=True):
    kind: Annotated[str, Knob("Kind of node: any, compute, host, gpu, collective, send, recv, memory, all_reduce, "
                              "...")] = "any"
    name: Annotated[str, Knob("Pattern of the name, with * and ?.")] = "*"


class Rename(_Chosen, frozen=True, kw_only=True):
    """New names for the chosen nodes."""

    to: Annotated[str, Knob("The new name; {name} is the old name, {id} the node's id.")]


class Strip(_Chosen, frozen=True, kw_only=True):
    """Attributes that go."""

    attrs: Annotated[Sequence[str], Knob("Patterns of attribute names; `unread` are all that the simulator does not "
                                         "read.")] = ("unread",)
    tensors: Annotated[bool, Knob("Inputs and outputs go too (not those of metadata nodes).")] = False


class ScaleDurations(_Chosen, frozen=True, kw_only=True):
    """Recorded durations times a factor."""

    by: Annotated[float, Knob("The factor.", gt=0, lt=1e9)]


class ScaleSizes(ScaleDurations, frozen=True, kw_only=True):
    """Bytes times a factor: comm_size of communication, tensor_size of the rest."""


class ScaleOps(ScaleDurations, frozen=True, kw_only=True):
    """num_ops times a factor."""


class Roofline(Config, frozen=True, kw_only=True):
    """Measured kernels become roofline ones: without a duration, with num_ops and tensor_size."""

    name: Annotated[str, Knob("Pattern of the name, with * and ?.")] = "*"
    num_ops: Annotated[float | None, Knob("Flop of each; left out: what the node has.", ge=0)] = None
    tensor_size: Annotated[int | None, Knob("Bytes that each moves; left out: what the node has.", ge=0)] = None
    table: Annotated[str | None, Knob("JSON file {pattern: {num_ops, tensor_size}}, in the place of both; the first "
                                      "pattern that matches counts.")] = None


def rename(job: Job, step: Rename) -> Job:
    """The chosen nodes get `to` as their name. InputError for an unknown word in braces."""
    for word in WORD.findall(step.to):
        if word not in ("name", "id"):
            raise InputError("rename.to", f"{{{word}}} is unknown", expected="{name}, {id}, or none in braces")
    traces = job.traces()
    edits = []
    for columns in traces.classes:
        nodes = np.flatnonzero(matching(columns, step.kind, step.name))
        edits.append(Edit(splice=Splice(NAME, nodes, _names(columns, nodes, step.to))))
    return Job(rebuilt(traces, edits), job.groups)


def _names(columns: Columns, nodes: npt.NDArray[np.int64], to: str) -> list[bytes]:
    """The name field [nodes]; equal ones are one object."""
    known: dict[str, bytes] = {}
    made, ids = [], columns.node_id[nodes].tolist()
    for node, number in zip(nodes.tolist(), ids, strict=True):
        name = to.replace("{id}", str(number)) if "{id}" in to else to
        name = name.replace("{name}", columns.name(node)) if "{name}" in name else name
        raw = known.get(name)
        if raw is None:
            text = name.encode("utf-8", "surrogateescape")
            raw = tagged(NAME, DELIMITED, delimited(text)) if text else b""
            if "{id}" not in to:
                known[name] = raw
        made.append(raw)
    return made


def strip(job: Job, step: Strip) -> Job:
    """Attributes of the chosen nodes go by name; metadata nodes keep theirs."""
    plain = [pattern for pattern in step.attrs if pattern != "unread"]
    unread = len(plain) < len(step.attrs)

    def without(name: str) -> bool:
        return (unread and name not in READ_ATTRS) or any(fnmatch.fnmatchcase(name, each) for each in plain)

    traces = job.traces()
    change = Change(without=without, bare=step.tensors)
    edits = [Edit(dict.fromkeys(np.flatnonzero(matching(columns, step.kind, step.name)
                                               & (columns.type != NodeKind.METADATA)).tolist(), change))
             for columns in traces.classes]
    return Job(rebuilt(traces, edits), job.groups)


def rounded(values: npt.NDArray[np.float64], had: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Whole numbers [nodes] whose running sums stay within half of one of the exact ones; at least 1 where `had`."""
    whole = np.floor(np.cumsum(values) + 0.5)
    if whole.size and whole[-1] >= 2.0**53:
        return np.maximum(np.rint(values), had).astype(np.int64)
    return np.maximum(np.diff(whole, prepend=0), had).astype(np.int64)


def scale_durations(job: Job, step: ScaleDurations) -> Job:
    """Durations times `by`, in whole microseconds; sums hold, and none becomes 0 (which means: not known)."""
    traces = job.traces()
    edits = []
    for number, columns in enumerate(traces.classes):
        nodes = np.flatnonzero(matching(columns, step.kind, step.name) & (columns.duration > 0))
        scaled = columns.duration[nodes].astype(np.float64) * step.by
        if (scaled > LONGEST).any():
            raise _refusal(traces, number, int(nodes[np.argmax(scaled)]), f"a duration of {scaled.max():.4g} us")
        new = rounded(scaled, np.ones(nodes.size, np.bool_))
        texts = {each: tagged(DURATION, VARINT, varint(each)) for each in np.unique(new).tolist()}
        edits.append(Edit(splice=Splice(DURATION, nodes, [texts[each] for each in new.tolist()])))
    return Job(rebuilt(traces, edits), job.groups)


def scale_sizes(job: Job, step: ScaleSizes) -> Job:
    """Bytes times `by`, rounded; what was above 0 stays so."""
    return _scaled(job, step, (("comm_size", Attr.COMM_SIZE), ("tensor_size", Attr.TENSOR_SIZE)))


def scale_ops(job: Job, step: ScaleOps) -> Job:
    """num_ops times `by`, rounded where it is a whole number."""
    return _scaled(job, step, (("num_ops", Attr.NUM_OPS),))


def _scaled(job: Job, step: ScaleDurations, names: Sequence[tuple[str, Attr]]) -> Job:
    traces = job.traces()
    edits = []
    for number, columns in enumerate(traces.classes):
        chosen = matching(columns, step.kind, step.name)
        values: dict[int, dict[str, Any]] = {}
        for name, attr in names:
            column = getattr(columns, name)
            for node in np.flatnonzero(chosen & columns.has(attr) & (column > 0)).tolist():
                new = float(column[node]) * step.by
                if not isfinite(new):
                    raise _refusal(traces, number, node, f"{name} times {step.by:g} is {new}")
                values.setdefault(node, {})[name] = max(1, round(new))
        edits.append(Edit({node: Change(values=new) for node, new in values.items()}))
    return Job(rebuilt(traces, edits), job.groups)


def _refusal(traces: Traces, number: int, node: int, what: str) -> TraceError:
    """Of a value of a node of a class that a step would make too large."""
    columns = traces.classes[number]
    return TraceError(traces.sources[int(traces.members(number)[0])], what, node=int(columns.node_id[node]),
                      name=columns.name(node), expected="values that a run can count: `astrarium check`")


def roofline(job: Job, step: Roofline) -> Job:
    """The accelerator's compute nodes that a pattern matches lose their duration and get flop and bytes.

    TraceError where a node would have neither a duration nor num_ops and tensor_size.
    """
    rows = [(step.name, {"num_ops": step.num_ops, "tensor_size": step.tensor_size})]
    if step.table is not None:
        rows = _table(step.table)
    traces = job.traces()
    edits = []
    for number, columns in enumerate(traces.classes):
        source = traces.sources[int(traces.members(number)[0])]
        edits.append(Edit(_roofline(columns, rows, source)))
    return Job(rebuilt(traces, edits), job.groups)


def _roofline(columns: Columns, rows: Sequence[tuple[str, Mapping[str, float | None]]],
              source: str) -> dict[int, Change]:
    left, found = gpu(columns), {}
    for pattern, given in rows:
        chosen = left & named(columns, pattern, left)
        left = left & ~chosen
        values = {name: _whole(value) for name, value in given.items() if value is not None}
        for name, attr in (("num_ops", Attr.NUM_OPS), ("tensor_size", Attr.TENSOR_SIZE)):
            lacking = np.flatnonzero(chosen & ~columns.has(attr))
            if name not in values and lacking.size:
                node = int(lacking[0])
                raise TraceError(source, f"has no {name}, and the step gives none", node=int(columns.node_id[node]),
                                 name=columns.name(node), expected=f"roofline with {name}=, or a pattern without it")
        found.update(dict.fromkeys(np.flatnonzero(chosen).tolist(), Change(duration=0, values=values)))
    return found


def _whole(value: float) -> float | int:
    return int(value) if float(value).is_integer() and value < 2**63 else value


def _table(path: str) -> list[tuple[str, dict[str, float | None]]]:
    expected = '{"*gemm*": {"num_ops": 1e9, "tensor_size": 4096}, …}'
    try:
        with open(path, encoding="utf-8") as file:
            plain = json.load(file)
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"not JSON: {error}", expected=expected) from None
    if not isinstance(plain, dict):
        raise InputError(path, "not a JSON object", expected=expected)
    rows: list[tuple[str, dict[str, float | None]]] = []
    for pattern, given in plain.items():
        good = isinstance(given, dict) and set(given) <= {"num_ops", "tensor_size"} and all(
            isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e30
            for value in given.values())
        if not good:
            raise InputError(path, f"{pattern[:60]!r}: {given!r:.60}", expected=expected)
        rows.append((pattern, dict(given)))
    return rows
