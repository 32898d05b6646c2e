"""Which kernels libraries run: what their public source says of algorithms, thread blocks and sizes.

- `engine`: the all_reduce that vLLM and SGLang bring (custom_all_reduce.cuh): peers are read; one shot below a size,
  then two; 512 threads in up to 36 blocks.
- `engine_rocm`: the same on AMD's GPUs, as vLLM builds it there: 512 threads are 8 wavefronts, in up to 16 blocks.
- `trtllm`: TensorRT-LLM's all_reduce of low latency, in one shot of lines that are their own flags (Lamport).
- `mscclpp`: all_reduces of its mscclpp-test: kernel 2 (one shot, LL) to 8 KiB, 6 (two shots, LL) to 1 MiB, then 4
  (reads).
- `multimem`: the all_reduce of PyTorch's symmetric memory, which vLLM takes where it can (256 KiB to 32 MiB on eight
  GPUs): the switch adds (NVLS), 24 blocks of 1024 threads.
- `nccl`: rings with LL, LL128 or Simple on up to 24 channels; below 16 KiB (LL) and 32 KiB (LL128) per channel fewer.
  Which one it takes is its tuner's guess; here the least time counts, LL up to 16 KiB; NVLS (16 channels) from
  1 MiB on where the switch adds. Trees are not here.

What each costs before its first workgroup runs, and how NCCL's protocols go on from step to step, is measured:
`catalog/gpus.toml`, column `libraries`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from astrarium import catalog
from astrarium.config import decode
from astrarium.errors import InputError, UnsupportedError, nearest
from astrarium.gpu.engine import Finished
from astrarium.gpu.kernels.build import kernel_time
from astrarium.gpu.kernels.device import Gpu
from astrarium.gpu.kernels.settings import Kernels
from astrarium.vocab import CommOp

__all__ = ["LIBRARIES", "MEASURED", "Measured", "has_kernels", "library_kernels", "library_time", "measured"]

KIB, MIB = 1 << 10, 1 << 20
THREADS = 16                    # warps of a block of 512 threads
BLOCK = THREADS * 512           # bytes that such a block moves at once, 16 a thread
RINGS = (("ll", 16 * KIB, 0, 16 * KIB), ("ll128", 32 * KIB, 16 * KIB, 16 * MIB), ("simple", 0, 512 * KIB, 1 << 62))
"""Protocol, least bytes of a channel, least and most payload."""


class Measured(Struct, frozen=True):
    """Measured collectives of a library: benchmarks/data/gpu_collectives.csv has rows of `least` to `most` bytes."""

    ops: tuple[CommOp, ...]
    devices: tuple[str, ...]
    gpus: tuple[int, ...]
    least: int
    most: int


def measured(library: str, device: str, op: CommOp, gpus: int) -> Measured | None:
    """The measured collectives with which this library's kernels were compared; None: there are none."""
    return next((rows for rows in MEASURED[library] if op in rows.ops and device in rows.devices and gpus in rows.gpus),
                None)


def has_kernels(library: str, op: CommOp, payload: float, gpus: int) -> bool:
    """Whether a library has a kernel for an operation; `payload` as of `kernel_launch`."""
    return bool(LIBRARIES[library](op, int(payload), gpus))


def library_kernels(library: str, device: str, op: CommOp, payload: float, gpus: int, *, path: str = "library"
                    ) -> tuple[Kernels, ...]:
    """The kernels among which a library chooses. `payload`: as of `kernel_launch`; `device`: a row of
    catalog/gpus.toml. Raises InputError for an unknown name, UnsupportedError where a library has no such kernel."""
    row = catalog.row_of("gpus", device)
    if library not in row["libraries"]:
        raise InputError(path, f"{library[:60]!r} is not known on {device}", expected="one of "
                         + ", ".join(row["libraries"]), did_you_mean=nearest(library, row["libraries"]))
    found = LIBRARIES[library](op, int(payload), gpus)
    if not found:
        raise UnsupportedError(path, f"{library} has no {op.name.lower()} of {int(payload)} B on {gpus} GPUs",
                               expected="the payloads of the library's kernels")
    costs = row["libraries"][library]
    common = {key: value for key, value in costs.items() if not isinstance(value, Mapping)}
    ways = [(each, costs.get(each["algorithm"] if each["algorithm"] == "nvls" else each.get("protocol", "")))
            for each in found]
    return tuple(decode(Kernels, {**each, **common, **(own or {})}) for each, own in ways if own or library != "nccl")


def library_time(library: str, device: str, op: CommOp, payload: float, gpus: int, *, gpu: Gpu | None = None
                 ) -> Finished:
    """The fastest of a library's kernels: see `library_kernels`. `gpu`: in place of the catalog's."""
    found = decode(Gpu, {"like": device}) if gpu is None else gpu
    runs = [kernel_time(op, payload, gpus, found, kernels) for kernels in library_kernels(library, device, op, payload,
                                                                                         gpus)]
    return min(runs, key=lambda run: run.makespan)


