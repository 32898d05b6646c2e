"""Run kernels with PyTorch and time them: on a GPU with CUDA events, else with the clock. The same code on both."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from astrarium.compute.kernels.predict import STREAMS
from astrarium.compute.kit.probe import free_bytes, torch_here
from astrarium.compute.timings import Timing
from astrarium.errors import InputError
from astrarium.vocab import Kernel

if TYPE_CHECKING:
    import numpy.typing as npt

    from astrarium.engine.plugins import ComputeNodes, Plugins

__all__ = ["cut", "kernels_of", "measured"]

REPEATS, WARM = 5, 2
SHARE = 0.8         # of free memory that a stream may take
LONGEST_S = 2.0     # of one repeat; a kernel that takes longer is measured once


class _Collector:
    """A compute model that takes down the kernels and gives every node no time."""

    def __init__(self) -> None:
        self.seen: dict[Kernel, None] = {}

    def durations(self, nodes: ComputeNodes) -> npt.NDArray[np.int64]:
        self.seen.update(dict.fromkeys(nodes.kernels))
        return np.zeros(len(nodes), np.int64)


def kernels_of(run: Callable[[Plugins], object]) -> list[Kernel]:
    """The distinct kernels that a run asks times of; `run` simulates a design with the plug-ins it is given."""
    from astrarium.engine.plugins import Plugins

    collector = _Collector()
    run(Plugins(compute=collector))
    if not collector.seen:
        raise InputError("calibrate --measure", "the workload names no kernels", expected="one that Astrarium makes")
    return list(collector.seen)


def measured(kernels: Sequence[Kernel]) -> tuple[list[Timing], list[str], str]:
    """(timings of one launch each, sentences about what was not measured or smaller, and why, where). A stream that the
    memory does not hold is cut to what it holds. Raises InputError without PyTorch."""
    torch = torch_here("calibrate --measure")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    timings, notes = [], []
    with torch.no_grad():
        for kernel in kernels:
            try:
                some = cut(kernel, int(SHARE * free_bytes(torch, device)))
                call, one = _call(torch, some, device)
                timings.append(Timing(one, _time(torch, call, device)))
            except (RuntimeError, NotImplementedError, KeyError) as error:
                if device == "cuda":
                    torch.cuda.empty_cache()
                why = str(error).splitlines()[0][:120]
                notes.append(f"not measured: {kernel.kind} {kernel.precision} {kernel.shape}: {why}")
                continue
            if some != kernel:
                notes.append(f"{kernel.kind} {kernel.precision}: {one.bytes / 1e9:.4g} of "
                             f"{kernel.bytes / max(1, kernel.launches) / 1e9:.4g} GB, as the memory holds no more")
    return timings, notes, torch.cuda.get_device_name() if device == "cuda" else "the CPU"


def cut(kernel: Kernel, room: int) -> Kernel:
    """Split a stream into launches of at most this many bytes; other kernels stay as they are."""
    if kernel.kind not in STREAMS or kernel.bytes <= room * max(1, kernel.launches):
        return kernel
    return kernel._replace(bytes=room * max(1, kernel.launches))


def _call(torch: Any, kernel: Kernel, device: str) -> tuple[Callable[[], object], Kernel]:
    """(what runs one launch, the kernel of that launch)."""
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

    def tensor(*shape: int) -> Any:
        return torch.randn(shape, device=device, dtype=kind[kernel.precision])

    if kernel.kind in STREAMS:
        moved = kernel.bytes // max(1, kernel.launches)
        one = torch.randn(max(1, moved // 4), device=device, dtype=torch.bfloat16)
        two = torch.empty_like(one)
        return lambda: two.copy_(one), kernel._replace(bytes=moved, launches=1)
    if kernel.kind in ("gemm", "grouped_gemm") and len(kernel.shape) == 4:
        batch, m, n, k = kernel.shape
        rows = m if kernel.kind == "gemm" else max(1, m // batch)
        left, right = tensor(batch, rows, k), tensor(batch, n, k).transpose(1, 2)
        return lambda: torch.matmul(left, right), kernel._replace(launches=1, flops=2.0 * batch * rows * n * k)
    if kernel.kind != "attention":
        raise NotImplementedError("no PyTorch operator computes it")
    batch, heads, kv, queries, keys, long, value = kernel.shape
    q, k_, v = tensor(batch, heads, queries, long), tensor(batch, kv, keys, long), tensor(batch, kv, keys, value)
    if kv != heads:
        k_, v = (each.repeat_interleave(heads // kv, 1) for each in (k_, v))
    causal = kernel.work < 1 and queries == keys
    attend = torch.nn.functional.scaled_dot_product_attention
    flops = 2.0 * batch * heads * queries * keys * (long + value) * kernel.work
    return lambda: attend(q, k_, v, is_causal=causal), kernel._replace(launches=1, flops=flops)


def _time(torch: Any, call: Callable[[], object], device: str) -> float:
    """Median ns of one call."""
    def once() -> float:
        if device == "cuda":
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            call()
            last.record()
            torch.cuda.synchronize()
            return float(first.elapsed_time(last)) * 1e6
        start = time.perf_counter_ns()
        call()
        return float(time.perf_counter_ns() - start)

    first = once()
    if first > LONGEST_S * 1e9:
        return first
    for _ in range(WARM):
        once()
    return float(np.median([once() for _ in range(REPEATS)]))
