"""Reading execution traces, a file a rank (`<prefix>.<rank>.et`), plain or gzip, of any form that `readers` know; equal
ranks are held once."""

from __future__ import annotations

import glob
import os
import re
import zlib
from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np

from astrarium.errors import InputError, TraceError
from astrarium.trace import _native
from astrarium.trace._wire import VARINT, Cursor
from astrarium.trace.columns import Columns, Traces
from astrarium.trace.node import decode_metadata
from astrarium.trace.rank_files import files_by_rank, is_pattern, path_of_rank, ranks_of, single_file
from astrarium.trace.readers import HEAD, Read, as_chakra

__all__ = ["convert_file", "find_traces", "head_of", "rank_of_file", "read_file", "read_traces",
           "refuse_leftovers", "refuse_more", "trace_of_rank", "traces_of_bytes", "unpacked"]

GZIP_MAGIC = b"\x1f\x8b"
MAX_FILE = 4 << 30       # bytes of one file after decompression
PROFILED = b"profiled"   # what the metadata of a profiler's trace says
FIRST = 1 << 12          # bytes of a file in which it says so
_RECENT = 8              # classes to try before a file is parsed in full

PathLike = str | os.PathLike[str]


def read_traces(workload: PathLike | Sequence[PathLike], ranks: int | None = None, *, pure: bool = False) -> Traces:
    """Reads the traces of ranks 0 .. n-1.

    `workload` is a prefix (files `<prefix>.<rank>.et`), a pattern such as `<prefix>.*.et` or `run/kineto_[01].json.gz`,
    one file (which is rank 0 then), or one path per rank. `ranks` is how many there must be; None takes those that
    exist, which must be 0 .. n-1. `pure` reads without the compiled core.
    Raises InputError naming a missing file, TraceError naming file, rank and byte offset of a malformed one.
    """
    paths = find_traces(workload, ranks)
    return _collect((read_file(path, rank).data for rank, path in enumerate(paths)), paths, pure)


def traces_of_bytes(files: Sequence[bytes], *, pure: bool = False) -> Traces:
    """Traces from the content of one file per rank."""
    names = [f"trace of rank {rank}" for rank in range(len(files))]
    return _collect((unpacked(bytes(data), names[rank], rank) for rank, data in enumerate(files)), names, pure)


def find_traces(workload: PathLike | Sequence[PathLike], ranks: int | None = None) -> list[str]:
    """One path per rank 0 .. n-1; InputError where one is missing."""
    if not isinstance(workload, (str, os.PathLike)):
        paths = [os.fspath(path) for path in workload]
        if ranks is not None and len(paths) != ranks:
            raise InputError("workload", f"{len(paths)} trace files for {ranks} ranks", expected=f"{ranks} files")
        return paths
    prefix = os.fspath(workload)
    if single_file(prefix):
        if ranks not in (None, 1):
            raise InputError("", f"workload file: {prefix} is the trace of one rank, for {ranks} ranks",
                             expected=f"a prefix or a pattern of {ranks} files, such as run/trace_*.json",
                             did_you_mean=_prefix(prefix))
        return [prefix]
    files = files_by_rank(prefix)
    return [files[rank] for rank in range(_count(prefix, list(files), ranks))]


def trace_of_rank(workload: str, rank: int) -> str:
    """The file of one rank; `workload` itself where that is a file. InputError where the rank has none."""
    if single_file(workload):
        return workload
    if not os.path.isfile(path := path_of_rank(workload, rank)):
        raise _missing(workload, path, ranks_of(workload))
    return path


def rank_of_file(workload: str) -> int | None:
    """The rank that a single file's name says; None of a prefix, a pattern and other names."""
    found = re.fullmatch(r".*\.(\d{1,9})\.et", workload, re.DOTALL)
    return int(found[1]) if found is not None and single_file(workload) else None


