"""The only door of this room to the compiled core."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from astrarium.engine.attached import run_attached
from astrarium.engine.outcome import Outcome, Record, outcome_of
from astrarium.engine.plan import Kind, Plan
from astrarium.errors import (
    AstrariumError,
    BeyondError,
    InternalError,
    PluginError,
    StallError,
    TraceError,
    UnsupportedError,
    Wait,
)

if TYPE_CHECKING:
    from astrarium.engine.plugins.feeder import Feeder
    from astrarium.engine.plugins.given import Team
    from astrarium.engine.plugins.work import Work
    from astrarium.engine.strides import Stride


def _compiled() -> Any:
    """The compiled core, or None in a wheel without one: the pure-Python engine runs instead. A broken one raises."""
    try:
        return importlib.import_module("astrarium._core")
    except ModuleNotFoundError:
        return None


_core = _compiled()
HAVE_CORE = hasattr(_core, "execute")
EVENT_S = (50e-9, 200e-9)       # of a run of every rank; measured with benchmarks/layouts.py --check, and beyond caches
WORTH_A_WORD = 2e7              # events, about a second
NEVER = 2**63 - 1     # ps: no limit
FEEDER = 3      # whose label stands fourth: it says itself what is wrong

__all__ = ["HAVE_CORE", "Measurements", "core_limit", "core_only", "limit_thread", "pace", "run", "run_fed", "run_with",
           "show_progress"]


def core_only(path: str) -> UnsupportedError:
    """The refusal of ASTRA-sim's rules where the pure-Python engine would run; `path`: what asks for them."""
    return UnsupportedError(path, "ASTRA-sim's rules run in the compiled core only, not in the pure-Python engine",
                            expected="an installation with the compiled core (`pip install` where there is a C++20 "
                            "compiler), or compat: none")


def core_limit() -> Any:
    """What ends runs in the core; None without one."""
    return _core.Limit() if HAVE_CORE else None


def limit_thread(limit: Any, until: int) -> None:
    """Runs of this thread end once `limit` is stopped, or at `until` (ns of the thread's CPU clock; 0: never)."""
    if HAVE_CORE:
        _core.limit_thread(limit, until)


def show_progress(now: int) -> None:
    """Say to this thread's limit, if it has one, that its run is at `now`, ps."""
    if HAVE_CORE:
        _core.count_progress(now, 0)


class Measurements:
    """Times of collectives, which folded runs find, cached by content for later runs in about `most` bytes; and which
    ranks are equal, for Plans with the same read-only arrays. For several threads at once. The integers of a run do not
    depend on it."""

    def __init__(self, most: int = 3 << 25) -> None:
        self.core: Any = _core.Measurements(most) if HAVE_CORE else None


def run(plan: Plan, *, record: Record, fold: bool, kept: Measurements | None = None, hurried: bool = False,
        note: Callable[[str], None] | None = None, most: int | None = None) -> Outcome:
    """Run a Plan in the core; the GIL is released meanwhile. `hurried`: where a folded run does not end, the StallError
    comes at once and has no sentences. `note`, `most`: see engine.execute."""
    if plan.attached:
        return run_attached(plan, partial(run, record=record, fold=fold, kept=kept, hurried=hurried, note=note,
                                          most=most))
    given_up = None if note is None else partial(_given_up, note)
    try:
        answer = _core.execute(plan, record is True, fold, None if kept is None else kept.core, hurried, given_up,
                               record == "nodes", NEVER if most is None else most)
    except (ValueError, TypeError) as error:
        raise InternalError(f"the engine refused its plan: {error}") from error
    except MemoryError as error:
        raise _too_large() from error
    if isinstance(answer, dict):
        return outcome_of(answer)
    raise _of_the_run(*answer)


