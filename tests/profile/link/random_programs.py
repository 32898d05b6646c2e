"""Programs for `machine.py` drawn from a seed: kernels, copies, waits of every kind, two streams, two threads."""

from __future__ import annotations

import random
from functools import partial

from .machine import NCCL, REDUCED, Machine, Program, steps


def program(seed: int) -> Program:
    """Three steps of 10 to 60 operators per thread, bound by the host or by the GPU. The same however often it runs."""
    def run(m: Machine) -> None:
        draw = random.Random(seed)
        kernels, host, waits = draw.choice([1, 3, 10, 50]), draw.choice([2, 10, 40]), draw.choice([0.02, 0.1, 0.4])
        streams, threads = draw.random() < 0.5, draw.random() < 0.3
        body = partial(_body, m, draw, kernels, host, waits, streams)

        def step() -> None:
            body()
            if threads:
                m.op("## backward ##", lambda: m.on_thread(200, body), cat="user_annotation")

        for _ in range(3):
            steps(m, 1, step)
            m.synchronize("device")

    return run


def _body(m: Machine, draw: random.Random, kernels: int, host: int, waits: float, streams: bool) -> None:
    for _ in range(draw.randint(10, 60)):
        what = draw.random()
        if what < waits:
            _wait(m, draw)
        elif streams and what < waits + 0.15:
            m.record("ready", 7)
            m.wait(20, "ready")
            m.launch(NCCL, kernels * draw.choice([5, 20]), 20, args=REDUCED)
            if draw.random() < 0.5:
                m.record("reduced", 20)
                m.wait(7, "reduced")
        else:
            m.op("aten::mm", lambda: m.launch("mm", kernels * draw.choice([1, 2, 5])), before=host * draw.random() + 1)


def _wait(m: Machine, draw: random.Random) -> None:
    what = draw.choice(["copy", "stream", "device", "event"])
    if what == "copy":
        m.op("aten::item", lambda: m.blocking_copy(2.0))
    elif what == "event":
        m.record("done", 7)
        m.synchronize("event", event="done")
    else:
        m.synchronize(what)
