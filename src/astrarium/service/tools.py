"""Operations as tools: name, sentence, schema of the request. A transport adds nothing to them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import msgspec
from msgspec import Struct

from astrarium.service.limits import Limits
from astrarium.service.operations import OPERATIONS

__all__ = ["Tool", "instructions", "tools"]

READING = frozenset({"catalog", "files", "show", "check", "trace", "validate", "search_report"})


class Tool(Struct, frozen=True):
    """An operation: its `name`, its `description`, the JSON `schema` of its request, whether it only `reads`."""

    name: str
    description: str
    schema: Mapping[str, Any]
    reads: bool


def tools(operations: Mapping[str, str] = OPERATIONS) -> Iterator[Tool]:
    """Every operation as a tool."""
    for name, target in operations.items():
        module, _, function = target.partition(":")
        request = typing.get_type_hints(getattr(import_module(module), function))["request"]
        (schema,), parts = msgspec.json.schema_components([request], ref_template="#/$defs/{name}")
        own = dict(parts[schema["$ref"].rpartition("/")[2]])
        words = " ".join(inspect.cleandoc(request.__doc__ or "").split())
        yield Tool(name, words, {key: value for key, value in own.items() if key != "description"}, name in READING)


def instructions(limits: Limits) -> str:
    """What a client should know before the first call."""
    return (
        "Astrarium models distributed AI systems: it predicts time, memory, money and energy of training and serving "
        "on a cluster, finds layouts, explains differences and searches designs. Ways of work: `plan` for a model on "
        "devices (its layouts are saved as design files); `run` for one design with changes; `explain` for why two "
        "differ; `search_start` and `search_step` to search a space yourself (or `search_agent` by an algorithm), then "
        "`search_report`; `catalog` for every name. Values with a dimension are texts with a unit ('400 GB/s', '2 us', "
        "'80 GiB', '$6M'; GB is 10^9, GiB 2^30; bandwidth is one direction). Predictions print an interval where there "
        "are measured rows, else 'unvalidated': say so when you quote them, and pass on notes and 'assumed'. An error "
        "names the path, the value, what was expected and the nearest name: mend that and call again. Files are names "
        f"in one folder. Limits: {limits.text}; a call beyond them is refused, and a study goes on with the same call.")