def _given_up(note: Callable[[str], None], why: str, events: float, memory: float) -> None:
    """Say, before it begins, what a run of every rank takes."""
    if events >= WORTH_A_WORD:
        note(f"every rank will be simulated, because of {why}: about {events:.2g} events, {events * EVENT_S[0]:.2g} to "
             f"{events * EVENT_S[1]:.2g} s, {memory / 1e9:.2g} GB")


def pace(phases: Sequence[Sequence[Stride]], paths: Sequence[Sequence[int]], chunks: Sequence[int], limit: int,
         entry: float) -> float:
    """When the last of a collective's chunks ends, in ns: see `engine.strides.pace`."""
    time: float = _core.pace(phases, paths, chunks, limit, entry)
    return time


def _too_large() -> UnsupportedError:
    return UnsupportedError("workload", "the run does not fit into this machine's memory", expected="fold auto with "
                            "network.backend closed_form, record off, fewer ranks, or fewer chunks at once")


def run_with(plan: Plan, team: Team, *, record: bool) -> Outcome:
    """Run a Plan with plug-ins in the core; every rank, every message."""
    if plan.attached:
        return run_attached(plan, partial(run_with, team=team, record=record))
    return outcome_of(_with(plan, team, record))


def run_fed(plan: Plan, feeder: Feeder, team: Team) -> dict[str, Any]:
    """Run what a workload plug-in hands out on a Plan of empty programs: columns of an Outcome, but times [works] in
    order of hand-out."""
    return _with(plan, team, True, feeder)


def _rows(works: Sequence[Work]) -> list[tuple[int, ...]]:
    """What the core reads of each work."""
    return [(w.rank, w.id, w.kind, w.lane, w.duration, w.size, w.collective, w.group, w.priority)
            if w.kind == Kind.COLLECTIVE else (w.rank, w.id, w.kind, w.lane, w.duration, w.size, w.peer, w.tag, 0)
            for w in works]


def _with(plan: Plan, team: Team, record: bool, feeder: Feeder | None = None) -> dict[str, Any]:
    from astrarium.engine.plugins.library import Library

    network, labels = team.network, [*team.labels]
    memory = None if team.memory is None else team.memory.access_time
    pick = None if team.scheduling is None else team.scheduling.pick
    work = None
    if feeder is not None:
        labels.append(feeder.who)
        work = (lambda: _rows(feeder.start())), (lambda rank, node, now: _rows(feeder.completed(rank, node, now)))
    log: list[tuple[int, str]] = []
    if network is None:
        chosen: object = None
    else:
        chosen = (network.address, network.options) if isinstance(network, Library) else (network, team.network_name)
    try:
        answer = _core.execute_with(plan, record, chosen, memory, pick, work, team.patience, log)
    except (ValueError, TypeError) as error:
        raise InternalError(f"the engine refused its plan: {error}") from error
    except MemoryError as error:
        raise _too_large() from error
    for level, text in log:
        import logging

        logging.getLogger(f"astrarium.plugins.{team.network_name}").log(level, "%s", text)
    return answer if isinstance(answer, dict) else _failed(answer, labels)


def _failed(answer: tuple[Any, ...], labels: Sequence[str]) -> Any:
    """Raise what a run with plug-ins ended with."""
    kind, what = answer[:2]
    if kind == "raised":
        said = answer[2] == FEEDER and isinstance(what, AstrariumError)
        if said or not isinstance(what, Exception):
            raise what      # KeyboardInterrupt and its kin
        raise PluginError(labels[answer[2]], f"raised {type(what).__name__}: {what}") from what
    if kind == "plugin":
        raise PluginError(labels[answer[2]], what)
    raise _of_the_run(kind, what)


def _of_the_run(kind: str, what: Any) -> AstrariumError:
    """The error of a run that ended without an outcome."""
    if kind == "stall":
        return StallError([Wait(*each) for each in what])
    if kind == "over":
        return BeyondError(what)
    message, rank, node, name = what
    return (TraceError if kind == "trace" else UnsupportedError)("workload", message, rank=rank, node=node, name=name)