def _blocks(payload: int, most: int) -> int:
    return min(most, max(1, -(-payload // BLOCK)))


def _engine(op: CommOp, payload: int, gpus: int, *, blocks: int = 36, wavefronts: int = THREADS
            ) -> list[Mapping[str, Any]]:
    if op != CommOp.ALL_REDUCE or payload > 8 * MIB:
        return []
    one = gpus == 2 or payload < (512 if gpus <= 4 else 256) * KIB
    return [{"algorithm": "one_shot_read" if one else "two_shot_read", "direction": "get", "wavefronts": wavefronts,
             "workgroups": _blocks(payload, blocks), "unroll": 1, "at_once": True}]


def _engine_rocm(op: CommOp, payload: int, gpus: int) -> list[Mapping[str, Any]]:
    return _engine(op, payload, gpus, blocks=16, wavefronts=THREADS // 2)


def _trtllm(op: CommOp, payload: int, _: int) -> list[Mapping[str, Any]]:
    if op != CommOp.ALL_REDUCE or payload > 512 * KIB:
        return []
    return [{"algorithm": "one_shot", "protocol": "lamport", "wavefronts": THREADS, "workgroups": _blocks(payload, 128),
             "unroll": 1, "at_once": True}]


def _nccl(op: CommOp, payload: int, _: int) -> list[Mapping[str, Any]]:
    if op not in (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER):
        return []
    switch: Mapping[str, Any] = {"algorithm": "nvls", "wavefronts": THREADS, "workgroups": 16, "unroll": 1}
    rings: list[Mapping[str, Any]] = [
        {"algorithm": "ring", "protocol": protocol, "wavefronts": THREADS, "unroll": 1,
         "workgroups": min(24, max(1, -(-payload // least))) if least else 24}
        for protocol, least, lowest, most in RINGS if lowest <= payload <= most]
    return [*rings, switch] if op == CommOp.ALL_REDUCE and payload >= MIB else rings


def _multimem(op: CommOp, payload: int, _: int) -> list[Mapping[str, Any]]:
    if op != CommOp.ALL_REDUCE or not 256 * KIB <= payload <= 32 * MIB:
        return []
    return [{"algorithm": "nvls", "wavefronts": 2 * THREADS, "workgroups": 24, "unroll": 1}]


def _mscclpp(op: CommOp, payload: int, gpus: int) -> list[Mapping[str, Any]]:
    if op != CommOp.ALL_REDUCE:
        return []
    if payload > MIB:
        return [{"algorithm": "two_shot_read", "direction": "get", "wavefronts": THREADS, "workgroups": 45, "unroll": 1,
                 "at_once": True}]
    small = payload <= 8 * KIB
    return [{"algorithm": "one_shot" if small else "all_pairs", "protocol": "ll", "at_once": True, "unroll": 1,
             "workgroups": (gpus - 1) * (1 if small else 3), "wavefronts": 2 * THREADS if small else THREADS}]


LIBRARIES = {"engine": _engine, "engine_rocm": _engine_rocm, "trtllm": _trtllm, "mscclpp": _mscclpp,
             "multimem": _multimem, "nccl": _nccl}
"""Library -> its kernels (settings as plain data) for an operation, a payload in bytes and a number of GPUs."""

_SXM = ("a100_sxm_80gb", "h100_sxm", "h200_sxm", "b200")
_RINGS = (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER)
_SUM = (CommOp.ALL_REDUCE,)
MEASURED: Mapping[str, tuple[Measured, ...]] = MappingProxyType({
    "engine": (Measured(_SUM, _SXM, (4, 8), KIB, 8 * MIB),),
    "engine_rocm": (Measured(_SUM, ("mi300x",), (2,), 4 * KIB, 8 * MIB),
                    Measured(_SUM, ("mi300x",), (4,), 2 * KIB, 8 * MIB)),
    "trtllm": (Measured(_SUM, _SXM, (2, 4, 8), KIB, 512 * KIB),),
    "mscclpp": (Measured(_SUM, ("a100_sxm_80gb",), (8,), 8 * KIB, 32 * MIB),
                Measured(_SUM, ("h100_sxm",), (8,), 24 * KIB, 72 * KIB)),
    "multimem": (Measured(_SUM, ("h100_sxm", "h200_sxm"), (8,), 256 * KIB, 32 * MIB),
                 Measured(_SUM, ("b200",), (8,), MIB, 32 * MIB)),
    "nccl": (Measured(_RINGS, _SXM, (8,), KIB, 64 * MIB),)})
"""Library -> its measured collectives."""
