"""How collectives run as GPU kernels: one kernel, and those of a design (`collective.kernels`)."""

from __future__ import annotations

from typing import Annotated, Literal

from astrarium.collective.kernels.device import Gpu
from astrarium.config import Config, Knob
from astrarium.registry import Kind
from astrarium.vocab import CommOp

__all__ = ["KernelTimes", "Kernels"]


class Kernels(Config, frozen=True):
    """How a collective runs as GPU kernels."""

    algorithm: Annotated[str, Knob("Which kernel.", choices=Kind("kernel"))] = "all_pairs"
    protocol: Annotated[Literal["simple", "ll"], Knob("simple: data, a fence, a semaphore. ll: every line carries its "
                                                      "flag, and twice the bytes move.")] = "simple"
    direction: Annotated[Literal["put", "get"], Knob("put: write to peers. get: read from them.")] = "put"
    workgroups: Annotated[int, Knob("Workgroups that share every chunk.", ge=1)] = 16
    wavefronts: Annotated[int, Knob("Wavefronts of a workgroup.", ge=1)] = 8
    unroll: Annotated[int, Knob("Instructions of a wavefront in a step of its loop.", ge=1)] = 4

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.algorithm} {self.protocol} {self.direction}"


Choice = Annotated[Kernels | None, Knob("Its kernel; none: its messages or the timer say how long it takes.")]


class KernelTimes(Config, frozen=True, kw_only=True):
    """Which operations inside the innermost dim take the time of a GPU kernel, simulated alone: collectives of groups
    that lie there, and phases there of collectives over several dims."""

    gpu: Annotated[Gpu, Knob("What the kernels run on, ports and links to the other GPUs included.")]
    all_reduce: Choice = None
    all_gather: Choice = None
    reduce_scatter: Choice = None
    all_to_all: Choice = None

    def of(self, op: CommOp) -> Kernels | None:
        """The kernel of an operation; None: it has none."""
        return getattr(self, op.name.lower(), None)
