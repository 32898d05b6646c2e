"""Writing Chakra execution traces: nodes one by one, or read traces again, unchanged nodes byte for byte."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping

from astrarium.config.whole import hidden_name, is_stream, write_whole
from astrarium.errors import InputError
from astrarium.trace._wire import Cursor, delimited
from astrarium.trace.columns import Traces
from astrarium.trace.node import Metadata, Node, decode_node, encode_metadata, encode_node

__all__ = ["clear_leftovers", "encode_trace", "node_messages", "node_name", "read_node", "write_file",
           "write_files", "write_trace", "write_traces"]

STALE = 86_400.0     # s after which a hidden file next to its place is stale
_LEFTOVER = re.compile(r"\.(.+)\.[0-9a-f]{12}", re.DOTALL)


def encode_trace(metadata: Metadata | bytes, nodes: Iterable[Node | bytes]) -> bytes:
    """The bytes of a file; a bytes value is a message that is already encoded."""
    first = metadata if isinstance(metadata, bytes) else encode_metadata(metadata)
    messages = (node if isinstance(node, bytes) else encode_node(node) for node in nodes)
    return b"".join(map(delimited, (first, *messages)))


def write_trace(path: str | os.PathLike[str], metadata: Metadata | bytes, nodes: Iterable[Node | bytes], *,
                compress: bool = False) -> None:
    """Writes one rank's file, whole or not at all. `compress` writes gzip (the same bytes for the same input)."""
    write_file(path, encode_trace(metadata, nodes), compress=compress)


def write_file(path: str | os.PathLike[str], data: bytes, *, compress: bool = False) -> None:
    """Writes one file of these bytes, as `write_trace` does."""
    write_files({os.fspath(path): gzip.compress(data, mtime=0) if compress else data}.items())


def write_traces(traces: Traces, prefix: str | os.PathLike[str], *,
                 edits: Mapping[tuple[int, int], Node | bytes | None] | None = None) -> list[str]:
    """Writes `<prefix>.<rank>.et` for every rank and returns the paths.

    `edits` maps (rank, node index) to the node that takes its place, None to leave it out; every other node is written
    as it was read, byte for byte, unknown fields included. No file is replaced before all have been written.
    """
    by_rank: dict[int, dict[int, Node | bytes | None]] = {}
    for (rank, index), node in (edits or {}).items():
        if not (0 <= rank < traces.ranks and 0 <= index < traces.of(rank)[0].nodes):
            raise InputError("edits", f"no node index {index} on rank {rank}")
        by_rank.setdefault(rank, {})[index] = node
    paths = [f"{os.fspath(prefix)}.{rank}.et" for rank in range(traces.ranks)]
    write_files((path, _edited(traces, rank, by_rank.get(rank))) for rank, path in enumerate(paths))
    return paths


def node_messages(file: bytes) -> Iterator[bytes]:
    """The messages of a well-formed file: the metadata, then every node."""
    cursor = Cursor(file, 0, len(file))
    while cursor.at != cursor.end:
        start, end = cursor.delimited()
        yield file[start:end]


def read_node(traces: Traces, rank: int, index: int) -> Node:
    """Node index `index` of a rank, with every field and unknown field."""
    columns, row = traces.of(rank)
    if row == 0:
        start = int(columns.offset[index])
        return decode_node(columns.data[start:start + int(columns.size[index])])
    messages = list(node_messages(traces.file_bytes(rank)))
    return decode_node(messages[index + 1])


def node_name(traces: Traces, rank: int, index: int) -> str:
    """Name of node index `index` of a rank; communication nodes of one class may differ in their names."""
    columns, row = traces.of(rank)
    return columns.name(index) if row == 0 else read_node(traces, rank, index).name


def _edited(traces: Traces, rank: int, edits: Mapping[int, Node | bytes | None] | None) -> bytes:
    file = traces.file_bytes(rank)
    if not edits:
        return file
    metadata, *nodes = node_messages(file)
    changed: list[Node | bytes | None] = list(nodes)
    for index, node in edits.items():
        changed[index] = node
    return encode_trace(metadata, (node for node in changed if node is not None))


def write_files(files: Iterable[tuple[str, bytes]]) -> None:
    """Write all files under temporary names, then rename them; after a fault no file is left.

    A process that is killed outright leaves unread hidden files (`.NAME.` and 12 digits); the next one to
    write the same names removes those that are more than a day old.
    """
    written: list[tuple[str, str]] = []
    placed: list[str] = []
    path = ""
    try:
        for path, data in files:
            if is_stream(path):     # a rename would put a file in the place of the device
                with write_whole(path) as stream:
                    stream.write(data)
            else:
                written.append((_beside(path, data), path))
        while written:
            temporary, path = written[0]
            os.replace(temporary, path)
            placed.append(path)
            written.pop(0)
    except OSError as error:
        raise InputError(path, f"cannot be written ({error.strerror or error})") from None
    finally:
        for temporary, _ in written:
            os.unlink(temporary)
    clear_leftovers(placed)


def clear_leftovers(paths: Iterable[str]) -> None:
    """Removes what writers of these paths that were killed outright left beside them more than a day ago.

    A younger one may belong to a writer that is still at work. What cannot be removed stays.
    """
    names: dict[str, set[str]] = {}
    for path in paths:
        folder, name = os.path.split(path)
        names.setdefault(folder or ".", set()).add(name)
    for folder, known in names.items():
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                match = _LEFTOVER.fullmatch(entry.name)
                if match and match[1] in known and time.time() - entry.stat(follow_symlinks=False).st_mtime > STALE:
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)


def _beside(path: str, data: bytes | memoryview) -> str:
    """A new file with `data` in the folder of `path`, under a name of its own."""
    temporary = hidden_name(path)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary
