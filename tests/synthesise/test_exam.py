"""The long part: a thousand traces of the catalog, held-out sizes and numbers of replicas.
`fresh` is a second held-out part, with sequences and replicas of its own, that nothing was chosen by."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from astrarium.compute.config import Replay
from astrarium.config import replace as changed
from astrarium.report.tables.synthesis import compare, summary, yardstick
from astrarium.simulate import simulate
from astrarium.synthesise import Example, Model, examples_of_generated, learn, sample
from astrarium.trace.work import Generated
from astrarium.workload.corpus import draw_corpus
from astrarium.workload.generate import generate

from .corpus import MODELS, Conditions, examples, held_out

pytestmark = pytest.mark.exam


@pytest.fixture(scope="module")
def learned() -> tuple[Model, list[Example]]:
    found = examples(1000)
    return learn(found), found


@pytest.mark.parametrize("part", ["held_out", "fresh"])
def test_every_held_out_trace_is_simulated_within_ten_percent(learned: tuple[Model, list[Example]], part: str) -> None:
    found = [compare(sample(learned[0], c), real, c, learned[1][:20])
             for c, real in held_out(40, part)]     # type: ignore[arg-type]
    print(part, {name: (round(row["median"], 4), round(row["worst"], 4)) for name, row in summary(found).items()})
    assert max(abs(each.makespan) for each in found) < 0.1
    assert max(each.tokens for each in found) < 0.01
    assert max(each.durations for each in found) < 0.1
    assert max(abs(each.overlap) for each in found) < 0.05
    assert min(each.nearest for each in found) > 0.3


def _timed(made: Generated) -> Generated:
    """The trace with durations, as a profiler would have them, in whole microseconds (roofline of an A100)."""
    out = []
    for trace in made.classes:
        ns = np.maximum(np.nan_to_num(trace.num_ops) / 312e3, trace.tensor_size / 2039)
        out.append(replace(trace, duration_us=np.where(trace.type == 4, np.ceil(ns / 1e3), 0).astype(np.uint64)))
    return replace(made, classes=tuple(out))


def test_durations_are_learned_as_well_as_sizes() -> None:
    """Traces that say how long every node takes, run by those times alone."""
    model = learn([example for c, work in draw_corpus(MODELS, 300)
                   for example in examples_of_generated(_timed(generate(work)), c)])

    def span(made: Generated, c: Conditions) -> float:
        design = changed(yardstick(c), "compute", Replay(missing="1 us"))
        return float(simulate(design, traces=made, record=False).makespan)

    errors = [span(sample(model, c, extrapolate=True), c) / span(_timed(real), c) - 1 for c, real in held_out(30)]
    print(f"median {np.median(np.abs(errors)):.2%}, worst {np.max(np.abs(errors)):.2%}")
    assert np.max(np.abs(errors)) < 0.1
