"""The recurrent network: what numpy runs is what PyTorch trained, and whatever it draws is a valid trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from astrarium.errors import InputError
from astrarium.synthesise import Example, Model, learn, load_model, sample, save_model
from astrarium.synthesise.fold import CLOSE, OPEN
from astrarium.synthesise.network import Array, Network, Runner, _gru
from astrarium.synthesise.sample import Heads

from .corpus import examples, held_out, makespan

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def trained() -> tuple[Model, Network, list[Example]]:
    from astrarium.synthesise.train import train

    found = examples(12)
    model = learn(found)
    return model, train(model, found, steps=12), found


def test_numpy_runs_what_torch_trained() -> None:
    cell = torch.nn.GRUCell(5, 7)
    a = {"w_ih": cell.weight_ih, "w_hh": cell.weight_hh, "b_ih": cell.bias_ih, "b_hh": cell.bias_hh}
    x, state = torch.randn(1, 5), torch.randn(1, 7)
    ours = _gru({name: each.detach().numpy().astype(np.float64) for name, each in a.items()}, x[0].numpy(),
                state[0].numpy())
    np.testing.assert_allclose(ours, cell(x, state)[0].detach().numpy(), rtol=1e-5, atol=1e-6)


def test_equal_training_gives_equal_weights(trained: tuple[Model, Network, list[Example]]) -> None:
    from astrarium.synthesise.train import train

    model, network, found = trained
    again = train(model, found, steps=12)
    assert {name: each.data for name, each in again.arrays.items()} == \
        {name: each.data for name, each in network.arrays.items()}
    with pytest.raises(InputError, match="other examples"):
        train(model, found[:3])


def test_what_an_untrained_network_draws_still_runs(trained: tuple[Model, Network, list[Example]],
                                                    tmp_path: Path) -> None:
    """Twelve steps teach it nothing: orders are noise. Traces are valid all the same, on every stage."""
    save_model(tmp_path / "m", trained[0], trained[1])
    stored = load_model(tmp_path / "m")
    assert stored.network is not None
    runner = Runner(stored.network, stored.model)
    for seed, (c, _) in enumerate(held_out(6, seed=2)):
        small = {**c, "layers": c["pp"] * 2, "dp": 2.0}
        program = runner.program({**small, "stage": 0.0}, np.random.default_rng(seed))
        assert program.count(OPEN) == program.count(CLOSE)
        made = sample(stored.model, small, seed=seed, extrapolate=True, heads=Heads(runner.program, runner.centres))
        assert makespan(made, small) >= 0


def test_networks_whose_shapes_do_not_fit_are_refused(trained: tuple[Model, Network, list[Example]],
                                                      tmp_path: Path) -> None:
    import msgspec

    model, network, _ = trained
    for name, bad in (("out_b", Array([3], b"\0" * 12)), ("w_hh", Array([2, 2], b"\0" * 12)),
                      ("b1", Array.of(np.full(64, np.nan)))):
        wrong = msgspec.structs.replace(network, arrays={**network.arrays, name: bad})
        save_model(tmp_path / "m", model, wrong)
        with pytest.raises(InputError, match="no valid model"):
            load_model(tmp_path / "m")
