"""An agent outside this process: a program that reads messages from its standard input and answers on its output."""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import IO, Annotated, ClassVar

import msgspec

from astrarium.config import Knob
from astrarium.errors import InputError
from astrarium.search.agents.outside import LONGEST, Channel, Message, OutsideOptions

__all__ = ["Command"]

READ = 1 << 16
FAREWELL = 1.0          # seconds in which a program may end by itself
WHO = "agent command"


class Command(OutsideOptions, frozen=True, kw_only=True):
    """A program as an agent: lines of JSON, described in the guide on searches. Its answers are stored with the study
    before they run, and a study that goes on does not ask for them again."""

    tag: ClassVar[str] = "command"
    command: Annotated[str, Knob("The program and its arguments, as a shell splits them.")] = ""

    def channel(self) -> Callable[[], Channel]:
        """The program, which starts with the first request. Raises InputError without one."""
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise InputError("agent.command", f"{self.command!r} cannot be split ({error})") from None
        if not words:
            raise InputError("agent.command", "is missing", expected="--agent 'command:python my_agent.py'")
        return lambda: _Program(words, self.patience)


class _Program:
    """A running program and the two ends of its pipes."""

    def __init__(self, words: list[str], patience: float):
        self.name, self.patience, self.held = words[0], patience, b""
        try:
            self.child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise InputError(WHO, f"{self.name} cannot be started ({error.strerror or error})",
                             expected="a program that can run") from None
        self.inward, self.outward = _open(self.child.stdin), _open(self.child.stdout)

    def answer(self, messages: Sequence[Message]) -> bytes:
        """Send messages and return the next line. Raises InputError if the program ends, writes before it is asked,
        writes too much, or lets its time pass."""
        if self.held:
            raise InputError(WHO, f"{self.name} wrote more than one line for one request: {self.held[:80]!r}",
                             expected="one answer per ask, and logs on standard error")
        left, until = memoryview(_lines(messages)), time.monotonic() + self.patience
        with selectors.DefaultSelector() as ready:
            ready.register(self.outward, selectors.EVENT_READ)
            ready.register(self.inward, selectors.EVENT_WRITE)
            while left or b"\n" not in self.held:
                for key, _ in ready.select(max(0.0, until - time.monotonic())):
                    if key.fileobj is self.inward:
                        left = left[self._sent(left):]
                        if not left:
                            ready.unregister(self.inward)
                    else:
                        self._read()
                if time.monotonic() >= until:
                    raise InputError(WHO, f"{self.name} did not answer within {self.patience:g} s",
                                     expected="an answer, or a larger patience (--option patience=SECONDS)")
        line, _, self.held = self.held.partition(b"\n")
        return line

    def _sent(self, data: memoryview) -> int:
        try:
            return os.write(self.inward.fileno(), data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise self._gone() from None

    def _read(self) -> None:
        found = os.read(self.outward.fileno(), READ)
        if not found:
            raise self._gone()
        self.held += found
        if len(self.held) > LONGEST:
            raise InputError(WHO, f"an answer of {self.name} is longer than {LONGEST:,} bytes")

    def _gone(self) -> InputError:
        try:
            code = self.child.wait(FAREWELL)
        except subprocess.TimeoutExpired:
            return InputError(WHO, f"{self.name} closed its output", expected="a program that answers every request")
        return InputError(WHO, f"{self.name} ended with exit code {code} before it answered",
                          expected='a program that answers every request, or {"stop": true}')

    def end(self, messages: Sequence[Message]) -> None:
        """Say farewell, as far as the pipe takes it, and wait a moment before the program is stopped."""
        with contextlib.suppress(OSError):
            os.write(self.inward.fileno(), _lines(messages))
        self.inward.close()
        try:
            self.child.wait(FAREWELL)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.outward.close()


def _lines(messages: Sequence[Message]) -> bytes:
    return b"".join(msgspec.json.encode(each) + b"\n" for each in messages)


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    os.set_blocking(pipe.fileno(), False)
    return pipe
