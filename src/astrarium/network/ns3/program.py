"""The program at the other end of the pipe: found, started, spoken to in frames, and ended."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import struct
import subprocess
import sysconfig
import time
import weakref
from collections.abc import Sequence
from pathlib import Path

from astrarium.errors import PluginError

__all__ = ["NAME", "VARIABLE", "WHO", "Program", "find", "path_of"]

NAME = "astrarium-ns3"
VARIABLE = "ASTRARIUM_NS3"      # names the program where it is elsewhere
WHO = "network ns3"
LONGEST = 1 << 22               # bytes of a frame that comes
SAID = 2000                     # last bytes of its stderr that are kept
GRACE_S = 2.0                   # to end by itself
Frame = tuple[bytes, memoryview]


def find(program: str | None = None) -> str | None:
    """The path of the program: the one that is named, else of the variable ASTRARIUM_NS3, beside this Python, in a
    checkout of the source, on PATH; None where there is none."""
    named = program or os.environ.get(VARIABLE)
    if named:
        return named if os.path.isfile(named) else None
    checkout = Path(__file__).resolve().parents[4] / "ns3" / "build"
    for folder in (sysconfig.get_path("scripts"), str(checkout)):
        path = os.path.join(folder, NAME)
        if os.path.isfile(path):
            return path
    return shutil.which(NAME)


def path_of(program: str | None = None) -> str:
    """The path of the program. Raises PluginError where it is not built."""
    path = find(program)
    if path is None:
        named = program or os.environ.get(VARIABLE)
        what = f"{named} is not there" if named else f"its program {NAME} is not built"
        raise PluginError(WHO, f"{what}; in a checkout of the source `make ns3` builds it (Debian: apt-get install "
                          f"libns3-dev libgsl-dev libxml2-dev libsqlite3-dev), network.ns3.program or {VARIABLE} say "
                          "where it is")
    return path


class Program:
    """A running program. `patience_s`: how long it may say nothing. It ends with this object, or with this process."""

    def __init__(self, path: str, patience_s: float) -> None:
        self._patience = patience_s
        self._coming, self._said = bytearray(), bytearray()
        try:
            self._child = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, bufsize=0)
        except OSError as error:
            raise PluginError(WHO, f"{path} does not start: {error}") from error
        pipes = self._child.stdin, self._child.stdout, self._child.stderr
        self._in, self._out, self._err = (pipe.fileno() for pipe in pipes if pipe is not None)
        for file in (self._in, self._out, self._err):
            os.set_blocking(file, False)
        self._talk, self._listen = selectors.DefaultSelector(), selectors.DefaultSelector()
        self._talk.register(self._in, selectors.EVENT_WRITE)
        self._listen.register(self._out, selectors.EVENT_READ)
        self._listen.register(self._err, selectors.EVENT_READ)
        self.end = weakref.finalize(self, _end, self._child, (self._talk, self._listen))
        """Ends the program, once; it leaves no zombie."""

    @property
    def pid(self) -> int:
        """Process id of the program."""
        return self._child.pid

    def write(self, kind: bytes, body: bytes) -> None:
        """Send a frame. Raises PluginError where the program does not take it."""
        left = memoryview(struct.pack("<I", len(body) + 1) + kind + body)
        while left:
            self._wait(self._talk, time.monotonic())
            try:
                left = left[os.write(self._in, left):]
            except BrokenPipeError:
                raise self._dead() from None

    def read(self) -> Frame:
        """(kind, body) of the next frame. Raises PluginError where none comes, or what comes is none."""
        since = time.monotonic()
        while (frame := self._frame()) is None:
            ready = self._wait(self._listen, since)
            if self._err in ready:
                self._hear()
            if self._out in ready:
                if not self._take():
                    raise self._dead()
                since = time.monotonic()
        return frame

    def fault(self, message: str) -> PluginError:
        """The program is ended; the error that says why."""
        self.end()
        said = bytes(self._said).decode("utf-8", "replace").strip()
        return PluginError(WHO, message + (f"; it said: {said}" if said else ""))

    def _frame(self) -> Frame | None:
        if len(self._coming) < 4:
            return None
        length = struct.unpack_from("<I", self._coming)[0]
        if not 1 <= length <= LONGEST:
            raise self.fault(f"the program sends a frame of {length} bytes: it does not speak this protocol")
        if len(self._coming) < 4 + length:
            return None
        frame = bytes(self._coming[4:4 + length])
        del self._coming[:4 + length]
        return frame[:1], memoryview(frame)[1:]

    def _wait(self, selector: selectors.BaseSelector, since: float) -> set[int]:
        """The files that are ready."""
        while True:
            left = since + self._patience - time.monotonic()
            if left <= 0:
                raise self.fault(f"the program has said nothing for {self._patience:g} s (network.ns3.patience)")
            if ready := {key.fd for key, _ in selector.select(left)}:
                return ready

    def _take(self) -> bool:
        """Read what has come; False at its end."""
        data = os.read(self._out, 1 << 16)
        self._coming += data
        return bool(data)

    def _hear(self) -> None:
        data = os.read(self._err, 1 << 16)
        if not data:
            self._listen.unregister(self._err)
        self._said = (self._said + data)[-SAID:]

    def _dead(self) -> PluginError:
        """It closed a pipe: it died, or is about to. Its last words may be there."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(GRACE_S)
        with contextlib.suppress(BlockingIOError):
            while self._err in self._listen.get_map():
                self._hear()
        with contextlib.suppress(BlockingIOError):
            while len(self._coming) < LONGEST and self._take():
                pass
        while frame := self._frame():
            if frame[0] == b"E":
                return self.fault(bytes(frame[1]).decode("utf-8", "replace"))
        status = self._child.poll()
        how = "closed the pipe" if status is None else f"was ended by signal {-status}" if status < 0 else \
            f"ended with status {status}"
        return self.fault(f"the program {how}")


def _end(child: subprocess.Popen[bytes], opened: Sequence[selectors.BaseSelector]) -> None:
    for selector in opened:
        selector.close()
    for pipe in (child.stdin, child.stdout, child.stderr):
        assert pipe is not None
        with contextlib.suppress(OSError):
            pipe.close()
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
