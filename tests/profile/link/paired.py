"""Linking in tests: pairs of `machine.py`, or of events by hand, to traces and their replayed time."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

import astrarium as ar
from astrarium.cli.replay_design import replay_design
from astrarium.profile.link import Linked, link, write_linked
from astrarium.trace import Attr, Columns, Node, read_node, read_traces, write_traces
from astrarium.trace.node import decode_node
from astrarium.trace.write import node_messages

from .machine import Json, Machine, node

Change = Callable[[Node], Node]


def pair(folder: Path, machine: Machine, *, compress: bool = False,
         schema: str = "1.1.1-chakra.0.0.4") -> tuple[Path, Path]:
    """The two files of a machine's run."""
    paths = folder / "host.json", folder / "device.json"
    for path, data in zip(paths, (machine.host_json(schema), machine.device_json()), strict=True):
        path.write_bytes(gzip.compress(data) if compress else data)
    return paths


def linked(folder: Path, machine: Machine) -> Linked:
    """The machine's run, linked and written to `folder / "w"`."""
    found = link(*pair(folder, machine))
    write_linked(folder / "w", found)
    return found


def of_events(folder: Path, events: Sequence[Json], nodes: Sequence[Json] | None = None, **more: Any) -> Linked:
    """Hand-made events, with a host trace if `nodes` are given; linked and written to `folder / "w"`."""
    device = folder / "device.json"
    device.write_text(json.dumps({"traceEvents": list(events), **more}))
    host = None
    if nodes is not None:
        host = folder / "host.json"
        host.write_text(json.dumps({"schema": "1.0.2-chakra.0.0.4", "nodes": [node(1, "root", 1, 0), *nodes]}))
    found = link(host, device)
    write_linked(folder / "w", found)
    return found


def event(cat: str, name: str, ts: float, dur: float, tid: int = 1, pid: int = 1, **args: Any) -> Json:
    """One complete event; `_` in argument names stands for a space."""
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
            "args": {key.replace("_", " ") if key[0].isupper() else key: value for key, value in args.items()}}


def kernel(name: str, ts: float, dur: float, correlation: int, stream: int = 7, **args: Any) -> Json:
    """A kernel on device 0."""
    return event("kernel", name, ts, dur, tid=stream, pid=0, correlation=correlation, stream=stream, device=0, **args)


def nodes_of(folder: Path) -> list[Node]:
    """The nodes of `w.0.et`."""
    _, *messages = node_messages(columns_of(folder).data)
    return [decode_node(message) for message in messages]


def columns_of(folder: Path) -> Columns:
    """The columns of `w.0.et`."""
    return read_traces([folder / "w.0.et"]).classes[0]


def replayed_us(folder: Path, change: Change | None = None) -> float:
    """The replayed makespan of `w.0.et` in us, after `change` of its GPU operations."""
    prefix = folder / "w"
    if change is not None:
        traces, prefix = read_traces([folder / "w.0.et"]), folder / "changed"
        on_gpu = np.flatnonzero(traces.classes[0].has(Attr.STREAM)).tolist()
        write_traces(traces, prefix, edits={(0, index): change(read_node(traces, 0, index)) for index in on_gpu})
    return float(ar.simulate(replay_design(f"{prefix}.*.et")).makespan) / 1000


def kernels_by(factor: float) -> Change:
    """Durations of kernels times a factor, in whole microseconds whose sums hold."""
    exact, given = 0.0, 0

    def change(found: Node) -> Node:
        nonlocal exact, given
        cat = found.attr("cat")
        if cat is None or cat.value != "kernel":
            return found
        exact += found.duration * factor
        duration = max(round(exact) - given, 1)
        given += duration
        return replace(found, duration=duration)

    return change
