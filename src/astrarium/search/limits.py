"""Limits of CPU time and memory for one design. A design that exceeds a limit is a trial without values."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from astrarium.engine import Limit
from astrarium.errors import InputError, StoppedError
from astrarium.units import Bytes, Time, format_bytes, format_time

__all__ = ["NO_LIMITS", "STOPPED", "Guard", "Limits", "limits_of"]

Found = TypeVar("Found")
STOPPED = "stopped at its limit"      # how the reasons of such trials begin
DATA = 5        # place in /proc/self/statm of the pages that a process may write to


class Limits(Struct, frozen=True):
    """`seconds` of CPU time of the design's thread, `memory` in bytes beyond what the process holds when a design
    begins; None: no limit."""

    seconds: float | None = None
    memory: float | None = None

    def slow(self) -> StoppedError:
        """The error of a design that exceeds the CPU time."""
        return StoppedError(f"{STOPPED} of {format_time((self.seconds or 0.0) * 1e9)} of CPU time")

    def large(self) -> StoppedError:
        """The error of a design that exceeds the memory."""
        return StoppedError(f"{STOPPED} of {format_bytes(self.memory or 0.0)} of memory")


NO_LIMITS = Limits()


def limits_of(given: str | Sequence[str] | Limits) -> Limits:
    """Make limits of user input: "10 s", "8 GB", or both. Raises InputError for anything else."""
    if isinstance(given, Limits):
        return given
    found: dict[str, float] = {}
    for text in (given,) if isinstance(given, str) else given:
        name, value = _limit(text)
        if name in found:
            raise InputError("limit", f"{text!r} is a second limit of its kind", expected="one of time, one of memory")
        found[name] = value
    if "memory" in found and sys.platform != "linux":
        raise InputError("limit", "memory cannot be limited on this system", expected="a time, or Linux")
    return Limits(**found)


def _limit(text: object) -> tuple[str, float]:
    for name, kind, scale in (("seconds", Time, 1e-9), ("memory", Bytes, 1.0)):
        try:
            value = float(kind(text)) * scale if isinstance(text, str) else 0.0
        except InputError:
            continue
        if value > 0:
            return name, value
    raise InputError("limit", f"{text!r} is not a limit", expected='a time such as "10 s", or memory such as "8 GB"')


class Guard:
    """Runs steps of designs within limits. Several threads may share a guard unless memory is limited."""

    def __init__(self, limits: Limits = NO_LIMITS):
        self.limits, self._runs = limits, Limit()

    def stop(self) -> None:
        """End every step, now and later, with KeyboardInterrupt."""
        self._runs.stop()

    def step(self, work: Callable[[], Found], taken: float) -> tuple[Found, float]:
        """Run `work`, a step of a design whose earlier steps took `taken` CPU seconds. Returns its result and the CPU
        seconds of all steps. Raises what `work` raises, and StoppedError beyond a limit."""
        limits, start = self.limits, time.thread_time()
        self._runs.begin(None if limits.seconds is None else limits.seconds - taken)
        try:
            found = work() if limits.memory is None else _within(limits.memory, work)
        except StoppedError:
            raise limits.slow() from None
        except (MemoryError, InputError) as error:
            if limits.memory is None or not _of_memory(error):
                raise
            raise limits.large() from None
        finally:
            self._runs.end()
        taken += time.thread_time() - start
        if limits.seconds is not None and taken > limits.seconds:
            raise limits.slow()
        return found, taken


def _within(memory: float, work: Callable[[], Found]) -> Found:
    """Run `work` while the process may allocate at most `memory` bytes more."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = _data() + int(memory)
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
        return work()
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _of_memory(error: BaseException | None) -> bool:
    """Whether the cause of an error was a lack of memory."""
    return error is not None and (isinstance(error, MemoryError) or _of_memory(error.__cause__))


def _data() -> int:
    """The writable bytes of this process."""
    import resource

    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[DATA]) * resource.getpagesize()
