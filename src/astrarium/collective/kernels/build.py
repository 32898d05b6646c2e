"""The built-in collective kernels by name, and a launch of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec import Struct

from astrarium.collective.kernels import all_pairs, ring
from astrarium.collective.kernels.device import Gpu
from astrarium.collective.kernels.writer import Shape, Writer
from astrarium.config import Config, Knob
from astrarium.engine.gpu import Finished, Launch, run_launch
from astrarium.errors import InputError, UnsupportedError
from astrarium.units import Bytes
from astrarium.vocab import CommOp

__all__ = ["ALGORITHMS", "KernelAlgorithm", "Kernels", "kernel_launch", "kernel_time"]

Builder = Callable[[Writer], None]


class KernelAlgorithm(Struct, frozen=True):
    """A registry line: the builder of each operation, one sentence, whether peers can be read (get),
    and whether the payload is one chunk on every GPU (else one chunk per GPU)."""

    builders: Mapping[CommOp, Builder]
    sentence: str
    get: bool = True
    whole: bool = False


ALGORITHMS: Mapping[str, KernelAlgorithm] = MappingProxyType({
    "one_shot": KernelAlgorithm({CommOp.ALL_REDUCE: all_pairs.one_shot},
                                "Everyone gets everything and adds it up: one step, most bytes.", whole=True),
    "all_pairs": KernelAlgorithm({
        CommOp.ALL_REDUCE: all_pairs.all_reduce, CommOp.ALL_GATHER: all_pairs.all_gather,
        CommOp.REDUCE_SCATTER: all_pairs.reduce_scatter, CommOp.ALL_TO_ALL: all_pairs.all_to_all},
        "Everyone deals with everyone at once: one step (all_reduce two, also called two-shot)."),
    "ring": KernelAlgorithm({
        CommOp.ALL_REDUCE: ring.all_reduce, CommOp.ALL_GATHER: ring.all_gather,
        CommOp.REDUCE_SCATTER: ring.reduce_scatter},
        "Everyone passes chunks on to the next one: n - 1 steps (all_reduce 2 (n - 1)).", get=False),
})


class Kernels(Config, frozen=True):
    """How a collective runs as GPU kernels."""

    algorithm: Annotated[str, Knob("Which kernel.", choices=tuple(ALGORITHMS))] = "all_pairs"
    protocol: Annotated[Literal["simple", "ll"], Knob("simple: data, a fence, a semaphore. ll: every line carries its "
                                                      "flag, and twice the bytes move.")] = "simple"
    direction: Annotated[Literal["put", "get"], Knob("put: write to peers. get: read from them.")] = "put"
    workgroups: Annotated[int, Knob("Workgroups that share every chunk.", ge=1)] = 16
    wavefronts: Annotated[int, Knob("Wavefronts of a workgroup.", ge=1)] = 8
    unroll: Annotated[int, Knob("Instructions of a wavefront in a step of its loop.", ge=1)] = 4


def kernel_launch(op: CommOp, payload: float, gpus: int, gpu: Gpu, kernels: Kernels | None = None, *,
                  path: str = "kernels") -> Launch:
    """The launch of a collective on `gpus` GPUs.

    `payload`: bytes as nccl-tests counts them (all_gather and reduce_scatter: all chunks together; else one GPU's
    buffer); each GPU's chunk is rounded up to whole requests. Raises InputError and UnsupportedError at `path`.
    """
    kernels = Kernels() if kernels is None else kernels
    line = ALGORITHMS[kernels.algorithm]
    if op not in line.builders:
        raise UnsupportedError(f"{path}.algorithm", f"{kernels.algorithm} has no {op.name.lower()}", expected="one of "
                               + ", ".join(name for name, each in ALGORITHMS.items() if op in each.builders))
    get = kernels.direction == "get"
    if get and (not line.get or kernels.protocol == "ll"):
        raise UnsupportedError(f"{path}.direction", "get", expected="put: "
                               + ("flags stand in lines that are written" if line.get else "a ring writes"))
    if gpus < 2:
        raise InputError(f"{path}.gpus", str(gpus), expected="at least 2")
    request = float(Bytes.of(gpu.request))
    chunk = max(1, -(-int(payload) // int(request * (1 if line.whole else gpus))))
    shape = Shape(gpus, chunk, kernels.workgroups, kernels.protocol == "ll", get)
    writer = Writer(shape)
    line.builders[op](writer)
    return Launch(gpu.machine(), gpus, (tuple(writer.groups),), tuple(writer.buffers), tuple(writer.semaphores),
                  kernels.wavefronts, kernels.unroll)


def kernel_time(op: CommOp, payload: float, gpus: int, gpu: Gpu, kernels: Kernels | None = None, *,
                pure: bool = False) -> Finished:
    """Run a collective's kernels, alone: see `kernel_launch`. `pure`: in Python."""
    return run_launch(kernel_launch(op, payload, gpus, gpu, kernels), pure=pure)
