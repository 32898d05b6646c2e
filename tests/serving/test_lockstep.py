"""Steps of data-parallel ranks that wait for each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from astrarium.serving.shape import Prompt, Shape
from astrarium.serving.steps.lockstep import Lockstep


class Heard:
    """Remembers which step it was asked for."""

    def __init__(self) -> None:
        self.shapes: list[Shape] = []

    def of(self, shape: Shape, /) -> int:
        self.shapes.append(shape)
        return 7

    @property
    def how(self) -> str:
        return "given"

    def decoding(self, count: int, context: int, steps: int, padding: int = 0, /) -> npt.NDArray[np.int64]:
        self.shapes.append(Shape(count, context, (), padding))
        return np.full(steps, 7, np.int64)


@pytest.mark.parametrize(("shape", "expected"), [
    (Shape(8, 800), Shape(2, 200)), (Shape(9, 900), Shape(3, 300)), (Shape(1, 55), Shape(1, 55)), (Shape(), Shape()),
    (Shape(8, 800, (), 8), Shape(2, 200, (), 2)),
    (Shape(0, 0, ((40, 0, 1), (40, 0, 1), (30, 0, 1), (30, 0, 1), (25, 0, 1))),
     Shape(0, 0, ((30, 0, 1), (25, 0, 1)), shared=(42, 45))),
    (Shape(0, 0, ((100, 0, 1), (60, 8, 0), (60, 8, 0), (30, 0, 1), (30, 0, 1))),
     Shape(0, 0, ((100, 0, 1),), shared=(70, 74))),
    (Shape(5, 500, ((10, 0, 1),)), Shape(2, 200, ((10, 0, 1),), shared=(4, 5))),
    (Shape(5, 500, ((10, 0, 1),), 17), Shape(2, 200, ((10, 0, 1),), 5))])
def test_the_busiest_of_four_ranks(shape: Shape, expected: Shape) -> None:
    heard = Heard()
    times = Lockstep(heard, 4)
    assert times.of(shape) == 7
    if not shape.prompts:
        assert times.decoding(shape.count, shape.context, 3, shape.padding).tolist() == [7] * 3
    assert set(heard.shapes) == {expected}


def test_prompts_fit_the_tokens_of_a_rank() -> None:
    """However prompts are dealt out, no rank has less than its share of the tokens, or more than a prompt beyond it."""
    rng = np.random.Generator(np.random.PCG64(3))
    for _ in range(20):
        prompts: tuple[Prompt, ...] = tuple((int(tokens), 0, 1) for tokens in rng.integers(1, 500, 30))
        heard = Heard()
        Lockstep(heard, 8).of(Shape(0, 0, prompts))
        most, total = (sum(each[0] for each in some) for some in (heard.shapes[0].prompts, prompts))
        assert total / 8 <= most <= total / 8 + max(each[0] for each in prompts)
