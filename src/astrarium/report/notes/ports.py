"""Where collectives of given time (`collective.model`) need a port for longer than the run takes, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from astrarium.report.tables.summary import rank_name
from astrarium.units import format_time

if TYPE_CHECKING:
    from astrarium.design import Design
    from astrarium.result import Result

__all__ = ["port_notes"]


def port_notes(design: Design, result: Result) -> Iterator[str]:
    """The port that is needed for longest, if the makespan is shorter."""
    if result.at_least_ps <= result.makespan_ps:
        return
    row, dim = result.ports.where
    needed, ends = format_time(result.ports.most / 1000), format_time(result.makespan_ps / 1000)
    rank = rank_name(result, int(result.first_ranks[row]))
    yield (f"collective.model: {design.collective.model}: {rank} needs its port of network.dims[{dim}] for "
           f"{needed}, and the run ends after {ends}, as collectives that run at once do not slow each other: it takes "
           f"at least {needed}, which figures and intervals count with (collective.model: simulated shares ports)")
