"""Ends runs before their end: after some CPU time of their thread, or when another thread says so."""

from __future__ import annotations

import time

from astrarium.engine._native import core_limit, limit_thread, show_progress

__all__ = ["Limit", "show_progress"]


class Limit:
    """For runs of several threads at once. Each thread calls `begin` before its runs and `end` after them. The
    pure-Python engine ends its run first."""

    def __init__(self) -> None:
        self.stopped = False
        self._core = core_limit()

    def stop(self) -> None:
        """End all runs between a `begin` and its `end`, now and later; they raise KeyboardInterrupt."""
        self.stopped = True
        if self._core is not None:
            self._core.stop()

    @property
    def progress(self) -> tuple[int, int]:
        """How far the compiled core's runs between a `begin` and its `end` are: simulated time in ps (of one that is
        running), events of all so far, both about; (0, 0) without a core."""
        now, events = (0, 0) if self._core is None else self._core.progress
        return int(now), int(events)

    def begin(self, seconds: float | None = None) -> None:
        """From here on, runs of this thread raise StoppedError once it took `seconds` of CPU time (None: never)."""
        if self.stopped:
            raise KeyboardInterrupt
        limit_thread(self._core, 0 if seconds is None else max(1, time.thread_time_ns() + round(seconds * 1e9)))

    def end(self) -> None:
        """Nothing ends the runs of this thread any more."""
        limit_thread(None, 0)
