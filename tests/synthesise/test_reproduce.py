"""A model is asked for what it learned from, and says so where it cannot give it back."""

from __future__ import annotations

import pytest

from astrarium.cli.trace_synthesise import DOUBTFUL
from astrarium.config import replace as changed
from astrarium.synthesise import examples_of_generated, learn, reproduced
from astrarium.workload.corpus import draw_corpus
from astrarium.workload.generate import generate

from .corpus import MODELS


def test_what_conditions_do_not_say_is_said_not_to() -> None:
    """Of two traces of each conditions, one shards its weights."""
    found = [example for c, work in draw_corpus(MODELS, 6) for zero in (0, 3)
             for example in examples_of_generated(generate(changed(work, "zero", zero)), c)]
    assert reproduced(learn(found), found).median > DOUBTFUL


EXAM = pytest.mark.exam


@pytest.mark.parametrize(("zero", "count"), [pytest.param(1, 40, marks=EXAM), pytest.param(2, 40, marks=EXAM),
                                             pytest.param(3, 40, marks=EXAM), (3, 10)])
def test_sharded_optimizers_gradients_and_weights_come_back(zero: int, count: int) -> None:
    """Of ZeRO 1, collectives of one name take gradients of two kinds of weights: what follows tells them apart. Of 2,
    what is left is reduced after every micro-batch; of 3, weights come one block ahead. (1 and 2 of one model, and not
    of several: `test_parts`.)"""
    found = [example for c, work in draw_corpus(MODELS, count)
             for example in examples_of_generated(generate(changed(work, "zero", zero)), c)]
    assert reproduced(learn(found), found).median < 0.02