def refuse_more(workload: str, ranks: int) -> None:
    """InputError where there are traces of ranks beyond 0 .. ranks - 1, whose work would not be done."""
    more = [rank for rank in ranks_of(workload) if rank >= ranks]
    if more:
        raise InputError("workload.path", f"{workload} has traces of ranks {spans(more)} too",
                         expected=f"ranks 0 to {ranks - 1}: one per NPU, or per entry of system.placement")


def refuse_leftovers(prefix: str, ranks: int) -> None:
    """InputError where a prefix to be written has traces of further ranks already: they would seem to belong to it."""
    more = [rank for rank in ranks_of(f"{glob.escape(prefix)}.*.et") if rank >= ranks]
    if more:
        raise InputError(prefix, f"has traces of ranks {spans(more)} already, and ranks 0 to {ranks - 1} are to "
                         "be written", expected="another prefix, or those files removed")


def _count(workload: str, found: Sequence[int], ranks: int | None) -> int:
    """How many of the ranks `found` there are, at least `ranks`. Raises InputError where one of them has no file."""
    missing = next((rank for rank, seen in enumerate(found) if rank != seen), len(found))
    if missing < max(1, len(found) if ranks is None else ranks):
        raise _missing(workload, path_of_rank(workload, missing), found)
    return len(found) if ranks is None else ranks


def _missing(workload: str, path: str, found: Sequence[int]) -> InputError:
    prefix = workload.removesuffix(".*.et")
    exists = f"; ranks that have one: {spans(found)}" if found else "; no rank has one"
    hint = None if found else _prefix(prefix)
    if found and path == prefix:      # one file was wanted
        hint = path_of_rank(workload, found[0])
    alone = ""
    if found and found[0]:
        alone = f", or one rank alone ({path_of_rank(workload, found[0])}; run --rank {found[0]})"
    files = workload if is_pattern(prefix) else "files <prefix>.<rank>.et"
    return InputError("", f"workload file: {path} does not exist{exists}",
                      expected=f"{files} for ranks 0, 1, …{alone}", did_you_mean=hint)


def _prefix(name: str) -> str | None:
    """The prefix that the name of one rank's trace has; None of other names."""
    return re.sub(r"(\.\d+)?\.et$", "", name) if name.endswith(".et") else None


def spans(numbers: Iterable[int]) -> str:
    """`0-3, 7` for ascending numbers."""
    out: list[list[int]] = []
    for number in numbers:
        if out and out[-1][1] == number - 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    shown = [f"{a}" if a == b else f"{a}-{b}" for a, b in out[:12]]
    return ", ".join(shown) + (f" and {len(out) - 12} more spans" if len(out) > 12 else "")


def read_file(path: str, rank: int = 0) -> Read:
    """One file, of any form that `readers` know, as a rank's Chakra file. Raises what `read_traces` does."""
    try:
        with open(path, "rb", buffering=0) as file:
            data = file.read()
    except FileNotFoundError:
        matched = re.fullmatch(r"(.*)\.(\d+)\.et", path, re.DOTALL)
        prefix = matched[1] if matched else path
        raise _missing(prefix, path, ranks_of(prefix)) from None
    except ValueError as error:      # a NUL or a lone surrogate
        raise InputError("", f"workload file: {path[:80]!r} is not a file name ({error})") from None
    except PermissionError:
        raise InputError("", f"workload file: {path} exists but is not readable") from None
    except OSError as error:
        raise InputError("", f"workload file: {path} cannot be read: {error.strerror}") from None
    return as_chakra(unpacked(data, path, rank), path, rank)


def convert_file(path: str) -> Read:
    """`read_file` for what is written on: also parses the result, so that what is no trace is refused."""
    found = read_file(path)
    _collect([found.data], [path], False)
    return found


