"""The process that runs operations, one at a time, within limits."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import time
import typing
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any

import msgspec
from msgspec import Struct

from astrarium.errors import AstrariumError, InternalError, StoppedError
from astrarium.registry import kinds
from astrarium.service.answer import Answer, Progress, Refusal, RefusedError, misread, refusal
from astrarium.service.context import Context
from astrarium.service.folder import Folder
from astrarium.service.guard import guard
from astrarium.service.limits import Limits
from astrarium.units import format_time

__all__ = ["Asked", "Said", "work"]

GRACE = 5           # CPU seconds after which a worker that did not stop at its limit is killed by the system
AGAIN = 1.0         # CPU seconds between two tries to stop it
EVERY = 0.2         # seconds between two messages of progress
BEGIN = ("numpy", "sqlite3", "multiprocessing.queues", "astrarium.simulate")      # imported before the first request
FILES_MOST = 1 << 30        # bytes of a file that is written


class _OverError(BaseException):
    """The CPU time of an operation is used; no model catches it."""


class _CancelledError(BaseException):
    """The client has no more use for the operation; no model catches it."""


class Asked(Struct, frozen=True):
    """A request: the name of the operation, and its data."""

    operation: str
    request: msgspec.Raw


class Said(Struct, frozen=True, omit_defaults=True):
    """A message of the worker: progress, or the end."""

    progress: Progress | None = None
    answer: Answer | None = None
    refusal: Refusal | None = None


def work(wire: Connection, folder: Folder, limits: Limits, operations: Mapping[str, str]) -> None:
    """Answer requests until the other end is closed. `operations`: name -> "module:function"."""
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        _prepare(folder, limits)
        context, known = Context(folder, limits), dict[str, Callable[..., Answer]]()
        while True:
            asked = msgspec.json.decode(wire.recv_bytes(), type=Asked)
            if asked.operation not in known:
                module, _, name = operations[asked.operation].partition(":")
                known[asked.operation] = getattr(importlib.import_module(module), name)
            told = msgspec.structs.replace(context, tell=_Telling(wire))
            said = _answered(known[asked.operation], asked.request, told)
            wire.send_bytes(_encoded(said))


def _encoded(said: Said) -> bytes:
    """A message as JSON; an answer that is not plain data is a bug of the operation."""
    try:
        return msgspec.json.encode(said, enc_hook=_plain)
    except (TypeError, ValueError) as error:
        return msgspec.json.encode(_bug(error))


def _plain(value: Any) -> Any:
    """A value as its built-in class: rounded texts, quantities, numbers of NumPy."""
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not plain data")


def _prepare(folder: Folder, limits: Limits) -> None:
    """Put this process into the folder, with its limits; what it prints is not a message."""
    sys.dont_write_bytecode = True      # nothing is written beside modules
    signal.signal(signal.SIGINT, signal.SIG_IGN)        # the server ends it
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)       # no operation runs that it could interrupt
    os.dup2(2, 1)
    inside = folder.root.rstrip(os.sep) + os.sep
    sys.path[:] = [each for each in sys.path if each and not (os.path.realpath(each) + os.sep).startswith(inside)]
    for module in BEGIN:
        importlib.import_module(module)
    kinds()      # plug-ins of the user, who started the server
    os.chdir(folder.root)
    if sys.platform != "win32":
        import resource

        for kind, most in ((resource.RLIMIT_DATA, int(limits.memory)), (resource.RLIMIT_FSIZE, FILES_MOST),
                           (resource.RLIMIT_CORE, 0)):
            _, hard = resource.getrlimit(kind)
            least = most if hard == resource.RLIM_INFINITY else min(most, hard)
            with contextlib.suppress(ValueError, OSError):      # macOS has no such limit of data
                resource.setrlimit(kind, (least, hard))
    guard(folder.root)


class _Telling:
    """Sends progress, not too often."""

    def __init__(self, wire: Connection):
        self.wire, self.last = wire, 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self.last >= EVERY:
            self.last = now
            self.wire.send_bytes(msgspec.json.encode(Said(progress=progress), enc_hook=_plain))


def _answered(operation: Callable[..., Answer], data: msgspec.Raw, context: Context) -> Said:
    """The end of an operation, whatever happens in it."""
    kind, limits = typing.get_type_hints(operation)["request"], context.limits
    begun = time.process_time()
    try:
        with _limited(limits):
            request = msgspec.json.decode(data, type=kind)
            answer = operation(request, context)
        return Said(answer=msgspec.structs.replace(answer, result=None, seconds=round(time.process_time() - begun, 6)))
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        return Said(refusal=misread(error, kind.__struct_fields__))
    except RefusedError as error:
        return Said(refusal=error.refusal)
    except _CancelledError:
        return Said(refusal=Refusal("stopped", "it was cancelled"))
    except (_OverError, StoppedError):
        return Said(refusal=Refusal("limit", f"this takes more than {format_time(limits.seconds * 1e9)} of CPU time",
                                    expected=f"something smaller: {limits.text}"))
    except (MemoryError, RecursionError) as error:
        what = "takes more memory" if isinstance(error, MemoryError) else "is nested more deeply"
        return Said(refusal=Refusal("limit", f"this {what} than is allowed",
                                    expected=f"something smaller: {limits.text}"))
    except InternalError as error:
        return _bug(error)
    except AstrariumError as error:
        return Said(refusal=refusal(error))
    except OSError as error:
        return Said(refusal=Refusal("input", f"{error.filename or 'a file'}: {error.strerror or error}"))
    except Exception as error:
        return _bug(error)


def _bug(error: Exception) -> Said:
    import traceback

    traceback.print_exc()       # to the server's log
    return Said(refusal=Refusal("bug", f"{type(error).__name__} in Astrarium; its log has the lines to report"))


@contextlib.contextmanager
def _limited(limits: Limits) -> Iterator[None]:
    """Raise StoppedError in the block once this process has used its CPU time; the system ends a process that does not
    stop then."""
    import resource

    used = time.process_time()
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    last = int(used + limits.seconds) + GRACE
    resource.setrlimit(resource.RLIMIT_CPU, (last if hard == resource.RLIM_INFINITY else min(last, hard), hard))

    def over(*_: object) -> None:
        raise _OverError

    def cancelled(*_: object) -> None:
        raise _CancelledError

    before = signal.signal(signal.SIGPROF, over)
    signal.signal(signal.SIGUSR1, cancelled)
    signal.setitimer(signal.ITIMER_PROF, limits.seconds, AGAIN)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
