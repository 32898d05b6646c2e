"""From a workload to what every rank runs: one line per kind of workload that is generated."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from astrarium.errors import InputError
from astrarium.trace.work import Generated
from astrarium.vocab import Placed
from astrarium.workload.config import Live, Trace, Workload
from astrarium.workload.jobs import Jobs

if TYPE_CHECKING:
    from astrarium.workload.graph import Forms

__all__ = ["GENERATORS", "generate"]

GENERATORS: Mapping[str, str] = MappingProxyType({
    "transformer": "astrarium.workload.training:training",
    "inference": "astrarium.workload.inference.passes:inference",
    "disaggregated": "astrarium.workload.inference.transfers:disaggregated",
    "micro": "astrarium.workload.micro_patterns:micro",
    "collective": "astrarium.workload.micro_patterns:single",
})
"""Tag of a workload -> the function that makes it. One that has no `ranks` of its own is told how many there are."""

SHARING = frozenset({"transformer"})
"""Those whose function takes Forms, and where tensors are placed."""


def generate(workload: Workload, ranks: int | None = None, forms: Forms | None = None,
             placed: Placed | None = None) -> Generated:
    """What `ranks` ranks run (left out: as many as the workload needs). `forms` keeps what it has in common with other
    workloads: give the same one to each of many. `placed` says which memory holds the tensors of training.

    Raises InputError for a workload that is not generated, where the numbers of ranks differ, and where a size of the
    model does not divide.
    """
    if workload.tag not in GENERATORS and not isinstance(workload, (Trace, Jobs, Live)):
        raise InputError("workload.source", f"nothing says what the ranks of {workload.tag!r} do: its class "
                         f"{type(workload).__name__} is no astrarium.workload.config.Live",
                         expected="a plug-in's class below Live, with a method feed(self, desk)")
    if workload.tag not in GENERATORS:
        raise InputError("workload.source", f"{workload.tag!r} is not generated",
                         expected="one of " + ", ".join(GENERATORS))
    module, _, name = GENERATORS[workload.tag].partition(":")
    made: Callable[..., Generated] = getattr(importlib.import_module(module), name)
    needed: int | None = getattr(workload, "ranks", None)
    if needed is None:
        if ranks is None:
            raise InputError("workload", "is of any number of ranks", expected="the ranks of a design")
        return made(workload, ranks)
    if ranks is not None and needed != ranks:
        raise InputError("workload", f"is of {needed} ranks", expected=f"{ranks}, the ranks of the design")
    return made(workload, forms, placed) if workload.tag in SHARING else made(workload)
