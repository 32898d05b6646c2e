"""A launch of a collective kernel, and its time."""

from __future__ import annotations

from typing import cast

from astrarium.collective.kernels.device import Gpu
from astrarium.collective.kernels.settings import Kernels
from astrarium.collective.kernels.writer import KernelAlgorithm, Shape, Writer
from astrarium.engine.gpu import Finished, Launch, run_launch
from astrarium.errors import InputError, UnsupportedError
from astrarium.registry import load, names
from astrarium.units import Bytes
from astrarium.vocab import CommOp

__all__ = ["kernel_algorithm", "kernel_launch", "kernel_time"]


def kernel_algorithm(name: str) -> KernelAlgorithm:
    """A kernel of the registry. Raises InputError for an unknown name."""
    return cast(KernelAlgorithm, load("kernel", name))


def kernel_launch(op: CommOp, payload: float, gpus: int, gpu: Gpu, kernels: Kernels | None = None, *,
                  path: str = "kernels") -> Launch:
    """The launch of a collective on `gpus` GPUs.

    `payload`: bytes as nccl-tests counts them (all_gather and reduce_scatter: all chunks together; else one GPU's
    buffer); each GPU's chunk is rounded up to whole requests. Raises InputError and UnsupportedError at `path`.
    """
    kernels = Kernels() if kernels is None else kernels
    line = kernel_algorithm(kernels.algorithm)
    if op not in line.builders:
        raise UnsupportedError(f"{path}.algorithm", f"{kernels.algorithm} has no {op.name.lower()}", expected="one of "
                               + ", ".join(name for name in names("kernel") if op in kernel_algorithm(name).builders))
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
                pure: bool = False, path: str = "kernels") -> Finished:
    """Run a collective's kernels, alone: see `kernel_launch`. `pure`: in Python. One GPU stands for all."""
    return run_launch(kernel_launch(op, payload, gpus, gpu, kernels, path=path), pure=pure)
