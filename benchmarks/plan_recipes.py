"""Whether a plan misses what people run: of every model, device and count of measured training steps the fastest row,
beside the plan of the same job (model, samples, stack, network) on the same machine.

usage: plan_recipes.py [FILE.csv ...] [--only TEXT] [--most NPUS]     (files as `astrarium validate` reads them; left
                                                     out: those of benchmarks/data and the shared ones, where they are)

A row passes where the recipe is one of the five lines, or where the interval of the best line begins at or below its
measured time (without an interval: the best line's time is at or below it). Others need a reason in REASONS.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from astrarium import catalog
from astrarium.design import Design
from astrarium.errors import AstrariumError
from astrarium.planner.job import Job
from astrarium.planner.layout import Layout
from astrarium.planner.machine import Machine
from astrarium.planner.planning import planned
from astrarium.planner.reserve import reserve_of
from astrarium.validate.designs import Candidate, candidates
from astrarium.validate.room import fits
from astrarium.validate.rows import Row, read_rows
from astrarium.workload.transformer import Transformer

__all__ = ["REASONS", "Verdict", "fastest", "files", "judged"]

HERE = Path(__file__).parent
SHARED = HERE.parents[1] / "shared" / "reference" / "validation_training.csv"
PARTS = tuple(name for name in Layout.__struct_fields__ if name not in ("tp_sequence", "recompute"))
REASONS: Mapping[str, str] = MappingProxyType({
    "gpt3-nvidia-b200-64": "no interval of nemo-24 on B200: the best line is 0.9 % above the measured time (the recipe "
                           "itself is predicted at 42.4 s, 17 % above)"})
"""Case -> why the plan does not have its recipe, nor anything that may be as fast as it was measured."""


class Verdict(Struct, frozen=True):
    """A row beside its plan: times in s; `place` of the recipe among the lines, 0: none; `low`: where the interval of
    the best line begins, its time where there is none."""

    case: str
    recipe: Layout
    measured: float
    best: Layout
    predicted: float
    low: float
    place: int

    @property
    def passes(self) -> bool:
        """Whether the plan has the recipe or may be as fast."""
        return self.place > 0 or self.low <= self.measured


def files() -> list[Path]:
    """Those that are there."""
    return [path for path in (HERE / "data" / "mlperf.csv", HERE / "data" / "fsdp.csv", SHARED) if path.exists()]


def fastest(rows: Iterable[Row]) -> Iterator[tuple[Row, Candidate, float]]:
    """Of every stack, model, device and count the row with the most tokens per second, with what it means and its
    step in s; small counts first."""
    found: dict[tuple[Any, ...], tuple[float, Row, Candidate, float]] = {}
    for row in rows:
        try:
            meant = candidates(row)
        except AstrariumError:
            continue
        one = next((each for each in meant if fits(each.design)), meant[0])
        work, step = _work(one.design), _step(row, one)
        if step is None or not one.stated:
            continue
        key = one.stack, one.device, row.count("n_gpus"), row.text("model"), row.count("layers"), row.count("hidden")
        rate = work.global_batch * (work.seq or 1) / step
        if key not in found or rate > found[key][0]:
            found[key] = rate, row, one, step
    for _, row, one, step in sorted(found.values(), key=lambda each: each[1].count("n_gpus") or 0):
        yield row, one, step


def judged(one: Candidate, case: str, step: float, **more: Any) -> Verdict:
    """The plan of a row's job; `more` as in `planned`. Raises InputError."""
    design, work = one.design, _work(one.design)
    reset = dict.fromkeys(PARTS, 1) | {"zero": 0, "recompute": "none", "tp_sequence": False, "schedule": "1f1b",
                                           "stage_layers": None, "zero_ranks": None, "prefetch": None}
    job = Job(Transformer(**{**{name: getattr(work, name) for name in asdict(work)}, **reset}))
    machine = Machine(one.device, design.compute, design.memory, design.network, design.collective, design.system,
                      one.stack, reserve=reserve_of(None, one.stack))
    sharded = "zero" in catalog.load("stacks")[one.stack]["workload"] and one.stack.startswith("fsdp")
    found = planned(job, [machine], case, fixed={"zero": [work.zero]} if sharded else None, **more)
    recipe = Layout(**{name: getattr(work, name) for name in Layout.__struct_fields__})
    around = found.best.within.around(found.best.time)
    return Verdict(case, recipe, step, found.best.layout, found.best.time / 1e9,
                   (found.best.time if around is None else around[0]) / 1e9,
                   next((place for place, line in enumerate(found.lines, 1) if line.layout == recipe), 0))


def _work(design: Design) -> Transformer:
    assert isinstance(design.workload, Transformer)
    return design.workload


def _step(row: Row, one: Candidate) -> float | None:
    """Seconds of a step, or what its tokens per second say."""
    work, rate = _work(one.design), row.number("tok_s_gpu")
    if row.number("step_s") is not None or rate is None or not work.seq:
        return row.number("step_s")
    return work.global_batch * work.seq / rate / (row.count("n_gpus") or 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--only", default="", help="cases with this text")
    parser.add_argument("--most", type=int, default=1 << 30, help="NPUs of a row at most")
    options = parser.parse_args()
    rows = [row for path in options.files or files() for row in read_rows(path) if row.kind == "training"]
    count = dict.fromkeys(("listed", "as fast", "reason", "MISSED"), 0)
    for row, one, step in fastest(rows):
        if options.only not in row.case or (row.count("n_gpus") or 0) > options.most:
            continue
        begin = time.process_time()
        try:
            found = judged(one, row.case, step)
        except AstrariumError as error:
            print(f"{'refused':<8} {row.case}: {error}", flush=True)
            continue
        said = "listed" if found.place else "as fast" if found.passes else \
            "reason" if row.case in REASONS else "MISSED"
        count[said] += 1
        print(f"{said:<8} {row.case:<28} {one.stack:<13} measured {found.measured:8.3f} s  {found.recipe}\n"
              f"{'':<37} {f'line {found.place}' if found.place else '':<13} planned  {found.predicted:8.3f} s  "
              f"{found.best}  (from {found.low:.3f} s; {time.process_time() - begin:.1f} CPU s)", flush=True)
        if said == "reason":
            print(f"{'':<9}{REASONS[row.case]}")
    print(", ".join(f"{number} {what}" for what, number in count.items()))


if __name__ == "__main__":
    main()
