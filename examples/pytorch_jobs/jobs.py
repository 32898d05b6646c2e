"""Llama 3 8B on eight H100: how long does a step take, and what does it hold, under the stacks that people use?

usage: jobs.py [--recompute none|operators|full] [--seq TOKENS]
"""

from __future__ import annotations

import argparse

import astrarium as ar

STACKS = (("ddp", 0), ("hf-trainer", 0), ("deepspeed", 1), ("deepspeed", 2), ("deepspeed-3", 3), ("hf-fsdp2", 3),
          ("fsdp2", 3), ("torchtitan", 3))
GIB = 2**30


def design(stack: str, zero: int, recompute: str, seq: int) -> ar.Design:
    """One sample a GPU and step, on one host with NVLink."""
    return ar.decode(ar.Design, {
        "stack": stack, "compute": "h100_sxm", "memory": "h100_sxm", "collective": {"model": "measured"},
        "workload": {"source": "transformer", "model": "llama3-8b", "seq": seq, "dp": 8, "global_batch": 8,
                     "micro_batch": 1, "zero": zero, "recompute": recompute},
        "network": {"dims": [{"like": "dgx_h100_nvswitch", "npus": 8}]}})


def main() -> None:
    """One line a stack."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--recompute", default="full")
    parser.add_argument("--seq", type=int, default=8192)
    options = parser.parse_args()
    print("stack        ZeRO   step  tokens/s/GPU  memory")
    for name, zero in STACKS:
        made = design(name, zero, options.recompute, options.seq)
        found = ar.simulate(made)
        seconds, held = float(found.makespan) / 1e9, float(found.peak_memory)
        fits = "" if held <= float(made.memory.capacity) else "  does not fit"
        print(f"{name:12} {zero:4} {seconds:5.3f} s {options.seq / seconds:13,.0f} {held / GIB:6.1f} GiB{fits}")


if __name__ == "__main__":
    main()
