"""How collectives run as GPU kernels: one kernel, and those of a design (`collective.kernels`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, get_args

from astrarium.config import Config, Knob, default
from astrarium.config.named import Shorthand
from astrarium.gpu.kernels.device import Gpu
from astrarium.registry import Kind
from astrarium.units import Time
from astrarium.vocab import CommOp

__all__ = ["KernelTimes", "Kernels", "Library"]


class Kernels(Config, frozen=True):
    """How a collective runs as GPU kernels."""

    algorithm: Annotated[str, Knob("Which kernel.", choices=Kind("kernel"))] = "all_pairs"
    protocol: Annotated[Literal["simple", "ll", "ll128", "lamport"], Knob(
        "simple: data, a fence, a semaphore. ll: every 8 bytes are half data, half flag. ll128: a flag of 8 bytes ends "
        "every line. lamport: a value that data never have marks what has not come.")] = "simple"
    direction: Annotated[Literal["put", "get"], Knob("put: write to peers. get: read from them.")] = "put"
    workgroups: Annotated[int, Knob("Workgroups that share every chunk; of copy_engine: engines.", ge=1)] = 16
    wavefronts: Annotated[int, Knob("Wavefronts of a workgroup; of copy engines: what they may have outstanding counts."
                                    , ge=1)] = 8
    unroll: Annotated[int, Knob("Instructions of a wavefront in a step of its loop; not of copy engines.", ge=1)] = 4
    places: Annotated[int, Knob("Of a unit's places for workgroups, those that one takes (its share of registers and "
                                "shared memory); more than there are: all.", ge=1)] = 1
    at_once: Annotated[bool, Knob("A step of the loop copies from or to all peers; else one peer comes after another.")
                       ] = False
    step: Annotated[Time, Knob("What a step of a ring costs a workgroup in addition to loads and "
                               "stores.", ge=0)] = default(
        "0 ns")
    launch: Annotated[Time, Knob("From the start of the collective to the dispatch of workgroups.", ge=0)] = default(
        "0 ns")
    program: Annotated[str | None, Knob("A file instead of a built-in kernel: an MSCCL++ plan (.json), which says all "
                                        "but `unroll`, or an MSCCL program (.xml), all but `wavefronts` and `unroll`.",
                                        file=True)] = None

    @property
    def name(self) -> str:
        """In words."""
        return self.program or f"{self.algorithm} {self.protocol} {self.direction}"


Choice = Annotated[Kernels | None, Knob("Its kernel; none: that of a library, else its messages or the timer say how "
                                        "long it takes.")]
Library = Literal["engine", "engine_rocm", "trtllm", "mscclpp", "multimem", "nccl"]


class KernelTimes(Config, frozen=True, kw_only=True):
    """Which operations inside the innermost dim take the time of a GPU kernel, simulated alone: collectives of groups
    that lie there, and phases there of collectives over several dims (only of operations with a given kernel)."""

    shorthand: ClassVar[Shorthand | None] = Shorthand(lambda name: {"libraries": [name]}, "a library of kernels: "
                                                      + ", ".join(get_args(Library)))
    libraries: Annotated[Sequence[Library], Knob(
        "Whose kernels groups inside the innermost dim run: of the first library that has one for the operation, the "
        "size and the number of GPUs, the fastest. Others send messages.")] = ()
    device: Annotated[str | None, Knob("The GPU of the catalog (`astrarium list gpu`) on which kernels run; left out: "
                                       "that of compute's device.")] = None
    gpu: Annotated[Gpu | None, Knob("What the kernels run on in place of `device`, ports and links to the other GPUs "
                                    "included.")] = None
    units: Annotated[int, Knob("Compute units of each GPU that only kernels of collectives use, for the whole run: "
                               "these run there, compute on the others. 0: kernels have all units, and compute is not "
                               "slower.", ge=0)] = 0
    all_reduce: Choice = None
    all_gather: Choice = None
    reduce_scatter: Choice = None
    all_to_all: Choice = None

    def of(self, op: CommOp) -> Kernels | None:
        """The kernel that is given for an operation; None: there is none."""
        return getattr(self, op.name.lower(), None)
