"""The only door of this room to the compiled core."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Plan
from astrarium.errors import InternalError, PluginError, StallError, TraceError, UnsupportedError

if TYPE_CHECKING:
    from astrarium.engine.plugins.given import Team


def _compiled() -> Any:
    """The compiled core, or None in a wheel without one: the pure-Python engine runs instead. A broken one raises."""
    try:
        return importlib.import_module("astrarium._core")
    except ModuleNotFoundError:
        return None


_core = _compiled()
HAVE_CORE = hasattr(_core, "execute")

__all__ = ["HAVE_CORE", "run", "run_with"]


def run(plan: Plan, *, record: bool, fold: bool) -> Outcome:
    """Run a Plan in the core; the GIL is released meanwhile."""
    try:
        answer = _core.execute(plan, record, fold)
    except (ValueError, TypeError) as error:
        raise InternalError(f"the engine refused its plan: {error}") from error
    except MemoryError as error:
        raise _too_large() from error
    if isinstance(answer, dict):
        return Outcome(**answer)
    kind, what = answer
    if kind == "stall":
        raise StallError(what)
    raise (TraceError if kind == "trace" else UnsupportedError)("workload", what)


def _too_large() -> UnsupportedError:
    return UnsupportedError("workload", "the run does not fit into this machine's memory", expected="fold auto with "
                            "network.backend closed_form, record off, fewer ranks, or fewer chunks at once")


def run_with(plan: Plan, team: Team, *, record: bool) -> Outcome:
    """Run a Plan with plug-ins in the core; every rank, every message."""
    from astrarium.engine.plugins.library import Library

    network, labels = team.network, team.labels
    memory = None if team.memory is None else team.memory.access_time
    pick = None if team.scheduling is None else team.scheduling.pick
    log: list[tuple[int, str]] = []
    if network is None:
        chosen: object = None
    else:
        chosen = (network.address, network.options) if isinstance(network, Library) else (network, team.network_name)
    try:
        answer = _core.execute_with(plan, record, chosen, memory, pick, team.patience, log)
    except (ValueError, TypeError) as error:
        raise InternalError(f"the engine refused its plan: {error}") from error
    except MemoryError as error:
        raise _too_large() from error
    for level, text in log:
        logging.getLogger(f"astrarium.plugins.{team.network_name}").log(level, "%s", text)
    if isinstance(answer, dict):
        return Outcome(**answer)
    kind, what = answer[:2]
    if kind == "raised":
        if not isinstance(what, Exception):
            raise what      # KeyboardInterrupt and its kin
        raise PluginError(labels[answer[2]], f"raised {type(what).__name__}: {what}") from what
    if kind == "plugin":
        raise PluginError(labels[answer[2]], what)
    if kind == "stall":
        raise StallError(what)
    raise (TraceError if kind == "trace" else UnsupportedError)("workload", what)