def head_of(path: str) -> bytes:
    """The first bytes of a file, decompressed, as many as tell its form. Raises InputError where it cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(HEAD)
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror or error}") from None
    if not data.startswith(GZIP_MAGIC):
        return data
    try:
        return zlib.decompressobj(31).decompress(data, HEAD)
    except zlib.error as error:
        raise InputError(path, f"cannot be read: {error}") from None


def unpacked(data: bytes, path: str, rank: int | None = None) -> bytes:
    """Decompresses gzip (known by its magic), any number of members."""
    if not data.startswith(GZIP_MAGIC):
        return data
    parts, size = [], 0
    try:
        while data:
            member = zlib.decompressobj(31)
            parts.append(member.decompress(data, MAX_FILE + 1 - size))
            size += len(parts[-1])
            if size > MAX_FILE:
                raise TraceError(path, f"decompresses to more than {MAX_FILE} bytes", rank=rank)
            if not member.eof:
                raise TraceError(path, "the gzip stream ends too early", rank=rank, expected="a whole file")
            data = member.unused_data
            data = data if data.strip(b"\0") else b""   # gzip allows zero padding at the end
    except zlib.error as error:
        raise TraceError(path, f"the gzip stream is damaged: {error}", rank=rank) from None
    return b"".join(parts)


def _collect(files: Iterable[bytes], sources: Sequence[str], pure: bool) -> Traces:
    core = _native.backend(pure)
    strings = core.Strings()
    classes: list[_native.TraceClass] = []
    by_hash: dict[int, list[int]] = {}
    recent: deque[int] = deque(maxlen=_RECENT)
    described: dict[int, bytes] = {}
    rank_class = np.empty(len(sources), np.int32)
    rank_row = np.empty(len(sources), np.int32)
    for rank, data in enumerate(files):
        number = next((n for n in recent if classes[n].add(data, strings)), -1)
        if number < 0:
            number = _place(core, data, strings, classes, by_hash, (sources[rank], rank))
        if recent and recent[0] != number and number in recent:
            recent.remove(number)
        if not recent or recent[0] != number:
            recent.appendleft(number)
        rank_class[rank], rank_row[rank] = number, classes[number].ranks - 1
        if PROFILED in data[:FIRST]:      # equal ranks may have begun at different times
            described[rank] = _described(data, (sources[rank], rank))
    rank_class.flags.writeable = rank_row.flags.writeable = False
    texts = tuple(text.decode("utf-8", "replace") for text in strings.all())
    return Traces(tuple(map(_columns, classes)), rank_class, rank_row, texts, tuple(sources), described)


def _described(data: bytes, where: tuple[str, int]) -> bytes:
    """The GlobalMetadata message of a file."""
    start, end = Cursor(data, 0, len(data)).delimited()
    try:
        decode_metadata(data[start:end])
    except ValueError as error:
        offset, what = error.args
        raise TraceError(where[0], f"not a Chakra execution trace: byte {start + offset}: in the metadata: {what}",
                         rank=where[1]) from None
    return data[start:end]


def _place(core: _native.Backend, data: bytes, strings: _native.Strings, classes: list[_native.TraceClass],
           by_hash: dict[int, list[int]], where: tuple[str, int]) -> int:
    """Parses a file in full; adds it to an older class of the same hash, or as a new class. Returns its number."""
    try:
        fresh = core.TraceClass(data, strings)
        _check_metadata(fresh)
    except ValueError as error:
        offset, what = error.args
        raise TraceError(where[0], f"not a Chakra execution trace: byte {offset}: {what}", rank=where[1]) from None
    same = by_hash.setdefault(fresh.hash, [])
    for number in same:
        if classes[number].add(data, strings):
            return number
    same.append(len(classes))
    classes.append(fresh)
    return len(classes) - 1


def _check_metadata(fresh: _native.TraceClass) -> None:
    """ValueError(offset, what) where the first message is no GlobalMetadata: a node there would be lost."""
    start, _ = Cursor(fresh.data, 0, len(fresh.data)).delimited()
    if fresh.metadata.startswith(bytes((1 << 3 | VARINT,))):
        raise ValueError(start, "a node where the metadata should be")
    try:
        decode_metadata(fresh.metadata)
    except ValueError as error:
        offset, what = error.args
        raise ValueError(start + offset, f"in the metadata, which every trace begins with: {what}") from None


def _columns(found: _native.TraceClass) -> Columns:
    return Columns(**found.columns(), data=found.data, metadata=found.metadata, source_class=found)
