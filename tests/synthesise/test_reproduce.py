"""A model is asked for what it learned from, and says so where it cannot give it back."""

from __future__ import annotations

import msgspec
import pytest

from astrarium.cli.trace_synthesise import DOUBTFUL
from astrarium.config import replace as changed
from astrarium.errors import InputError
from astrarium.synthesise import Model, examples_of_generated, learn, reproduced, sample
from astrarium.synthesise.laws import Law
from astrarium.workload.corpus import draw_corpus
from astrarium.workload.generate import generate

from .corpus import MODELS, examples


@pytest.fixture(scope="module")
def learned() -> tuple[Model, float]:
    found = examples(40)
    model = learn(found)
    return model, reproduced(model, found).median


def test_dense_traces_come_back(learned: tuple[Model, float]) -> None:
    assert learned[1] < 0.05


def test_what_conditions_do_not_say_is_said_not_to() -> None:
    """Of two traces of each conditions, one shards its weights."""
    found = [example for c, work in draw_corpus(MODELS, 12) for zero in (0, 3)
             for example in examples_of_generated(generate(changed(work, "zero", zero)), c)]
    assert reproduced(learn(found), found).median > DOUBTFUL


EXAM = pytest.mark.exam


@pytest.mark.parametrize("zero", [pytest.param(1, marks=EXAM), pytest.param(2, marks=EXAM), 3])
def test_sharded_optimizers_gradients_and_weights_come_back(zero: int) -> None:
    """Of ZeRO 1, collectives of one name take gradients of two kinds of weights: what follows tells them apart. Of 2,
    what is left is reduced after every micro-batch; of 3, weights come one block ahead. (1 and 2 of one model, and not
    of several: `test_parts`.)"""
    found = [example for c, work in draw_corpus(MODELS, 40)
             for example in examples_of_generated(generate(changed(work, "zero", zero)), c)]
    assert reproduced(learn(found), found).median < 0.02


def test_buckets_that_never_fill_are_refused(learned: tuple[Model, float]) -> None:
    model, _ = learned
    none = Law([1e-6], [[0.0] * (len(model.names) + 2)], False, [0.0] * 10)
    tiny = [msgspec.structs.replace(each, threshold=none) for each in model.buckets]
    conditions = dict(next(draw_corpus(MODELS, 1))[0])
    with pytest.raises(InputError, match="would be sent as"):
        sample(msgspec.structs.replace(model, buckets=tiny), conditions, extrapolate=True)
