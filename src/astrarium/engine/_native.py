"""The only door of this room to the compiled core."""

from __future__ import annotations

from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Plan
from astrarium.errors import InternalError, StallError, TraceError, UnsupportedError

try:
    from astrarium import _core
except ImportError:  # a wheel without the compiled core: the pure-Python engine runs instead
    HAVE_CORE = False
else:
    HAVE_CORE = hasattr(_core, "execute")

__all__ = ["HAVE_CORE", "run"]


def run(plan: Plan, *, record: bool, fold: bool) -> Outcome:
    """Run a Plan in the core; the GIL is released meanwhile."""
    try:
        answer = _core.execute(plan, record, fold)
    except (ValueError, TypeError) as error:
        raise InternalError(f"the engine refused its plan: {error}") from error
    if isinstance(answer, dict):
        return Outcome(**answer)
    kind, what = answer
    if kind == "stall":
        raise StallError(what)
    raise (TraceError if kind == "trace" else UnsupportedError)("workload", what)
