"""The verb of this room: one lowering per rule book, in a table."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from astrarium.design import Design
from astrarium.engine.plan import Plan

if TYPE_CHECKING:
    from astrarium.collective.lower import ScheduleCache
    from astrarium.engine.plugins import Plugins
    from astrarium.lower.native_work import Work
    from astrarium.trace.columns import Traces
    from astrarium.trace.work import Generated

__all__ = ["LOWERINGS", "lower"]

LOWERINGS: Mapping[str, tuple[str, str]] = MappingProxyType({    # module and function, imported when first used
    "none": ("astrarium.lower.native", "lower_native"),
    "astra_sim": ("astrarium.lower.native_astra", "lower_astra_design"),
})


def lower(design: Design, traces: Traces | Generated | Work | None = None, plugins: Plugins | None = None, *,
          schedules: ScheduleCache | None = None) -> Plan:
    """The Plan of a design. `traces` are those that its workload names (`simulate` reads them), or what a generator
    made, or the Work of either; None where it has none. `plugins`: those of the run; its compute model and its choice
    of algorithms take effect here. `schedules` keeps collectives' schedules for the next call.

    Raises InputError with the path of the field, TraceError with file, rank and node, UnsupportedError for what the
    rule book does not have.
    """
    module, function = LOWERINGS[design.compat]
    return cast(Plan, getattr(importlib.import_module(module), function)(design, traces, plugins, schedules))
