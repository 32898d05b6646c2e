"""The verbs of this room: one lowering per rule book, in a table."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from astrarium.design import Design
from astrarium.engine.plan import Plan
from astrarium.lower.kept import Kept
from astrarium.lower.work import Given, work_of

if TYPE_CHECKING:
    from astrarium.engine.plugins import Plugins
    from astrarium.engine.plugins.work import RunContext, WorkSource

__all__ = ["LIVE", "LOWERINGS", "lower", "stage_of"]

LOWERINGS: Mapping[str, tuple[str, str]] = MappingProxyType({    # module and function, imported when first used
    "none": ("astrarium.lower.kinds", "lower_native"),
    "astra_sim": ("astrarium.astra_sim.design", "lower_astra_design"),
})
LIVE: Mapping[str, tuple[str, str]] = MappingProxyType({         # of workloads that decide as they run
    "none": ("astrarium.lower.live", "lower_live"),
    "astra_sim": ("astrarium.astra_sim.design", "no_live"),
})


def lower(design: Design, given: Given | None = None, plugins: Plugins | None = None, *,
          kept: Kept | None = None) -> Plan:
    """The Plan of a design of one workload. `given`: the traces that this names (`read_work` reads them), or what a
    generator made, or the Work of either; None where it has none. `plugins`: those of the run; its compute model and
    its choice of algorithms take effect here. `kept`: caches that it shares with others. Of jobs see `lower_jobs`.

    Raises InputError with the path of the field, TraceError with file, rank and node, UnsupportedError for what the
    rule book does not have.
    """
    return cast(Plan, _loaded(*LOWERINGS[design.compat])(design, work_of(design, given), plugins, kept or Kept()))


@functools.cache
def _loaded(module: str, function: str) -> Callable[..., object]:
    """A function of a table, imported when first used."""
    found: Callable[..., object] = getattr(importlib.import_module(module), function)
    return found


def stage_of(design: Design, plugins: Plugins | None = None,
             kept: Kept | None = None) -> tuple[WorkSource, RunContext]:
    """The source of one run of a design whose workload decides as it runs (`workload.config.Live`), and the stage that
    it runs on: what `engine.source.run_source` takes. Raises PluginError where the workload raises or asks for what
    there is not, UnsupportedError under a rule book that runs traces only."""
    return cast("tuple[WorkSource, RunContext]", _loaded(*LIVE[design.compat])(design, plugins, kept or Kept()))
