"""The GPU operations of PyTorch's profiler files and the operators that launched them."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import numpy as np

from astrarium.errors import InputError
from astrarium.profile.launches import COMMUNICATION, COPY, Launches, Operator, arguments
from astrarium.profile.link.calls import classified
from astrarium.profile.link.comm import is_comm_kernel
from astrarium.profile.link.host import HostTrace, Tensors, read_host
from astrarium.profile.link.join import Join, joined
from astrarium.profile.link.kineto import read_device
from astrarium.profile.link.records import KERNEL, DeviceTrace
from astrarium.profile.link.text import UNREADABLE, file_bytes
from astrarium.profile.link.threads import host_threads

__all__ = ["launches", "operator_of"]

NOTHING = Operator("", None, None)


def launches(host: str | None, device: str) -> Launches:
    """Launches of Kineto's file `device`. Shapes are those that Kineto recorded (`record_shapes=True`), or those of the
    execution trace `host` of the same run. Raises InputError where the two are not of one run."""
    trace = read_device(file_bytes(device), device, shapes=True)
    nodes = None if host is None else read_host(file_bytes(host), host)
    join = joined(nodes, trace)
    if nodes is not None and join.doubtful:
        raise InputError(f"{host} and {device}", f"only {join.count} of {join.most} operators are the same",
                         expected="recordings of one run and rank")
    start, end = np.array(trace.gpu.start, np.int64), np.array(trace.gpu.end, np.int64)
    length, owner = end - start, np.array(_owners(trace), np.int64)
    return Launches(device, trace.gpu.name, [_other(trace, number) for number in range(len(owner))], start, end, owner,
                    cache(lambda number: operator_of(trace, nodes, join, number)),
                    1000 if not (length % 1000).any() else 1)


def _owners(trace: DeviceTrace) -> list[int]:
    """[GPU operations] the innermost operator around the launching call, else the one with its external id, else -1."""
    calls = classified(trace)
    parent = host_threads(trace, calls)[1]
    base, operators = len(trace.operators.name), trace.operators
    named = {external: number for number, external in enumerate(operators.external) if external > 0}
    out = []
    for operation, external in enumerate(trace.gpu.external):
        call = calls.launcher.get(operation, -1)
        found = parent[base + call] if call >= 0 else -1
        found = named.get(external, -1) if found < 0 and not trace.gpu.graph[operation] else found
        out.append(-1 if found in operators.annotations else found)
    return out


def _other(trace: DeviceTrace, operation: int) -> str:
    if trace.gpu.kind[operation] != KERNEL:
        return COPY
    args = trace.comms.get(operation)
    known = is_comm_kernel(trace.gpu.name[operation]) or (args is not None and args.op is not None)
    return COMMUNICATION if known else ""


def operator_of(trace: DeviceTrace, host: HostTrace | None, join: Join, number: int) -> Operator:
    """An operator with its tensors. Host nodes that were joined by name and order may be of another step: there
    Kineto's own shapes come first."""
    node = join.host[number]
    given = Operator(trace.operators.name[number], trace.arguments.get(number), None)
    if host is None or node < 0 or (given.inputs is not None and join.by != "rf_id"):
        return given
    inputs, outputs = (_tensors(each) for each in host.tensors(node))
    return given if inputs is None else Operator(given.name, inputs, outputs)


def _tensors(given: Tensors) -> Any:
    try:
        return arguments(*(msgspec.json.decode(each) for each in (given.shapes, given.types, given.values)))
    except UNREADABLE:
        return None
