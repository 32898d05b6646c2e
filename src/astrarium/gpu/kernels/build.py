"""A launch of a collective kernel, and its time."""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace

from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu.engine import Finished, Launch, Machine, Stream, run_launch
from astrarium.gpu.kernels.device import Gpu
from astrarium.gpu.kernels.settings import Kernels
from astrarium.gpu.kernels.writer import KernelAlgorithm, Shape, Writer
from astrarium.registry import load, names
from astrarium.units import Bytes
from astrarium.vocab import CommOp

__all__ = ["kernel_algorithm", "kernel_launch", "kernel_time", "on_engines", "write_kernel"]

FLAGS = {"simple": 0, "ll": 2, "ll128": 1, "lamport": 1}
"""Lines with flags that a request of payload takes, by protocol; 0: none."""
ENGINE_STEPS = 8
"""Steps of a copy that an engine has on their way at once: some are loaded while others are stored."""
FLAG = 8
"""Bytes of the flag in a line of ll128."""


def kernel_algorithm(name: str) -> KernelAlgorithm:
    """A kernel of the registry. Raises InputError for an unknown name."""
    return cast(KernelAlgorithm, load("kernel", name))


def kernel_launch(op: CommOp, payload: float, gpus: int, gpu: Gpu, kernels: Kernels | None = None, *,
                  units: int = 0, path: str = "kernels") -> Launch:
    """The launch of a collective on `gpus` GPUs.

    `payload`: bytes as nccl-tests counts them (all_gather and reduce_scatter: all chunks together; else one GPU's
    buffer); each GPU's chunk is rounded up to whole requests. `units`: it runs on so many compute units, the first
    ones; 0: on all (copy engines use none). Raises InputError and UnsupportedError at `path`.
    """
    kernels = Kernels() if kernels is None else kernels
    if not 0 <= payload < 1 << 62:
        raise InputError(f"{path}.payload", f"{payload} bytes", expected="0 or more")
    if kernels.program is None:
        launch = _launch(op, payload, gpus, gpu, kernels, path)
    else:
        from astrarium.gpu.kernels.programs import program_launch

        launch = program_launch(op, payload, gpus, gpu, kernels, path=path)
    _check_device(launch, gpu, kernels, path)
    if not 0 <= units <= gpu.units:
        raise InputError(f"{path}.units", f"{units} of {gpu.units}", expected=f"0 to {gpu.units}")
    if units and not on_engines(kernels):
        launch = replace(launch, streams=tuple([replace(each, units=tuple(range(units))) for each in launch.streams]))
    return replace(launch, starts=(round(kernels.launch * 1000),))


def on_engines(kernels: Kernels) -> bool:
    """Whether a kernel runs on copy engines."""
    return kernels.program is None and kernel_algorithm(kernels.algorithm).engines


def _check_device(launch: Launch, gpu: Gpu, kernels: Kernels, path: str) -> None:
    """Say by the fields of `gpu` what keeps a launch from running there."""
    where = f"{path.rpartition('.')[0]}.gpu".lstrip(".")
    widest = launch.machine.instruction * max(buffer.lines for buffer in launch.buffers)
    limits = {name: getattr(gpu, name) for name in ("outstanding_wavefront", "outstanding_workgroup",
                                                    "outstanding_unit")}
    if gpu.copy_engines is not None:
        limits["copy_engines.outstanding"] = gpu.copy_engines.outstanding
    for name, limit in limits.items():
        if limit < widest:
            raise InputError(f"{where}.{name}", str(limit), expected=f"at least {widest}, the requests of one "
                             f"instruction of {kernels.name}")
    for stream in launch.streams:
        if stream.wavefronts > gpu.wavefronts_per_unit:
            raise InputError(f"{path}.wavefronts", str(stream.wavefronts), expected=f"at most "
                             f"{gpu.wavefronts_per_unit}, those of a compute unit")
    if not gpu.switched and launch.gpus > 1 and len(launch.machine.port_router) % (launch.gpus - 1):
        raise InputError(f"{where}.ports", f"{gpu.ports} for {launch.gpus - 1} peers", expected="a multiple of the "
                         "peers, or links that are switched")
    if not (gpu.switched and gpu.multimem) and any(
            place.peer == launch.gpus for grid in launch.grids for group in grid for op in group.operations
            for place in (*op.sources, *op.targets)):
        lacks = "multimem" if gpu.switched else "switched"
        raise UnsupportedError(f"{where}.{lacks}", f"false, and {kernels.name} has the switch add and copy",
                               expected="a GPU whose switch does")


