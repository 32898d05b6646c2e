"""A line of progress on standard error, and what it says of a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from astrarium.cli.arguments import note

if TYPE_CHECKING:
    from astrarium.engine import Limit

__all__ = ["Counted", "Line", "Running", "clock"]

SOON, EVERY, RARELY = 1.0, 2.0, 60.0      # seconds before the first line, between two, at most where each is a line
THOUSANDS = ((1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, ""))


class Line:
    """A line of progress, drawn by a separate thread, however long a step takes: on a terminal it overwrites itself;
    elsewhere there is none, or with `everywhere` lines follow each other, ever more rarely."""

    def __init__(self, stream: Any, text: Callable[[], str | None], *, everywhere: bool = False):
        """`text`: what to say now; None: nothing yet."""
        self.stream, self.text = stream, text
        self._over = bool(stream.isatty())
        self._width, self._pause = 0, SOON if self._over else EVERY
        self._end, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._draw, daemon=True) if self._over or everywhere else None

    def __enter__(self) -> Line:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        self._clear()

    def note(self, text: str) -> None:
        """A remark to stderr, on a separate line."""
        with self._lock:
            self._clear()
            note(text)

    def _clear(self) -> None:
        if self._width:
            self.stream.write("\r" + " " * self._width + "\r")
            self.stream.flush()
            self._width = 0

    def _draw(self) -> None:
        while not self._end.wait(self._pause):
            text = self.text()
            if text is None:
                continue
            with self._lock:
                if self._over:
                    self.stream.write("\r" + text.ljust(self._width))
                    self._width = len(text)
                else:
                    self.stream.write(f"astrarium: {text}\n")
                    self._pause = min(2 * self._pause, RARELY)
                self.stream.flush()


class Running:
    """How far the runs under a limit are: simulated time, events, events per second since it was asked before."""

    def __init__(self, limit: Limit):
        self.limit, self._start = limit, time.monotonic()
        self._then, self._events = self._start, 0

    def __call__(self) -> str:
        from astrarium.units import format_time

        now, (ps, events) = time.monotonic(), self.limit.progress
        rate, self._then, self._events = (events - self._events) / (now - self._then), now, events
        words = [f"{format_time(ps / 1e3)} simulated"] if ps or events else []      # ns-3 tells of no events
        words += [f"{_amount(events)} events", f"{_amount(rate)} events/s"] if events else []
        return "running: " + ", ".join([*words, clock(now - self._start)])


class Counted:
    """How many of something are done."""

    def __init__(self) -> None:
        self.text, self._start = "", time.monotonic()

    def show(self, done: int, total: int, what: str) -> None:
        """`done` of `total` of `what`."""
        self.text = f"{done:,} of {total:,} {what}, "

    def __call__(self) -> str:
        return f"{self.text}{clock(time.monotonic() - self._start)}"


def _amount(number: float) -> str:
    """1,234,567 as `1.23 M`."""
    size, unit = next((each for each in THOUSANDS if number >= each[0]), THOUSANDS[-1])
    return f"{number / size:.3g}{unit}"


def clock(seconds: float) -> str:
    """1:02:03, or 2:03."""
    hours, rest = divmod(int(seconds), 3600)
    return (f"{hours}:{rest // 60:02d}" if hours else f"{rest // 60}") + f":{rest % 60:02d}"
