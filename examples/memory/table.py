"""The memory organisations of this folder side by side: python examples/memory/table.py"""

from __future__ import annotations

from pathlib import Path

import astrarium as ar
from astrarium import format_bytes, format_time

FOLDER = Path(__file__).parent
TRAINING = ("per_node", "per_gpu", "integrated_cpu_pool", "integrated_gpu_pool")
SRAM = ("sram_groq", "sram_cerebras")


def trained(name: str) -> str:
    """A training step: its time, what is exposed, and what every memory holds on the fullest NPU."""
    result = ar.simulate(ar.load_design(FOLDER / f"{name}.yaml"))
    summary = result.summary()
    held = [f"local {format_bytes(summary['peak_memory_bytes'])}",
            *[f"{tier['name']} {format_bytes(tier['peak_bytes'])}" for tier in summary["tiers"] if tier["peak_bytes"]]]
    parts = "  ".join(f"{format_time(summary[f'{part}_ns']):>8}"
                      for part in ("makespan", "compute", "exposed_memory", "exposed_host"))
    return f"{name:20} {parts}   {', '.join(held)}{'' if result.out_of_memory is False else '  DOES NOT FIT'}"


def answered(name: str) -> str:
    """A chat: time to the first token and per further token."""
    result = ar.simulate(ar.load_design(FOLDER / f"{name}.yaml"))
    summary, npus = result.summary(), len(result.outcome.row)
    times = "  ".join(f"{format_time(summary[name]):>8}" for name in ("ttft_ns", "tpot_ns"))
    fits = "" if result.out_of_memory is False else "  DOES NOT FIT"
    return f"{name:20} {times}   {npus} chips, {format_bytes(summary['peak_memory_bytes'])} of the fullest{fits}"


if __name__ == "__main__":
    print(f"{'a step of training':20} {'time':>8}  {'compute':>8}  {'memory':>8}  {'host':>8}   held by an NPU at most")
    for each in TRAINING:
        print(trained(each))
    print(f"\n{'an answer':20} {'TTFT':>8}  {'TPOT':>8}")
    for each in SRAM:
        print(answered(each))
