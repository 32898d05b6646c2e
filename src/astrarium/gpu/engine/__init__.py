"""GPU kernels, simulated request by request (design/0021). Integers only: who makes a Launch knows units and names."""

from __future__ import annotations

from astrarium.gpu.engine.run import run_launch
from astrarium.gpu.engine.together import together
from astrarium.gpu.engine.values import Buffer, Finished, Launch, Machine, Operation, OpKind, Place, Stream, Workgroup

__all__ = ["Buffer", "Finished", "Launch", "Machine", "OpKind", "Operation", "Place", "Stream", "Workgroup",
           "run_launch", "together"]
