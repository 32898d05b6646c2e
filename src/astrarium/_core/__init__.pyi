"""
Compiled core of Astrarium: private, without a compatibility promise. Use the astrarium package.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

from astrarium._core import trace as trace


class Measurements:
    """
    Times of collectives, cached for later runs in at most so many bytes; and which ranks are equal.
    """

    def __init__(self, most: int) -> None: ...

def execute(plan: object, record: bool = False, fold: bool = True, kept: Measurements | None = None, hurried: bool = False, given_up: object | None = None, nodes: bool = False, most: int = 9223372036854775807) -> object:
    """
    Runs a Plan; a dict of the Outcome's columns, or (kind of error, message).
    """

def pace(phases: Sequence[Sequence[tuple[int, float, float, int]]], paths: Sequence[Sequence[int]], chunks: Sequence[int], limit: int, entry: float) -> float:
    """
    When the last of a collective's chunks ends at one NPU, in ns; see engine/strides.py.
    """

class Callback:
    """The callback of one sim_send or sim_recv of a network plug-in."""

    def __call__(self) -> None: ...

def execute_with(plan: object, record: bool, network: object | None, memory: object | None, pick: object | None, work: object | None, patience: int, log: list) -> object:
    """
    Runs a Plan with plug-ins; a dict of the Outcome's columns, or (kind of error, message, ...).
    """

class Limit:
    """What ends the runs of several threads."""

    def __init__(self) -> None: ...

    def stop(self) -> None:
        """End all runs under this limit, now and later."""

    @property
    def stopped(self) -> bool:
        """Whether they are to end."""

    @property
    def progress(self) -> tuple[int, int]:
        """How far the runs are: simulated time in ps, events of all so far."""

def count_progress(now: int, more: int) -> None:
    """
    Says to this thread's limit, where it has one, that its run is at `now` (ps) after `more` events.
    """

def limit_thread(limit: Limit | None, until: int) -> None:
    """
    Runs of this thread end once `limit` is stopped, or at `until` (ns of the thread's CPU clock; 0: never).
    """

def launch(machine: object, counts: Sequence[int], ends: Sequence[int], buffers: Sequence[tuple[int, int]], streams: Sequence[tuple[int, int, int, int, int, Sequence[int]]], grids: Sequence[tuple[Sequence[int], Sequence[int], Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]]], starts: Sequence[int], ports: Sequence[Sequence[int]], fold: bool, threads: int, record: int) -> object:
    """
    Runs GPU kernels: (waits of a run that cannot go on, workgroups without a place, one row per simulated GPU, events).
    """
