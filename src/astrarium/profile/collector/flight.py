"""Groups and sizes of gloo's collectives: PyTorch's flight recorder knows them, Kineto writes them for NCCL only.

`completed` adds them to the device trace under the names that Kineto uses for NCCL.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod
from typing import Any

import msgspec
from msgspec import Struct

from astrarium.errors import InputError
from astrarium.profile.link.comm import element_bytes
from astrarium.trace._torch import torch_module

__all__ = ["Flight", "Issued", "completed"]

PREFIX = "gloo:"
MESSAGES = {"gloo:send", "gloo:recv"}      # the flight recorder leaves them out


class Issued(Struct, frozen=True):
    """One collective in the order of issue: `gloo:all_reduce`, its group's name, elements, type of an element."""

    name: str
    group: str
    into: int
    out: int
    dtype: str | None


class Flight:
    """The flight recorder from now on."""

    def __init__(self) -> None:
        self._first = max((entry["record_id"] for entry in _entries()), default=-1) + 1

    def since(self) -> list[Issued] | None:
        """What was issued since; None where the recorder has forgotten some of it."""
        entries = [entry for entry in _entries() if entry["record_id"] >= self._first]
        entries.sort(key=lambda entry: int(entry["record_id"]))
        if entries and entries[0]["record_id"] != self._first:
            return None
        return [_issued(entry) for entry in entries if str(entry["profiling_name"]).startswith(PREFIX)]


def _entries() -> list[dict[str, Any]]:
    distributed = torch_module("torch.distributed")
    if not distributed.is_available():
        return []
    try:
        core = torch_module("torch._C._distributed_c10d")
        dump = core._dump_fr_trace_json
    except (InputError, AttributeError):      # before PyTorch 2.8
        return []
    found = json.loads(dump()).get("entries") or []
    return [entry for entry in found if isinstance(entry.get("record_id"), int) and "profiling_name" in entry]


def _issued(entry: dict[str, Any]) -> Issued:
    types = [str(each) for each in entry.get("input_dtypes") or entry.get("output_dtypes") or ()]
    group = entry.get("process_group") or ["", ""]
    into, out = ([prod(shape) for shape in entry.get(key) or ()] for key in ("input_sizes", "output_sizes"))
    if len(set(types)) > 1:      # bytes of each, where elements differ
        widths = [element_bytes(each) or 0 for each in types]
        amount = sum(count * width for count, width in zip(into, widths, strict=False))
        return Issued(str(entry["profiling_name"]), str(group[0]), amount, amount, "Byte")
    return Issued(str(entry["profiling_name"]), str(group[0]), sum(into), sum(out), types[0] if types else None)


def completed(data: bytes, issued: Sequence[Issued]) -> tuple[bytes, str | None]:
    """The device trace with arguments for gloo's operations, and what did not fit.

    Operations are numbered where they are issued, so the n-th of a name in one list is the n-th in the other.
    """
    document: dict[str, Any] = msgspec.json.decode(data)
    events = [event for event in document.get("traceEvents", ()) if str(event.get("name", "")).startswith(PREFIX)
              and event.get("ph") == "X"]
    by_name: dict[str, list[dict[str, Any]]] = {}
    for event in sorted(events, key=lambda each: int(each.get("args", {}).get("Record function id", 0))):
        by_name.setdefault(event["name"], []).append(event)
    odd, notes = [], []
    if len(document.get("distributedInfo", {}).get("pg_config") or ()) > 1 and MESSAGES & set(by_name):
        notes.append("gloo does not say in which group a message is sent: peers are taken as ranks of the world")
    for name in sorted(({each.name for each in issued} | set(by_name)) - MESSAGES):
        calls = [each for each in issued if each.name == name]
        own = by_name.get(name, [])
        if len(calls) != len(own):
            odd.append(f"{name} ({len(own)} timed, {len(calls)} issued)")
            continue
        for event, call in zip(own, calls, strict=True):
            event.setdefault("args", {}).update(_arguments(call))
    if odd:
        notes.append(f"groups are not recorded of {', '.join(odd)}")
    return msgspec.json.encode(document), "; ".join(notes) or None


def _arguments(call: Issued) -> dict[str, Any]:
    out: dict[str, Any] = {"Collective name": call.name.removeprefix(PREFIX), "Process Group Name": call.group}
    if call.dtype is not None:
        out |= {"In msg nelems": call.into, "Out msg nelems": call.out, "dtype": call.dtype}
    return out
