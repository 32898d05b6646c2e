"""Figures: from the registry, of plug-ins too, printed by `run`, objectives of searches."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import astrarium as ar
from astrarium import registry
from astrarium.cli import main
from astrarium.cost import FIGURES, Figure, figures, sentence
from astrarium.cost import known as known_figures
from astrarium.errors import InputError
from astrarium.report.tables.figures import figure_table
from astrarium.search import Space, search

MILLION = Figure(of_both=lambda design, result: float(result.makespan_ps) * design.network.npus / 1e6, label="millions",
                 shown=lambda value: f"{value:.3f} M")
NO_FIGURE = 7


def design() -> ar.Design:
    return ar.Design(workload=ar.SingleCollective(op="all_reduce", payload="1 MB"),
                     network=ar.Network([ar.Ring(4, bandwidth="50 GB/s", latency="500 ns")]))


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two plug-ins of kind figure: one is a Figure."""
    points = [importlib.metadata.EntryPoint(name, f"{__name__}:{target}", registry.GROUP)
              for name, target in (("figure.millions", "MILLION"), ("figure.wrong", "NO_FIGURE"))]
    monkeypatch.setitem(__import__("sys").modules, __name__, type("M", (), {"MILLION": MILLION,
                                                                             "NO_FIGURE": NO_FIGURE}))
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points if group == registry.GROUP else [])
    monkeypatch.setattr("astrarium.entry_points._mentioned", lambda: True)
    registry._plugins.cache_clear()
    known_figures._loaded.cache_clear()
    yield
    monkeypatch.undo()
    registry._plugins.cache_clear()
    known_figures._loaded.cache_clear()


def test_every_figure_is_a_line_of_the_registry() -> None:
    assert list(FIGURES) == list(registry.names("figure"))
    assert all(isinstance(figure, Figure) for figure in FIGURES.values())
    assert all(sum(way is not None for way in (each.of_result, each.of_both, each.of_design)) == 1
               for each in FIGURES.values())
    assert sentence("energy").startswith("Joules")
    assert "makespam" not in FIGURES
    with pytest.raises(KeyError):
        FIGURES["makespam"]


def test_a_plug_in_is_an_objective(plugged: None) -> None:
    space = Space(design(), {"network.dims[0].latency": ["500 ns", "1 us"]})
    best = search(space, minimize="millions", agent="grid", trials=2).best
    assert best is not None
    expected = ar.simulate(design()).makespan_ps * 4 / 1e6
    assert best.verdict.values == (pytest.approx(expected),)
    found = figures(design(), ar.simulate(design()), ["millions"])
    assert found == {"millions": pytest.approx(expected)}
    table = figure_table(found, {})
    assert table is not None
    assert table.rows == [("millions", f"{expected:.3f} M")]
    with pytest.raises(InputError, match=r"figure\.wrong: is of int; expected an astrarium\.cost\.Figure"):
        FIGURES["wrong"]


def test_figures_that_a_design_lacks_the_data_for_are_left_out() -> None:
    plain = design()
    assert figures(plain, ar.simulate(plain)) == {}
    powered = ar.replace_all(plain, {"compute.power": "700 W", "compute.idle_power": "80 W", "compute.price": 30000,
                                     "network.dims[0].energy": "2 pJ/bit"})
    found = figures(powered, ar.simulate(powered))
    assert set(found) == {"energy", "system_cost"}
    with pytest.raises(InputError, match=r"energy: is not known without compute\.power"):
        figures(plain, ar.simulate(plain), ["energy"])
    with pytest.raises(InputError, match="did you mean 'energy'"):
        figures(plain, ar.simulate(plain), ["enrgy"])
    assert set(figures(powered, ar.simulate(powered, record=False))) == {"system_cost"}


STEP = """
workload: {source: transformer, model: gpt2-small, tp: 2, dp: 2, global_batch: 8, seq: 512}
compute: {model: roofline, peak: 312 TFLOP/s, hourly_price: 2.5}
memory: {bandwidth: 2039 GB/s, capacity: 80 GB}
network: {dims: [{shape: switch, npus: 4, bandwidth: 300 GB/s, latency: 500 ns}]}
"""


def test_run_prints_figures_and_what_holds_for_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "step.yaml"
    path.write_text(STEP)
    assert main(["run", str(path)]) == 0
    said = capsys.readouterr().out
    assert ("training: 512 tokens a sample, 8 samples a step, bf16; bf16 peak 312 TFLOP/s\n"
            "with roofline kernels, simulated collectives, no stack named\n") in said
    for label in ("MFU", "HFU", "tokens/s/NPU", "samples/s", "price of 10^12 tokens"):
        assert label in said
    assert main(["run", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["training"] == {"sequence_tokens": 512, "global_batch": 8, "ranks": 4, "precision": "bf16",
                                 "peak_precision": "bf16", "peak_flop_per_ns": [312_000.0],
                                 "kernels": ["roofline"], "collectives": "simulated", "stack": None}
    assert found["figures"] == pytest.approx(figures(ar.load_design(path), ar.simulate(ar.load_design(path))))


@pytest.mark.parametrize(("compute", "peak"), [
    ("{model: measured, device: h100_sxm}", 2.0), ("{model: roofline, peak: 989 TFLOP/s}", 1.0),
    ("{model: analytic, peak: 989 TFLOP/s, fp8_peak: 1500 TFLOP/s, units: 132}", 1500 / 989)])
def test_utilisation_in_fp8_is_of_the_peak_in_fp8(compute: str, peak: float) -> None:
    text = (f"workload: {{source: transformer, model: llama3-8b, global_batch: 1, seq: 1024}}\ncompute: {compute}\n"
            "memory: {capacity: 800 GB, bandwidth: 3.35 TB/s}\n"
            "network: {dims: [{shape: switch, npus: 1, bandwidth: 1 GB/s, latency: 1 us}]}\n")
    plain = ar.config.loads(ar.Design, text)
    step = ar.simulate(plain)
    assert FIGURES["mfu"].measure(plain, step) == pytest.approx(peak * FIGURES["mfu"].measure(
        ar.replace(plain, "workload.precision.products", "fp8"), step), rel=0.01)
