"""What answers the questions of a lowering: the models of a design, or plug-ins in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from astrarium.design import Design
from astrarium.memory.access import behind
from astrarium.memory.config import Memory

if TYPE_CHECKING:
    from astrarium.engine.plugins import CollectiveChoice, ComputeModel

__all__ = ["Models", "own_models"]


class Models(Struct, frozen=True, eq=False):
    """Answers of one lowering.

    `types`: per type of NPU, how long compute nodes take and what memory it has. `remote`: whether there is remote
    memory. `backend`: what moves the bytes. `choice`: who picks algorithms in place of the design; None: nobody.
    """

    types: tuple[tuple[ComputeModel, Memory], ...]
    remote: bool
    backend: str
    choice: CollectiveChoice | None = None


def own_models(design: Design) -> Models:
    """The models of a design without plug-ins."""
    types = [(design.compute, design.memory), *((kind.compute or design.compute, kind.memory or design.memory)
                                                for kind in design.npu_types)]
    if design.collective.kernels is not None:
        from astrarium.lower.units import on_free_units

        types = [(on_free_units(design, compute), memory) for compute, memory in types]
    return Models(tuple(types), behind(design.memory).kind != "none",
                  design.network.backend)
