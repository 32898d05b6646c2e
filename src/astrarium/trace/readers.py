"""Forms of traces, known by their content: every verb that reads a trace reads all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from astrarium.config.other_files import other_file
from astrarium.errors import PluginError, TraceError, asked, short_name
from astrarium.registry import Kind, built_ins
from astrarium.trace._wire import Cursor
from astrarium.trace.node import decode_metadata

__all__ = ["CHAKRA", "HEAD", "KIND", "Read", "TraceReader", "as_chakra", "reader_name"]

KIND = Kind("reader")
HEAD = 1 << 20      # bytes of a file that tell its form
EXAMPLES: Mapping[str, str] = MappingProxyType({
    "chakra": "binary, run.0.et", "kineto": '{"traceEvents": [..', "host": '{"schema": "1.1.1-chakra", "nodes": [..',
    "feeder": '{"workload_graph": [..', "stablehlo": "module @jit_step {", "jsonl": '{"version": "0.0.4"',
    "text": "DATA, or HYBRID_TRANSFORMER model_parallel_NPU_group: 8"})
"""Form -> how its files begin."""
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")

Data = bytes | bytearray


class Read(Struct, frozen=True):
    """One rank's trace as a Chakra file, and what reading it assumed or left out."""

    data: bytes
    notes: tuple[str, ...] = ()


class TraceReader(Struct, frozen=True):
    """One form of traces: what `reader.NAME` of the registry loads.

    Args:
        sniff: whether a file has this form, from its first `HEAD` bytes (after decompression).
        read: `read(data, where, rank)`, the whole file as one rank's trace. Raises InputError with `where` and a place.
    """

    sniff: Callable[[bytes], bool]
    read: Callable[[Data, str, int], Read]


def _is_chakra(head: bytes) -> bool:
    """A GlobalMetadata message comes first."""
    if not _BINARY.search(head, 0, 1 << 12):
        return False
    try:
        start, end = Cursor(head, 0, len(head)).delimited()
        decode_metadata(head[start:end])
    except ValueError:
        return False
    return True


def _chakra(data: Data, where: str, rank: int) -> Read:
    del where, rank
    return Read(bytes(data))


CHAKRA = TraceReader(_is_chakra, _chakra)


def _reader(name: str) -> TraceReader:
    """The reader of this name, what a plug-in's gives looked over."""
    found, who = KIND.load(name), f"reader plug-in {name}"
    if not isinstance(found, TraceReader):
        raise PluginError(who, f"is an object of {type(found).__name__}, not a TraceReader")
    return found if name in built_ins("reader") else replace(found, sniff=partial(asked, who, found.sniff),
                                                             read=partial(_read, who, found.read))


def _read(who: str, read: Callable[[Data, str, int], Read], data: Data, where: str, rank: int) -> Read:
    found: object = asked(who, read, data, where, rank)
    if not isinstance(found, Read):
        raise PluginError(who, f"read() gave an object of {type(found).__name__} for {where}, which is no Read")
    return found


def reader_name(data: Data) -> str:
    """The form of a file from its content, at least `HEAD` bytes of it; empty where no reader knows it."""
    head = bytes(data[:HEAD])
    if _is_chakra(head):
        return "chakra"
    others = (name for name in KIND.names() if name != "chakra")      # plug-ins last
    return next((name for name in others if _reader(name).sniff(head)), "")


def _begins(name: str) -> str:
    """A form by name, and how its files begin."""
    return f"{name} ({EXAMPLES[name]})" if name in EXAMPLES else name


def as_chakra(data: Data, where: str, rank: int = 0) -> Read:
    """A file of any form as one rank's Chakra file. Raises TraceError for text of no known form; binary data of none
    are given as they are, for the parser to say where they are no Chakra trace."""
    name = reader_name(data)
    if name:
        return _reader(name).read(data, where, rank)
    if data and not _BINARY.search(data, 0, HEAD):
        other = other_file(bytes(data[:1 << 14]).decode("utf-8", "replace"), where)
        if other is not None:
            raise TraceError(where, f"is {other[0]}, not a trace", rank=rank, expected=other[1])
        begin = short_name(bytes(data[:60]).decode("utf-8", "replace"))
        raise TraceError(where, f"begins with {begin!r}: not a trace of a known form", rank=rank,
                         expected="one of " + "; ".join(_begins(name) for name in KIND.names()) +
                         " (`astrarium list reader`)")
    return Read(bytes(data))
