"""A matrix product and a collective on the same GPUs at once: what each takes alone, what together.

Both start with the GPU, the collective after its `launch`. `first` says whose workgroups take a place that both want.
Reserved units run the collective alone, and the product has the others; copy engines leave it all units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from astrarium.config import Config, Knob, Problem
from astrarium.gpu.engine import Finished, Launch, run_launch, together
from astrarium.gpu.kernels.build import kernel_launch, on_engines
from astrarium.gpu.kernels.device import Gpu
from astrarium.gpu.kernels.gemm import Gemm, gemm_launch
from astrarium.gpu.kernels.settings import Kernels
from astrarium.units import Bytes
from astrarium.vocab import CommOp

__all__ = ["GpuOverlap", "Overlapped", "gpu_overlap", "overlap_launch"]


def _rules(asked: GpuOverlap) -> Iterator[Problem]:
    for i, units in enumerate(asked.units):
        if units >= asked.gpu.units:
            yield Problem(f"units[{i}]", f"{units} of {asked.gpu.units} units", "some left for the product")


class GpuOverlap(Config, frozen=True, kw_only=True):
    """What runs on every GPU: a product, and a collective among the GPUs."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_rules,)
    gpu: Annotated[Gpu, Knob("What both run on.")]
    gpus: Annotated[int, Knob("GPUs of the collective; each has the product.", ge=2)]
    gemm: Annotated[Gemm, Knob("The product.")]
    op: Annotated[Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"], Knob("The collective.")]
    payload: Annotated[Bytes, Knob("Bytes as nccl-tests counts them: of all_gather and reduce_scatter all chunks "
                                   "together, else one GPU's buffer.", gt=0)]
    kernels: Annotated[Sequence[Kernels], Knob("Kernels of the collective, one after the other.")] = (Kernels(),)
    units: Annotated[Sequence[int], Knob(
        "Compute units that only the collective uses, one case after the other; 0: both use all. Kernels of copy "
        "engines need none.", ge=0)] = (0,)
    first: Annotated[Literal["collective", "gemm"], Knob(
        "Whose workgroups go first where both want a place: the stream of higher priority, or the one that came first."
    )] = "collective"
    memory: Annotated[Literal["hbm", "l2"], Knob("Where the collective's data are; lines with flags are in L2.")
                      ] = "hbm"


class Overlapped(Struct, frozen=True):
    """One case. Times in ps: `alone` on an idle GPU, where each has all units; `beside`: until its last workgroup
    ended, when both run. `hbm`: share of the time together in which HBM is busy. `units`: that only the collective
    uses; none: it runs on copy engines."""

    kernels: Kernels
    units: int | None
    gemm_alone: int
    gemm_beside: int
    collective_alone: int
    collective_beside: int
    hbm: float

    @property
    def gemm_slowdown(self) -> float:
        """Time of the product with the collective over its time alone."""
        return self.gemm_beside / self.gemm_alone

    @property
    def collective_slowdown(self) -> float:
        """Time of the collective with the product over its time alone."""
        return self.collective_beside / self.collective_alone

    @property
    def makespan(self) -> int:
        """Makespan of both together, ps."""
        return max(self.gemm_beside, self.collective_beside)

    @property
    def speedup(self) -> float:
        """Time of one after the other over the time of both together."""
        return (self.gemm_alone + self.collective_alone) / self.makespan

    @property
    def ideal(self) -> float:
        """The speedup if neither slowed the other."""
        return (self.gemm_alone + self.collective_alone) / max(self.gemm_alone, self.collective_alone)

    @property
    def of_ideal(self) -> float:
        """Share of what the ideal speedup gains; below 0: one after the other is faster."""
        return (self.speedup - 1) / (self.ideal - 1)


def gpu_overlap(asked: GpuOverlap, *, pure: bool = False) -> list[Overlapped]:
    """One case per kernel and number of reserved units. `pure`: in Python. Raises InputError and UnsupportedError."""
    gemm = _until_ends(run_launch(gemm_launch(asked.gemm, asked.gpu, asked.gpus), pure=pure))
    cases = []
    for i, kernels in enumerate(asked.kernels):
        alone = _until_ends(run_launch(_collective(asked, kernels, 0, f"kernels[{i}]"), pure=pure))
        for units in (None,) if on_engines(kernels) else asked.units:
            cases.append(_case(asked, kernels, units, (gemm, alone), pure=pure))
    return cases


def overlap_launch(asked: GpuOverlap, kernels: Kernels, units: int | None) -> tuple[Launch, int]:
    """Both as one launch with `units` reserved, and the number of the product's stream."""
    reserved = units or 0
    gemm = gemm_launch(asked.gemm, asked.gpu, asked.gpus, units=asked.gpu.units - reserved)
    collective = _collective(asked, kernels, reserved, "kernels")
    ahead = asked.first == "gemm"
    both = together((gemm, collective) if ahead else (collective, gemm))
    return both, 0 if ahead else len(collective.streams)


def _case(asked: GpuOverlap, kernels: Kernels, units: int | None, alone: tuple[int, int], *, pure: bool) -> Overlapped:
    launch, product = overlap_launch(asked, kernels, units)
    ran = run_launch(launch, pure=pure)
    ends = {True: 0, False: 0}
    for gpu in range(len(launch.grids)):        # one, or one per GPU
        for group, end in zip(launch.grid(gpu), ran.workgroup_ends[gpu].tolist(), strict=False):
            ends[group.stream == product] = max(ends[group.stream == product], end)
    use = float(ran.hbm_use(launch.machine).mean())
    return Overlapped(kernels, units, alone[0], ends[True], alone[1], ends[False], use)


def _collective(asked: GpuOverlap, kernels: Kernels, reserved: int, path: str) -> Launch:
    """The collective's launch, its data where they are, on reserved units if there are any."""
    launch = kernel_launch(CommOp[asked.op.upper()], float(asked.payload), asked.gpus, asked.gpu, kernels,
                           units=reserved, path=path)
    if asked.memory == "hbm":
        launch = replace(launch, buffers=tuple(replace(each, hbm=not each.flagged) for each in launch.buffers))
    return launch


def _until_ends(ran: Finished) -> int:
    return int(ran.workgroup_ends.max())
