"""Step times from tables: their errors against simulations, and CPU time.

    python benchmarks/serving_steps.py [MODEL:TP ...]

Prints, for each model on H200 (measured kernels, measured collectives): 200 drawn steps against a simulation of each
(mean, largest error), CPU time to build what these need, of a step and of 50 decode steps when tables are there, of one
decode point of a fresh design; and of a stream of 19,366 requests with the lengths of Azure's conversations.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence

import numpy as np

import astrarium as ar
from astrarium import catalog
from astrarium.compute.measured import Measured
from astrarium.serving import Lognormal, Poisson, Policy, serve
from astrarium.serving.policy import Buckets
from astrarium.serving.shape import Prompt, Shape
from astrarium.serving.steps.choose import times_of
from astrarium.serving.steps.exact import step_times
from astrarium.serving.steps.simulated import Simulated
from astrarium.workload.inference.passes import replica_of

MODELS = ("llama3-8b:1", "qwen3-32b:4", "gpt-oss-120b:2", "deepseek-v3:8")


def design(model: str, tp: int) -> ar.Design:
    """One server."""
    return ar.Design(workload=ar.Inference(model, tp=tp, phase="decode", context=1),
                     compute=Measured(device="h200_sxm"), memory=ar.Memory(**catalog.device("h200_sxm").memory),
                     network=ar.Network([ar.Switch(tp, bandwidth="450 GB/s", latency="500 ns",
                                                   fabric="dgx_h100_nvswitch")]),
                     collective=ar.Collective(model="measured"))


def drawn(count: int, seed: int) -> Sequence[Shape]:
    """Steps of an engine with chunked prefill."""
    draw, found = random.Random(seed), list[Shape]()
    while len(found) < count:
        decoding = draw.choice((0, draw.randint(1, 8), draw.randint(1, 256)))
        prompts: list[Prompt] = [(draw.randint(2, draw.choice((128, 2048))), draw.choice((0, draw.randint(1, 9000))),
                                  draw.randint(0, 1)) for _ in range(draw.choice((0, 1, 1, 2, 3)))]
        if decoding or prompts:
            found.append(Shape(decoding, decoding * draw.randint(16, 9000) + draw.randrange(decoding or 1),
                               tuple(prompts), draw.choice((0, draw.randint(0, 8)))))
    return found


def cpu(work: Callable[[], object]) -> float:
    """Seconds of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def case(model: str, tp: int) -> None:
    """One model."""
    base = design(model, tp)
    replica, shapes = replica_of(base.workload), drawn(200, 1)
    settings = base, replica, 0, Buckets(context=1), {}
    simulated, tables = Simulated(*settings), times_of(*settings)
    built = cpu(lambda: [tables.of(each) for each in shapes])
    warm = cpu(lambda: [tables.of(each) for each in shapes]) / len(shapes)
    tables.decoding(64, 64_000, 50)
    row = cpu(lambda: [tables.decoding(64, 64_000, 50) for _ in range(100)]) / 100
    each = cpu(lambda: [simulated.of(each) for each in shapes]) / len(shapes)
    off = [abs(tables.of(each) / simulated.of(each) - 1) for each in shapes]
    one = cpu(lambda: step_times(design(model, tp), replica, [Shape(64, 64_000)]))
    print(f"{model}, tp {tp}: {tables.how}; error mean {100 * np.mean(off):.3f} %, largest {100 * max(off):.2f} %; "
          f"built in {built:.2f} s; step {1e6 * warm:.1f} us ({1e3 * each:.1f} ms simulated), 50 decode steps "
          f"{1e6 * row:.1f} us; one decode point {1e3 * one:.0f} ms")


def stream(model: str, tp: int) -> None:
    """A stream like Azure's conversations (LLM inference trace 2023): mean 1,155 and 211 tokens, 5.4 a second."""
    requests = Poisson(rate=5.4, count=19_366, seed=1, prompt=Lognormal(mean=1155, cv=0.96, high=14_050),
                       output=Lognormal(mean=211, cv=0.77, high=1000))
    spent = cpu(lambda: serve(design(model, tp), requests, Policy()))
    print(f"{model}, tp {tp}: 19,366 requests in {spent:.1f} s")


def _model(text: str) -> tuple[str, int]:
    """A model of the catalog and its ranks of tp."""
    name, _, tp = text.partition(":")
    return name, int(tp)


def main() -> None:
    """Every model, and one stream."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=_model, metavar="MODEL:TP", default=[_model(each) for each in MODELS])
    models: list[tuple[str, int]] = parser.parse_args().models
    for model, tp in models:
        case(model, tp)
    stream(*models[min(1, len(models) - 1)])


if __name__ == "__main__":
    main()
