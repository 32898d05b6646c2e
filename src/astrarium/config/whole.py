"""Write files whole or not at all."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from astrarium.errors import InputError

__all__ = ["hidden_name", "is_stream", "write_whole"]

_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_NUMBERED = re.compile(r"/(?:dev|proc/self)/fd/([0-9]+)")


def hidden_name(path: str) -> str:
    """A new name in the folder of `path`, for a file on its way there: `.NAME.` and 12 hexadecimal digits."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{os.urandom(6).hex()}")


def is_stream(path: str) -> bool:
    """Whether `path` is written to directly: a device, a pipe, or an open file of this process (/dev/stdout)."""
    if _open_file(path) is not None:
        return True
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _open_file(path: str) -> int | None:
    """The open file of this process that `path` names, which may be a file on disk; None if it names none."""
    numbered = _NUMBERED.fullmatch(path)
    return int(numbered[1]) if numbered else _STREAMS.get(path)


@contextmanager
def write_whole(path: str) -> Iterator[IO[bytes]]:
    """Open a binary file that takes the name `path` when the block ends without an error; else nothing changes.

    Args:
        path: The file, or a device such as /dev/stdout, which is written to directly.

    Raises:
        InputError: if the file cannot be written.
    """
    if is_stream(path):
        number = _open_file(path)
        if sys.stdout:
            sys.stdout.flush()      # what was printed before goes first
        with _named(path), open(path if number is None else os.dup(number), "wb") as stream:
            yield stream
        return
    if os.path.isdir(path):
        raise InputError(path, "is a folder", expected="the name of a file")
    temporary = hidden_name(path)
    try:
        with _named(path):
            stream = open(temporary, "xb")     # noqa: SIM115
        with _named(path), stream:
            yield stream
        with _named(path):
            os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


@contextmanager
def _named(path: str) -> Iterator[None]:
    """OSError as InputError with the path; a reader that left stays BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(path, f"cannot be written ({error.strerror or error})") from None
