"""Kernels from files: MSCCL++ plans (.json) and MSCCL programs (.xml)."""

from __future__ import annotations

import hashlib
from pathlib import Path

from astrarium.errors import InputError
from astrarium.gpu.engine import Launch
from astrarium.gpu.kernels.device import Gpu
from astrarium.gpu.kernels.settings import Kernels
from astrarium.gpu.msccl.launch import msccl_launch
from astrarium.gpu.msccl.xml import msccl_op, parse_msccl
from astrarium.gpu.mscclpp.launch import mscclpp_launch
from astrarium.gpu.mscclpp.read import MOST_BYTES, PlannedKernels, read_mscclpp
from astrarium.units import Bandwidth, Bytes, Time
from astrarium.vocab import CommOp

__all__ = ["digest", "program_gpus", "program_launch", "prove_program"]


def program_launch(op: CommOp, payload: float, gpus: int, gpu: Gpu, kernels: Kernels, *, path: str) -> Launch:
    """The launch of `kernels.program`, folded where it can be; raises as `mscclpp_launch` and `msccl_launch` do, and
    InputError where the file is for another operation or number of GPUs."""
    name = str(kernels.program)
    given = _bytes(name, path)
    if name.endswith(".xml"):
        algo = parse_msccl(given, path=name)
        _check(op, gpus, msccl_op(algo, path=name), len(algo.gpus), name, path)
        return msccl_launch(algo, payload, gpu, wavefronts=kernels.wavefronts, unroll=kernels.unroll, folded=True,
                            path=name)
    plan = read_mscclpp(name)
    _check(op, gpus, plan.op, len(plan.gpus), name, path)
    return mscclpp_launch(plan, payload, gpu, unroll=kernels.unroll, folded=True)


def program_gpus(name: str, *, path: str) -> int:
    """For how many GPUs a plan or program in a file is. Raises InputError for a bad one."""
    given = _bytes(name, path)
    return len(parse_msccl(given, path=name).gpus) if name.endswith(".xml") else len(read_mscclpp(name).gpus)


def prove_program(name: str) -> CommOp:
    """The operation of a plan or program in a file, proved for any timing: with a request per chunk and thread block
    that shares it. Raises as `mscclpp_launch` and `msccl_launch` do."""
    gpu, line = _any_gpu(), 128
    if name.lower().endswith(".xml"):
        algo = parse_msccl(_bytes(name, "check"), path=name)
        msccl_launch(algo, algo.chunks * line, gpu, path=name)
        return msccl_op(algo, path=name)
    plan = read_mscclpp(name)
    mscclpp_launch(plan, _chunks(plan) * line, gpu)
    return plan.op


def _chunks(plan: PlannedKernels) -> int:
    """Chunks of a plan's payload, times the largest group of thread blocks that shares an operation."""
    chunks = max(max(gpu.chunks["i"], gpu.chunks["o"]) for gpu in plan.gpus)
    return chunks * max((step.share[1] for gpu in plan.gpus for block in gpu.blocks for step in block.steps), default=1)


def _any_gpu() -> Gpu:
    """A GPU with room for every thread block: a proof asks no rates and no times."""
    rate, time, size = Bandwidth("1 GB/s"), Time("1 ns"), Bytes("128 B")
    return Gpu(units=1 << 12, workgroups_per_unit=4, wavefronts_per_unit=128, instruction=Bytes("512 B"),
               outstanding_wavefront=64, outstanding_workgroup=64, outstanding_unit=64, unit_bandwidth=rate, issue=time,
               reduce_bandwidth=rate, dispatch=time, barrier=time, fence=time, network_latency=time, channels=1,
               interleave=size, l2_bandwidth=rate, l2_latency=time, hbm_bandwidth=rate, hbm_latency=time, ports=1,
               port_interleave=size, port_bandwidth=rate, header=size, control=size, link_latency=time,
               proxy_latency=time)


def digest(kernels: Kernels | None, *, path: str) -> str:
    """What the file of a kernel holds, as a hash; empty for built-in kernels. Raises InputError for no such file."""
    if kernels is None or kernels.program is None:
        return ""
    return hashlib.sha256(_bytes(kernels.program, path)).hexdigest()


def _bytes(name: str, path: str) -> bytes:
    if not name.endswith((".xml", ".json")):
        raise InputError(f"{path}.program", repr(name), expected="an MSCCL++ plan (.json) or MSCCL program (.xml)")
    try:
        size = Path(name).stat().st_size
        if size > MOST_BYTES:
            raise InputError(name, f"{size} bytes", expected=f"at most {MOST_BYTES}")
        return Path(name).read_bytes()
    except OSError as error:
        raise InputError(f"{path}.program", f"{name} cannot be read: {error.strerror}") from error


def _check(op: CommOp, gpus: int, does: CommOp, ranks: int, name: str, path: str) -> None:
    if does != op:
        raise InputError(f"{path}.program", f"{name} is an {does.name.lower()}", expected=op.name.lower())
    if ranks != gpus:
        raise InputError(f"{path}.program", f"{name} is for {ranks} GPUs", expected=f"one for {gpus}, the group's")
