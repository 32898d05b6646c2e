"""CPU time of inference: COSMIC's question answering on 1,024 NPUs, and 1,000 served chats.

    python benchmarks/inference.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import astrarium as ar
from astrarium import catalog
from astrarium.serving import Poisson, serve
from astrarium.workload.generate import generate


def design(work: ar.Inference, device: str) -> ar.Design:
    """Servers of eight, joined by a switch."""
    chip = catalog.device(device)
    dims = [ar.Switch(8, bandwidth="300 GB/s", latency="500 ns")]
    if work.ranks > 8:
        dims.append(ar.Switch(work.ranks // 8, bandwidth="25 GB/s", latency="2 us"))
    return ar.Design(workload=work, compute=ar.Roofline(**chip.compute), memory=ar.Memory(**chip.memory),
                     network=ar.Network(dims))


def cpu(work: Callable[[], object]) -> float:
    """Milliseconds of this process, the best of three."""
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(1e3 * (time.process_time() - start))
    return min(times)


def case(phase: str) -> None:
    """One phase on 1,024 NPUs."""
    work = ar.Inference("cosmic-gpt3-175b", batch=256, use_case="question_answering", phase=phase, tp=8, dp=32, pp=4,
                        uneven="fractional")
    made, base = generate(work), design(work, "a100_sxm_80gb")
    nodes = sum(len(each.type) for each in made.classes)
    spent = cpu(lambda: generate(work)), cpu(lambda: ar.simulate(base, traces=made, record=False))
    print(f"{phase}: {nodes:,} nodes in {len(made.classes)} classes; generate {spent[0]:.1f} ms, "
          f"simulate {spent[1]:.1f} ms")


def main() -> None:
    """Print one line per case."""
    for phase in ("prefill", "decode", "request"):
        case(phase)
    one = design(ar.Inference("llama3-8b", tp=8, phase="decode", context=1), "h100_sxm")
    stream = Poisson(rate=40, count=1000, seed=1, use_case="chat")
    served = serve(one, stream)
    spent = cpu(lambda: serve(one, stream))
    print(f"serve: {served.steps:,} steps, {int(served.output.sum()):,} tokens; {spent:.0f} ms")


if __name__ == "__main__":
    main()
