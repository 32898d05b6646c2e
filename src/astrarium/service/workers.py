"""The workers of a service: processes that run operations, and are replaced when they end."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import msgspec

from astrarium.errors import InputError
from astrarium.service.answer import Answer, Progress, Refusal, RefusedError
from astrarium.service.folder import Folder
from astrarium.service.limits import Limits
from astrarium.service.operations import OPERATIONS
from astrarium.service.worker import Asked, Said, work

__all__ = ["Call", "Workers", "folder_at"]

PATIENCE = 120.0        # seconds that a request waits for a worker
FAREWELL = 2.0


class Call:
    """A request that may be cancelled from another thread."""

    def __init__(self) -> None:
        self.cancelled = False
        self._worker: _Worker | None = None
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """End it: its worker is killed. What an operation writes (a study, a design) stays whole."""
        with self._lock:
            self.cancelled = True
            if self._worker is not None:
                self._worker.kill()

    def interrupt(self) -> None:
        """Ask it to end: its worker stays, with its caches. One that is at work outside the engine may not end soon."""
        with self._lock:
            if self._worker is not None:
                self._worker.interrupt()

    def given(self, worker: _Worker | None) -> None:
        """The worker that it has now."""
        with self._lock:
            self._worker = worker
            if self.cancelled and worker is not None:
                worker.kill()


class _Worker:
    """A process and its wire."""

    def __init__(self, folder: Folder, limits: Limits, operations: Mapping[str, str]):
        context = multiprocessing.get_context("spawn")
        self.wire, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, folder, limits, dict(operations)), daemon=True)
        self.process.start()
        theirs.close()
        self.lock = threading.Lock()

    def ask(self, asked: Asked, progress: Callable[[Progress], None] | None) -> Said:
        """The end of an operation. Raises EOFError or OSError where the process ended first."""
        self.wire.send_bytes(msgspec.json.encode(asked))
        while True:
            said = msgspec.json.decode(self.wire.recv_bytes(), type=Said)
            if said.progress is None:
                return said
            if progress is not None:
                progress(said.progress)

    def interrupt(self) -> None:
        """End its operation."""
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGUSR1)

    def kill(self) -> None:
        """End it now."""
        self.process.kill()

    def close(self) -> None:
        """Let it end."""
        with contextlib.suppress(OSError):
            self.wire.close()
        self.process.join(FAREWELL)
        if self.process.is_alive():
            self.process.kill()
            self.process.join(FAREWELL)


class Workers:
    """Runs operations in processes; for several threads at once. Use it in a `with` block.

    Args:
        folder: Where files are.
        limits: Of every operation.
        operations: Name -> "module:function"; further ones of a transport go here.
        count: Processes for operations; an operation waits while all of them are busy.
        studies: Processes more, each of which holds what belongs to one key, such as an open study; the one that was
            used least recently ends when there are more.
    """

    def __init__(self, folder: Folder, limits: Limits | None = None, *, operations: Mapping[str, str] = OPERATIONS,
                 count: int | None = None, studies: int = 4):
        self.folder, self.limits, self.operations = folder, limits or Limits(), operations
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(count or min(4, os.cpu_count() or 1)):
            self._idle.put(None)
        self._keyed: OrderedDict[str, _Worker] = OrderedDict()
        self._most, self._lock, self._closed = studies, threading.Lock(), False

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def call(self, operation: str, request: Any, *, key: str = "", progress: Callable[[Progress], None] | None = None,
             call: Call | None = None) -> Answer:
        """Run an operation.

        Args:
            operation: Its name.
            request: Its data: a struct of its class, or plain data, which is checked.
            key: If it is not empty, the worker that has this key.
            progress: Called in this thread.
            call: With which another thread may cancel it.

        Returns:
            The answer.

        Raises:
            RefusedError: For a wrong request, one beyond the limits, a cancelled one, and a bug of ours.
        """
        if operation not in self.operations:
            raise RefusedError(Refusal("input", f"there is no operation {operation[:60]!r}",
                                       expected="one of " + ", ".join(self.operations)))
        try:
            data = msgspec.json.encode(request)
        except (TypeError, RecursionError, msgspec.MsgspecError) as error:
            raise RefusedError(Refusal("input", f"is not plain data ({error})")) from None
        if len(data) > self.limits.request:
            raise RefusedError(Refusal("limit", f"the request has {len(data):,} bytes",
                                       expected=f"at most {self.limits.request:,}"))
        asked, own = Asked(operation, msgspec.Raw(data)), call or Call()
        said = self._with_key(key, asked, progress, own) if key else self._any(asked, progress, own)
        if said.refusal is not None or said.answer is None:
            raise RefusedError(said.refusal or Refusal("bug", "no answer"))
        return said.answer

    def warm(self) -> None:
        """Start the processes that are missing, without waiting for them."""
        started = []
        with contextlib.suppress(queue.Empty):
            while True:
                worker = self._idle.get_nowait()
                started.append(self._new() if worker is None or not worker.process.is_alive() else worker)
        for each in started:
            self._idle.put(each)

    def _any(self, asked: Asked, progress: Callable[[Progress], None] | None, call: Call) -> Said:
        """By a worker that is free, or a new one in the place of one that ended."""
        try:
            worker = self._idle.get(timeout=PATIENCE)
        except queue.Empty:
            raise RefusedError(Refusal("limit", "all workers are busy", expected="another try later")) from None
        try:
            if worker is None or not worker.process.is_alive():
                worker = self._new()
            said, alive = self._asked(worker, asked, progress, call)
        except BaseException:
            if worker is not None:
                worker.kill()
            self._idle.put(None)
            raise
        self._idle.put(worker if alive else None)
        return said

    def _with_key(self, key: str, asked: Asked, progress: Callable[[Progress], None] | None, call: Call) -> Said:
        with self._lock:
            worker = self._keyed.pop(key, None)
            if worker is None or not worker.process.is_alive():
                worker = self._new()
            self._keyed[key] = worker
            old = [self._keyed.pop(name) for name in list(self._keyed)[:-self._most]]
        for each in old:
            with each.lock:      # not in the middle of its work
                each.close()
        if not worker.lock.acquire(timeout=PATIENCE):
            raise RefusedError(Refusal("limit", f"{key} is busy", expected="another try later"))
        try:
            return self._asked(worker, asked, progress, call)[0]
        finally:
            worker.lock.release()

    def forget(self, key: str) -> None:
        """End the worker of a key."""
        with self._lock:
            worker = self._keyed.pop(key, None)
        if worker is not None:
            worker.close()

    def _new(self) -> _Worker:
        if self._closed:
            raise RefusedError(Refusal("stopped", "the service has ended"))
        return _Worker(self.folder, self.limits, self.operations)

    def _asked(self, worker: _Worker, asked: Asked, progress: Callable[[Progress], None] | None,
               call: Call) -> tuple[Said, bool]:
        """The end of an operation, and whether the worker lives."""
        call.given(worker)
        try:
            return worker.ask(asked, progress), True
        except (EOFError, OSError):
            worker.close()
            if call.cancelled:
                return Said(refusal=Refusal("stopped", "it was cancelled")), False
            if self._closed:
                return Said(refusal=Refusal("stopped", "the service has ended")), False
            return Said(refusal=Refusal("limit", "the process that worked on this was ended by the system",
                                        expected=f"something smaller: {self.limits.text}")), False
        finally:
            call.given(None)

    def close(self) -> None:
        """End all workers."""
        self._closed = True
        with self._lock:
            every = [*self._keyed.values()]
            self._keyed.clear()
        while True:
            try:
                every += [each for each in (self._idle.get_nowait(),) if each is not None]
            except queue.Empty:
                break
        for worker in every:
            worker.close()


def folder_at(path: str, limits: Limits, *, writable: bool = True) -> Folder:
    """The folder of a service. Raises InputError where there is none."""
    root = os.path.realpath(path)
    if not os.path.isdir(root) or root == os.sep:
        raise InputError("--folder", f"{path!r} is not a folder", expected="a folder for designs and studies")
    return Folder(root, limits.folder, writable)
