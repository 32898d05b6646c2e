"""What several tests of synthesis share: a corpus, the system that traces run on, errors of makespans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from astrarium.compute.config import Roofline
from astrarium.design import Design
from astrarium.memory.config import Memory
from astrarium.network.config import Network, Switch
from astrarium.simulate import simulate
from astrarium.trace.synthesise import Example, examples_of_generated
from astrarium.trace.work import Generated
from astrarium.workload.config import Trace
from astrarium.workload.corpus import draw_corpus
from astrarium.workload.generate import generate

MODELS = ("llama2-7b", "llama2-13b", "llama3-8b", "llama2-70b")
Conditions = Mapping[str, float]


def examples(count: int, part: Literal["learn", "held_out", "fresh"] = "learn", seed: int = 0) -> list[Example]:
    return [example for c, work in draw_corpus(MODELS, count, part=part, seed=seed)
            for example in examples_of_generated(generate(work), c)]


def held_out(count: int, part: Literal["held_out", "fresh"] = "held_out",
             seed: int = 0) -> list[tuple[dict[str, float], Generated]]:
    return [(c, generate(work)) for c, work in draw_corpus(MODELS, count, part=part, seed=seed)]


def makespan(made: Generated, c: Conditions) -> float:
    """On A100s: servers of tp ranks, and what is between them."""
    tp, rest = int(c["tp"]), int(c["dp"] * c["pp"])
    dims = [Switch(tp, bandwidth="300 GB/s", latency="500 ns")] if tp > 1 else []
    dims += [Switch(rest, bandwidth="25 GB/s", latency="2 us")] if rest > 1 or not dims else []
    design = Design(workload=Trace("none"), compute=Roofline(peak="312 TFLOP/s"),
                    memory=Memory(capacity="80 GB", bandwidth="2 TB/s"), network=Network(dims))
    return float(simulate(design, traces=made, record=False).makespan)
