"""Kernels from files: MSCCL++ plans (.json) and MSCCL programs (.xml)."""

from __future__ import annotations

import hashlib
from pathlib import Path

from astrarium.collective.kernels.device import Gpu
from astrarium.collective.kernels.msccl_launch import msccl_launch
from astrarium.collective.kernels.mscclpp import MOST_BYTES, read_mscclpp
from astrarium.collective.kernels.mscclpp_launch import mscclpp_launch
from astrarium.collective.kernels.settings import Kernels
from astrarium.collective.msccl import msccl_op
from astrarium.collective.msccl_xml import parse_msccl
from astrarium.engine.gpu import Launch
from astrarium.errors import InputError
from astrarium.vocab import CommOp

__all__ = ["digest", "program_launch"]


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
