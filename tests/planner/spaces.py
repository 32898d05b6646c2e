"""Small spaces of layouts that can be simulated whole."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from astrarium.lower.kept import Kept
from astrarium.planner.explore import memory_of, workload_of
from astrarium.planner.job import Job, job_of
from astrarium.planner.layout import Layout, layouts
from astrarium.planner.machine import Machine, machine_of
from astrarium.planner.planning import settings_for
from astrarium.simulate import simulate
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.experts import Experts

DENSE = Decoder(layers=8, d_model=2048, heads=16, kv_heads=8, ffn=5504, vocab=32000)
SPARSE = Decoder(layers=4, d_model=1024, heads=8, ffn=2816, vocab=32000,
                 moe=Experts(experts=8, top_k=2, expert_ffn=2816))


class Case(Struct, frozen=True):
    """A job on a machine, with parts of the layout fixed so that all of it can be simulated."""

    name: str
    model: Any
    device: str
    npus: int
    seq: int
    batch: int
    fixed: dict[str, Any]
    how: tuple[str, str, str | None] = ("roofline", "simulated", None)      # compute, collectives, stack

    @property
    def job(self) -> Job:
        return job_of(self.model, **settings_for(self.machine, {"seq": self.seq, "global_batch": self.batch}))

    @property
    def machine(self) -> Machine:
        return machine_of(self.device, self.npus, None, *self.how)


QUICK = Case("dense", DENSE, "h100_sxm", 16, 2048, 16, {"micro_batch": [1, 2], "recompute": ["none"],
                                                       "zero": [0, 3], "virtual_stages": [1, 2], "cp": [1]})
MEASURED = replace(QUICK, name="measured", fixed={**QUICK.fixed, "micro_batch": [1], "zero": [0, 3]},
                   how=("measured", "measured", "nemo"))
LONG = (
    Case("zero and recomputation", DENSE, "a100_sxm_80gb", 32, 2048, 64,
         {"cp": [1], "micro_batch": [1, 4], "virtual_stages": [1, 2]}),
    Case("experts", SPARSE, "h100_sxm", 16, 4096, 16, {"micro_batch": [1, 2], "recompute": ["none", "full"]}),
    Case("long samples", DENSE, "b200", 16, 32768, 8, {"micro_batch": [1], "zero": [1, 3]}),
    Case("70B on 64", "llama3-70b", "h200_sxm", 64, 4096, 64,
         {"cp": [1], "micro_batch": [1, 2], "zero": [1, 3], "tp": [2, 4, 8]}),
    Case("uneven stages", Decoder(layers=14, d_model=2048, heads=16, ffn=8192, vocab=50257), "mi300x", 64, 2048, 64,
         {"cp": [1], "recompute": ["none", "selective"], "zero": [0, 1]}),
)


def exhaustive(case: Case) -> dict[Layout, float]:
    """ns of a step of every layout that fits."""
    job, machine, kept = case.job, case.machine, Kept()
    found = {}
    for layout in layouts(job, machine.npus, machine.host, case.fixed):
        workload = workload_of(job, layout)
        if memory_of(workload, kept) <= machine.capacity:
            found[layout] = float(simulate(machine.design(workload), record=False, kept=kept).makespan)
    return found
