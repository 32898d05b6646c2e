"""Blocks whose numbers are computed from a form are those that are lowered directly, to the last bit."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from astrarium.errors import InputError
from astrarium.workload.graph import Forms, Options, lower_stack
from astrarium.workload.graph.amount import Tape, largest
from astrarium.workload.graph.options import AXES
from astrarium.workload.model.base import Model
from astrarium.workload.model.dlrm import Dlrm
from astrarium.workload.model.stacks import stack_of
from astrarium.workload.transformer import Transformer

MODELS = ("cosmic-gpt3-175b", "llama3-8b", "gpt2-small", "mixtral-8x7b", "deepseek-v2", "vit-b-16", "t5-11b",
          "dit-xl-2", "mamba2-1.3b", "dlrm-dcnv2")


def _model(name: str) -> Model:
    return Transformer(model=name, global_batch=1).model


def _options(rng: random.Random, seq: int, axes: Sequence[str]) -> Options:
    chosen = rng.choice
    degrees = {axis: chosen((1, 2, 3, 4)) for axis in axes}
    return Options(degrees, chosen((8, 24)), seq, tp_sequence=chosen((False, True)),
                   sp_attention=chosen(("gather", "all_to_all")), cp_attention=chosen(("gather", "ring")),
                   mask=chosen(("full", "skip")), recompute=chosen(("none", "selective", "full")),
                   fuse=chosen((True, False)), dropout=chosen((True, False)), uneven=chosen(("pad", "fractional")))


@pytest.mark.parametrize("name", MODELS)
def test_a_form_gives_what_lowering_gives(name: str) -> None:
    model, forms, rng = _model(name), Forms(), random.Random(name)
    for _ in range(5):
        options = _options(rng, getattr(model, "seq", 1), ("ep", "edp") if isinstance(model, Dlrm) else AXES)
        stack = stack_of(model, options)
        assert lower_stack(stack, options, forms) == lower_stack(stack, options)


def test_a_form_is_shared_by_layouts_of_the_same_axes() -> None:
    model, forms = _model("gpt2-small"), Forms()
    for tp in (2, 4, 3, 12):
        options = Options({"tp": tp}, 8, 1024, uneven="pad")
        lower_stack(stack_of(model, options), options, forms)
    assert len(forms) == 3      # embedding, layer, head


def test_forms_refuse_uneven_sizes_in_the_same_words() -> None:
    model, forms, said = _model("gpt2-small"), Forms(), []
    for given in (None, forms, forms):
        options = Options({"tp": 5}, 8, 1024)
        with pytest.raises(InputError) as error:
            lower_stack(stack_of(model, options), options, given)
        said.append(str(error.value))
    assert said[0] == said[1] == said[2]


def test_an_amount_does_not_decide() -> None:
    amount = Tape().leaf("local", "seq")
    with pytest.raises(TypeError, match="no value yet"):
        max(amount, 1)      # type: ignore[type-var]
    with pytest.raises(TypeError, match="no value yet"):
        bool(amount)


def test_a_program_computes_what_was_wanted() -> None:
    class Sizes:
        def local(self, dim: str) -> int:
            return len(dim)

    tape = Tape()
    amount = tape.leaf("local", "seq")
    wanted = (2 * amount + 1, largest(amount, 5.0), (7 - amount) / 2, sum([amount, amount]), 4)     # type: ignore[arg-type]
    assert tape.program(wanted).run(Sizes()) == [7, 5.0, 2.0, 6, 4]