def _launch(op: CommOp, payload: float, gpus: int, gpu: Gpu, kernels: Kernels, path: str) -> Launch:
    """The launch of a built-in kernel."""
    whole = kernel_algorithm(kernels.algorithm).whole
    request = float(Bytes.of(gpu.request)) - (FLAG if kernels.protocol == "ll128" else 0)
    chunk = max(1, -(-int(payload) // int(request * (1 if whole else max(1, gpus)))))
    writer = write_kernel(op, gpus, chunk, kernels, path=path)
    machine = gpu.machine(gpus)
    stream = Stream(kernels.wavefronts, kernels.unroll, places=min(kernels.places, machine.workgroups_per_unit))
    if kernel_algorithm(kernels.algorithm).engines:
        if not machine.engines:
            raise UnsupportedError(f"{path}.algorithm", f"{kernels.algorithm} on a GPU without copy_engines",
                                   expected="gpu.copy_engines: {count, bandwidth, outstanding, dispatch}")
        stream = _engines(machine)
    return Launch(machine, gpus, (tuple(writer.groups),), tuple(writer.buffers), tuple(writer.semaphores), (stream,))


def _engines(machine: Machine) -> Stream:
    """A workgroup per copy engine at a time, which keeps as much in flight as the engine may."""
    wavefronts = min(ENGINE_STEPS, machine.wavefronts_per_unit)
    unroll = machine.engine_limit // (wavefronts * machine.instruction)
    units = tuple(range(machine.computes, len(machine.unit_router)))
    return Stream(wavefronts, min(1 << 10, max(1, unroll)), units, machine.workgroups_per_unit)


def write_kernel(op: CommOp, gpus: int, chunk: int, kernels: Kernels, *, path: str = "kernels") -> Writer:
    """The workgroups, buffers and semaphores of a kernel with chunks of `chunk` requests; raises as `kernel_launch`."""
    line = kernel_algorithm(kernels.algorithm)
    if op not in line.builders:
        others = [name for name in names("kernel") if op in kernel_algorithm(name).builders]
        raise UnsupportedError(f"{path}.algorithm", f"{kernels.algorithm} has no {op.name.lower()}", expected="one of "
                               + ", ".join(others) if others else "another operation: no kernel has this one")
    get, flags = kernels.direction == "get", FLAGS[kernels.protocol]
    if flags and not line.flags:
        raise UnsupportedError(f"{path}.protocol", f"{kernels.protocol} of {kernels.algorithm}", expected="simple")
    if (get and flags) or not (line.get if get else line.put):
        raise UnsupportedError(f"{path}.direction", f"{kernels.direction} of {kernels.algorithm}, {kernels.protocol}",
                               expected="get, simple: this kernel reads" if not line.put else "put: "
                               + ("flags stand in lines that are written" if line.get else "a ring writes"))
    if gpus < 2:
        raise InputError(f"{path}.gpus", str(gpus), expected="at least 2")
    writer = Writer(Shape(gpus, chunk, kernels.workgroups, flags, get, kernels.at_once, round(kernels.step * 1000)))
    line.builders[op](writer)
    return writer


def kernel_time(op: CommOp, payload: float, gpus: int, gpu: Gpu, kernels: Kernels | None = None, *,
                units: int = 0, pure: bool = False, path: str = "kernels") -> Finished:
    """Run a collective's kernels, alone: see `kernel_launch`. `pure`: in Python. One GPU represents all."""
    return run_launch(kernel_launch(op, payload, gpus, gpu, kernels, units=units, path=path), pure=pure, path=path)
