"""How one workload is lowered under our own rules: as its graph says or as recorded, with plug-ins or without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from astrarium.design import Design
from astrarium.engine.plan import Plan
from astrarium.lower.deadlock import without_deadlock
from astrarium.lower.models import own_models
from astrarium.lower.plan import lower_work
from astrarium.lower.plugins import has_medium, models_of
from astrarium.lower.work import Work
from astrarium.trace.columns import Traces

if TYPE_CHECKING:
    from astrarium.engine.plugins import Plugins
    from astrarium.lower.kept import Kept

__all__ = ["lower_native"]


def lower_native(design: Design, work: Work, plugins: Plugins | None, kept: Kept, groups: int | None = None) -> Plan:
    """The Plan of a design with `compat: none`. `groups`: process groups of a rank of all jobs, where the work is that
    of one of several (which `lower_jobs` joins and looks for deadlocks)."""
    count = work.process_groups if groups is None else groups
    if plugins is None and has_medium(design):
        models = own_models(design)
    else:
        models, work = models_of(design, plugins), replace(work)    # caches of its own: what plug-ins say is no content
    if isinstance(work.source, Traces):
        from astrarium.lower.recorded import as_recorded  # generated workloads start without it
        from astrarium.lower.recorded_meetings import lower_meetings

        work, meetings = as_recorded(design, work, work.source, count)
        if meetings:
            return lower_meetings(design, work, models, meetings, count)
    plan = lower_work(design, work, models, kept, count)
    return without_deadlock(design, plan) if groups is None else plan
