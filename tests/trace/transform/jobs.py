"""Small jobs for the tests of transforms: generated training, random graphs, one linked trace."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from astrarium.collective.config import Collective
from astrarium.compute.config import Replay, Roofline
from astrarium.design import Design
from astrarium.memory.config import Memory
from astrarium.network.config import Network, Switch
from astrarium.simulate import simulate
from astrarium.trace import TraceBuilder, check
from astrarium.trace.export import write_generated
from astrarium.trace.transform import Job, load_job, write_job
from astrarium.trace.transform.files import Files
from astrarium.vocab import CommOp
from astrarium.workload.config import Trace
from astrarium.workload.generate import generate
from astrarium.workload.transformer import Transformer

__all__ = ["assert_valid", "generated", "makespan", "random_jobs", "trained"]

MODEL = {"family": "decoder", "layers": 2, "d_model": 256, "heads": 4, "ffn": 1024, "vocab": 1024, "seq": 128}


def trained(**fields: object) -> Transformer:
    """Training of a small decoder."""
    return Transformer(model=MODEL, **{"global_batch": 8, "clip": False, **fields})  # type: ignore[arg-type]


def generated(**fields: object) -> Job:
    """The job of `trained(**fields)`."""
    with tempfile.TemporaryDirectory() as folder:
        write_generated(generate(trained(**fields)), f"{folder}/w")
        job = load_job(f"{folder}/w")
        return Job(Files(len(job.files), list(job.files).__getitem__), job.groups)


def assert_valid(job: Job) -> None:
    """The doctor finds no error."""
    found = [finding for finding in check(job.traces(), job.groups) if finding.severity == "error"]
    assert not found, found[:3]


def makespan(job: Job, *, roofline: bool = True) -> float:
    """Simulated time in ns on a switch."""
    with tempfile.TemporaryDirectory() as folder:
        written = write_job(job, Path(folder) / "w")
        design = Design(
            workload=Trace(f"{folder}/w", **({"groups": written.groups} if written.groups else {})),
            compute=Roofline(peak="100 TFLOP/s") if roofline else Replay(),
            memory=Memory(capacity="80 GB", bandwidth="2 TB/s"), collective=Collective(),
            network=Network([Switch(len(job.files), bandwidth="100 GB/s", latency="500 ns")]))
        return float(simulate(design).makespan)


@st.composite
def random_jobs(draw: st.DrawFn) -> Job:
    """Four ranks of one random graph: host and device nodes, collectives of pairs or of all, messages round a ring."""
    count, graph = draw(st.integers(1, 14)), np.random.default_rng(draw(st.integers(0, 2**32)))
    plan = []
    for place in range(count):
        kind = draw(st.sampled_from(["host", "gpu", "coll", "all", "send"]))
        after = tuple(graph.choice(place, min(place, int(graph.integers(0, 4))), replace=False).tolist())
        ctrl = tuple(graph.choice(place, min(place, int(graph.integers(0, 2))), replace=False).tolist())
        plan.append((kind, after, ctrl, int(graph.integers(0, 40))))
    return Job([_file(rank, plan) for rank in range(4)], {"1": (0, 1), "2": (2, 3)})


def _file(rank: int, plan: list[tuple[str, tuple[int, ...], tuple[int, ...], int]]) -> bytes:
    made = TraceBuilder()
    for place, (kind, after, ctrl, size) in enumerate(plan):
        more = {"after": [2 * each for each in after], "ctrl": [2 * each for each in ctrl], "id": 2 * place}
        if kind == "send":
            made.send(f"s{place}", (rank + 1) % 4, size + 1, place, **more)
            made.recv(f"r{place}", (rank - 1) % 4, size + 1, place, id=2 * place + 1, after=more["after"])
        elif kind in ("coll", "all"):
            made.coll(f"c{place}", CommOp.ALL_REDUCE, size + 1, group=1 + rank // 2 if kind == "coll" else None, **more)
        else:
            made.comp(f"{kind}{place % 3}", size, cpu=kind == "host", **more)
    return made.encode()
