"""What Chakra's own `chakra_trace_link` writes (`*_plus.json`), taken apart into a host trace and a device trace.

There a host node that was timed has `ts` and `dur` (`inclusive_dur` since 0.0.4) in microseconds, and a node with `cat`
and `ph` is a GPU operation below the host node that launched it. Runtime calls are not in such a file: when an
operation was launched is at the latest when it began or when the launching operator ended; what the host and the
streams waited for is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from astrarium.errors import InputError
from astrarium.profile.link.text import decoded

__all__ = ["Parted", "is_linked", "parted"]

FORM = 'what chakra_trace_link writes: {"schema": …, "nodes": [{"id": …, "name": …, "ts": …, "dur": …}, …]}'
GPU = ("kernel", "gpu_memcpy", "gpu_memset")
ANNOTATION = 7      # RecordScope::USER_SCOPE
LAUNCH: Mapping[str, str] = {"kernel": "cudaLaunchKernel", "gpu_memcpy": "cudaMemcpyAsync",
                             "gpu_memset": "cudaMemsetAsync"}


class Parted(Struct, frozen=True):
    """The two files as their profilers would have written them, and what the linked file lacks."""

    host: bytes
    device: bytes
    missing: tuple[str, ...]


def is_linked(data: bytes | bytearray) -> bool:
    """Whether a host trace has been linked: its nodes have categories or durations, which profilers do not write."""
    return b'"nodes"' in data and any(word in data for word in (b'"exclusive_dur"', b'"inclusive_dur"', b'"cat"'))


def parted(data: bytes | bytearray, where: str) -> Parted:
    """The host and the device trace of a linked file. InputError naming the node that has another form."""
    document = decoded(data, where, msgspec.json.Decoder(dict[str, Any]).decode, FORM)
    nodes = document.get("nodes")
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        raise InputError(f"{where}: nodes", "is no list of nodes", expected=FORM)
    host, events, gpu, by_id = [], [], [], {}
    for node in nodes:
        if node.get("cat") in GPU and "ph" in node:
            gpu.append(node)
            continue
        host.append(node)
        by_id[node.get("id")] = node
        if "ts" in node and _record(node) > 0:
            events.append(_operator(node, where))
    lost = 0
    for number, node in enumerate(gpu, 1):
        above = by_id.get(_parent(node))
        lost += above is None
        events += _operation(node, above, number, where)
    document["nodes"] = host
    device = msgspec.json.encode({"traceEvents": events})
    return Parted(msgspec.json.encode(document), device, tuple(_missing(lost, host)))


def _missing(lost: int, host: list[dict[str, Any]]) -> list[str]:
    out = ["runtime calls, which Chakra's linker leaves out: times of launches are bounds, and nothing says what the "
           "host and the streams waited for (the host's waits are host work here)"]
    waits = sum(bool(node.get("sync_dep")) for node in host)
    if lost:
        out.append(f"{lost:,} GPU operations below no host node of the file")
    return [*out, f"{waits:,} nodes whose sync_dep is not read"] if waits else out


def _parent(node: Mapping[str, Any]) -> Any:
    return node["ctrl_deps"] if node.get("ctrl_deps") is not None else node.get("parent")


def _attribute(node: Mapping[str, Any], name: str) -> Any:
    """An attribute of a host node: a field in schema 1.0.1, an entry of `attrs` since."""
    if name in node:
        return node[name]
    attrs = node.get("attrs")
    return next((each.get("value") for each in attrs if isinstance(each, dict) and each.get("name") == name),
                None) if isinstance(attrs, list) else None


def _record(node: Mapping[str, Any]) -> int:
    found = _attribute(node, "rf_id")
    return found if isinstance(found, int) else 0


def _times(node: Mapping[str, Any], where: str) -> tuple[float, float]:
    """Start and end in microseconds."""
    start, length = node.get("ts"), node.get("inclusive_dur", node.get("dur", 0))
    if not all(isinstance(each, (int, float)) for each in (start, length)) or length < 0:
        raise InputError(f"{where}: node {node.get('id')!r:.40}", f"ts {start!r:.40}, dur {length!r:.40}",
                         expected="microseconds")
    return start, start + length      # type: ignore[return-value]    # checked above


def _operator(node: Mapping[str, Any], where: str) -> dict[str, Any]:
    start, end = _times(node, where)
    kind = "user_annotation" if _attribute(node, "scope") == ANNOTATION else "cpu_op"
    return {"ph": "X", "cat": kind, "name": node.get("name", ""), "pid": 0, "tid": _attribute(node, "tid"), "ts": start,
            "dur": end - start, "args": {"Record function id": _record(node)}}


def _operation(node: Mapping[str, Any], above: Mapping[str, Any] | None, number: int,
               where: str) -> list[dict[str, Any]]:
    """The GPU operation, after its launch where the launching host node is known and has a time."""
    start, end = _times(node, where)
    args = node.get("args") if isinstance(node.get("args"), dict) else {}
    stream = node.get("stream", args.get("stream", node.get("tid", 0)))      # type: ignore[union-attr]
    found = {"ph": "X", "cat": node["cat"], "name": node.get("name", ""), "pid": 0, "tid": stream, "ts": start,
             "dur": end - start,
             "args": {**args, "stream": stream, "correlation": number}}      # type: ignore[dict-item]
    if above is None or "ts" not in above:
        return [found]
    first, last = _times(above, where)
    launch = {"ph": "X", "cat": "cuda_runtime", "name": LAUNCH[node["cat"]], "pid": 0, "tid": _attribute(above, "tid"),
              "ts": max(first, min(start, last)), "dur": 0, "args": {"correlation": number}}
    return [launch, found]
