"""Plots: both renderers draw them, their numbers are those of the answer, and what lacks data is refused."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import pytest

import astrarium as ar
from astrarium.report.plot.colours import ROLES, plot_style
from astrarium.report.plot.find import drawing_of, drawn, plots_of
from astrarium.report.plot.plot import MOST, Axis, Column, Layer, Plot
from astrarium.report.plot.quantities import exact, ticks
from astrarium.report.plot.svg import svg, svg_file
from astrarium.report.plot.vega import vega, vega_config

GPIPE = {"workload": {"source": "transformer", "model": "gpt2-small", "seq": 1024, "micro_batch": 1, "pp": 2, "dp": 2,
                      "global_batch": 8}, "compute": {"model": "roofline", "peak": "100 TFLOP/s"},
         "memory": {"bandwidth": "2 TB/s", "capacity": "80 GB"},
         "network": {"dims": [{"shape": "switch", "npus": 4, "bandwidth": "100 GB/s", "latency": "1 us"}]}}


@cache
def _run():
    from astrarium.report.pages.page import ShownRun

    design = ar.decode(ar.Design, GPIPE)
    return ShownRun(design, ar.simulate(design), "run")


@cache
def _plots():
    return dict(plots_of("run", _run()))


def test_a_run_has_its_plots():
    assert set(_plots()) == {"breakdown", "pipeline", "critical_path", "links", "traffic", "memory", "footprint",
                             "roofline", "busbw"}


@pytest.mark.parametrize("name", ["breakdown", "pipeline", "critical_path", "links", "memory", "footprint", "roofline"])
def test_both_renderers_draw_every_mark(name):
    plot = _plots()[name]
    text = ET.fromstring(svg(plot))
    assert (text.get("role"), text.get("aria-label")) == ("img", plot.title)
    assert text.find("{*}desc").text == plot.sentence
    spec = json.loads(json.dumps(vega(plot), allow_nan=False))
    for layer in plot.layers:
        assert len(next(iter(layer.columns.values())).values) <= MOST
        rows = [dict(zip(layer.columns, row)) for row in zip(*(each.values for each in layer.columns.values()))]
        assert any([{name: row.get(name) for name in layer.columns} for row in drawn["data"].get("values", ())] == rows
                   for drawn in spec["layer"])
    bars = sum(len(layer.columns["x"].values) for layer in plot.layers if layer.mark == "bar")
    paths = "".join(each.get("d", "") for each in text.iter("{http://www.w3.org/2000/svg}path"))
    assert len(text.findall(".//{*}rect")) + paths.count("h") >= bars
    assert spec["config"] == vega_config()
    assert vega(plot, dark=True) == spec | {"config": vega_config(dark=True)}
    assert vega_config(dark=True) != vega_config()


def test_numbers_are_those_of_the_run():
    run, plots = _run(), _plots()
    spent = plots["breakdown"].layers[0].columns
    mine = [time for row, part, time in zip(spent["y"].values, spent["colour"].values, spent["time"].values)
            if row.startswith("rank 0") and part == "compute"]
    assert mine == [float(run.result.ranks.compute[0]) / 1000]
    assert max(spent["x2"].values) == pytest.approx(run.result.makespan_ps / 1000)
    path = plots["critical_path"].layers[0].columns
    assert sum(path["time"].values) == pytest.approx(run.result.makespan_ps / 1000)
    assert max(plots["memory"].layers[0].columns["y"].values) == float(run.result.peak_memory)
    assert max(plots["links"].layers[0].columns["most"].values) == float(run.result.links.utilisation.max())


def test_refusals_say_what_to_do():
    run = _run()
    with pytest.raises(ar.InputError, match="draws what report find; expected one of breakdown, "):
        drawing_of("pareto", "run")
    with pytest.raises(ar.InputError, match="queues: true"):
        drawn("link_queues", "run", run)
    unrecorded = ar.simulate(run.design, record=False)
    with pytest.raises(ar.InputError, match="no node times were recorded"):
        ar.plot.breakdown(unrecorded)
    with pytest.raises(ar.InputError, match="no node times"):
        ar.plot.critical_path(unrecorded)
    other = ar.replace(run.design, "workload", ar.SingleCollective(op="all_reduce", payload="1 MB"))
    with pytest.raises(ar.InputError, match="the workload is a SingleCollective; expected a Transformer"):
        ar.plot.pipeline(run.result, other)


def test_more_than_most_marks_are_joined(monkeypatch):
    monkeypatch.setattr("astrarium.report.plot.plots.pipeline.SPANS", 8)
    monkeypatch.setattr("astrarium.report.plot.plots.critical_path.SPANS", 5)
    run, whole = _run(), _plots()
    for name, plot in (("pipeline", ar.plot.pipeline(run.result, run.design)),
                       ("critical_path", ar.plot.critical_path(run.result))):
        assert re.search("are drawn as one", plot.sentence)
        few, every = (sum(end - start for start, end in zip(each.layers[0].columns["x"].values,
                                                            each.layers[0].columns["x2"].values))
                      for each in (plot, whole[name]))
        assert few == pytest.approx(every)      # no time is lost


def test_files(tmp_path):
    plot = _plots()["breakdown"]
    plot.save(str(tmp_path / "a.svg"))
    assert ET.parse(tmp_path / "a.svg").getroot().find("{*}style").text == plot_style()
    plot.save(str(tmp_path / "a.json"))
    assert json.loads((tmp_path / "a.json").read_text())["title"]["text"] == plot.title
    with pytest.raises(ar.InputError, match=r"ends in '.gif'; expected NAME.svg, NAME.png"):
        plot.save(str(tmp_path / "a.gif"))
    assert "<figcaption>" in plot._repr_html_()


def test_names_that_look_like_markup_stay_text():
    evil = "<script>alert(1)</script>\"'&"
    plot = Plot(evil, evil, (Layer("bar", {"y": Column("", [evil]), "colour": Column(evil, [evil]),
                                           "x": Column("", [0.0], "time"), "x2": Column("", [1.0], "time")}),),
                Axis(evil, "time"), Axis(order=(evil,)), {evil: "#000", "b": "#111"})
    assert "<script" not in svg_file(plot)
    ET.fromstring(svg(plot))


@pytest.mark.parametrize(("value", "quantity", "text"), [
    (312_412_345.678, "time", "312.4 ms (312,412,345.678 ns)"), (5.5e7, "money", "55 M$ (55,000,000 $)"),
    (0.25, "share", "25 %"), (12.0, "count", "12"), (2.5e9, "bytes", "2.5 GB (2,500,000,000 B)"), ("a", "", "a"),
    (float("nan"), "time", "none")])
def test_hover_texts_are_exact(value, quantity, text):
    assert exact(value, quantity) == text


def test_ticks():
    assert ticks(0, 8.7e9, log=False, base=1e9) == [0.0, 2e9, 4e9, 6e9, 8e9]
    assert ticks(1, 1000, log=True, most=12) == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    assert ticks(1, 1e9, log=True, most=5) == [1.0, 100.0, 1e4, 1e6, 1e8]


def test_every_role_is_a_variable():
    text = plot_style()
    assert all(text.count(f"--plot-{role}:") == 3 for role in ROLES)


def test_vega_lite_compiles():
    converter = pytest.importorskip("vl_convert")
    for plot in _plots().values():
        assert converter.vegalite_to_vega(vega(plot, 400))["marks"]


def test_the_picture_needs_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    with pytest.raises(ar.InputError, match=r"a PNG needs vl-convert; expected .*pages"):
        _plots()["breakdown"].save(str(tmp_path / "a.png"))
    assert not list(Path(tmp_path).iterdir())


def test_notebooks_show_answers():
    run = _run()
    for text, words in ((run.result._repr_html_(), "Parts of the time"),
                        (run.design._repr_html_(), "Memory when it is fullest")):
        root = ET.fromstring(f"<div>{text}</div>")
        assert words in text
        assert root.find(".//table") is not None
        assert len(text) < 60_000
    assert str(run.result.makespan) in run.result._repr_html_()
    collective = ar.replace(run.design, "workload", ar.SingleCollective(op="all_reduce", payload="1 MB"))
    assert "<svg" not in collective._repr_html_()       # no tensors: tables alone


def test_a_narrow_logarithmic_axis_has_ticks():
    assert ticks(1.9, 4.2, log=True, most=6) == [2.0, 2.5, 3.0, 3.5, 4.0]


def test_long_names_of_a_legend_have_lines_where_it_is_narrow():
    name = "nccl-tests of a cluster in the north, all_reduce, 1,024 GPUs"
    points = Layer("point", {"colour": Column("", [name, "b"]), "x": Column("", [1.0, 2.0], "time"),
                             "y": Column("", [1.0, 2.0], "time")})
    plot = Plot("t", "s", (points,), Axis("x", "time"), Axis("y", "time"), {name: "#000", "b": "#111"})
    legend = vega(plot)["layer"][0]["encoding"]["color"]["legend"]
    lines = json.loads(re.search(r"\{.*\}", legend["labelExpr"])[0])[name]
    assert " ".join(lines) == name
    assert max(map(len, lines)) <= 34
    assert "width /" not in legend["columns"]["expr"]       # which would cut the legend's first lines
    assert f">{name[:20]}" in svg(plot, 340)
    assert f">{name}<" not in svg(plot, 340)                # it would run out of the picture


def test_more_dots_than_fit_are_spread_and_said(monkeypatch):
    from astrarium.report.plot.plot import spread

    monkeypatch.setattr("astrarium.report.plot.plot.MOST", 3)
    assert spread([1, 2, 3]) == ([1, 2, 3], "")
    assert spread(list(range(8))) == ([0, 3, 6], " 3 of 8, evenly spread, are drawn.")
    design = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"), network=ar.Network(
        [ar.Ring(4, bandwidth="50 GB/s", latency="1 us"), ar.Switch(2, bandwidth="25 GB/s", latency="1 us")]))
    assert "drawn" not in ar.plot.busbw(ar.simulate(design)).sentence


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize("payload", ["1 kB", "1 GB"])
def test_no_collective_exceeds_the_limit_of_its_links(op, payload):
    dims = [ar.Ring(4, bandwidth="50 GB/s", latency="1 us"), ar.Switch(2, bandwidth="25 GB/s", latency="1 us")]
    plot = ar.plot.busbw(ar.simulate(ar.Design(workload=ar.SingleCollective(op, payload), network=ar.Network(dims))))
    line, points = plot.layers
    assert line.dash
    limit = {100 + 25, 4 * 25 * 7 / 4} if op != "all_to_all" else {25 * 7 / 4}
    assert set(line.columns["y"].values) == {min(limit)}
    assert 0 < points.columns["y"].values[0] <= min(limit)
    fast = points.columns["y"].values[0] / min(limit)
    assert fast > 0.5 if payload == "1 GB" else fast < 0.3


def test_a_heat_map_says_what_its_colours_mean():
    for name in ("links", "traffic"):
        plot = _plots()[name]
        cells, words = plot.layers[1:]
        most = max(plot.layers[0].columns["most" if name == "links" else "busy"].values)
        assert plot.y.order[-1] == "busy"
        assert words.columns["text"].values[0] == "0 %"
        assert words.columns["text"].values[-1] == f"{100 * most:.3g} %"
        assert cells.columns["opacity"].values[-1] == 1.0


def test_a_calibration_is_nearer_after_it(tmp_path):
    from astrarium.compute.calibration import calibrated, unseen_errors
    from astrarium.compute.timings import read_timings

    (tmp_path / "t.csv").write_text("kind,m,n,k,ns\n" + "".join(
        f"gemm,{m},4096,4096,{60 * m}\n" for m in range(1024, 4096, 512)))
    found = calibrated("h100_sxm", read_timings(str(tmp_path / "t.csv")))
    plot = ar.plot.calibrated_times(found)
    points = plot.layers[-1].columns
    errors = {when: [abs(error) for error, each in zip(points["error"].values, points["colour"].values) if each == when]
              for when in ("before", "after")}
    assert max(errors["after"]) < min(errors["before"])
    assert {60.0 * m for m in range(1024, 4096, 512)} == {round(each, 6) for each, of in zip(
        points["x"].values, points["of"].values) if of.startswith("gemm")}
    before, _ = unseen_errors(found)["gemm/bf16"]
    mine = sorted(abs(error) for error, when, of in zip(points["error"].values, points["colour"].values,
                                                        points["of"].values) if (when, of) == ("before", "gemm/bf16"))
    assert 100 * (mine[2] + mine[3]) / 2 == pytest.approx(before[0], abs=0.02)
    with pytest.raises(ar.InputError, match="fitted, not kernels"):
        ar.plot.calibrated_times({"all_reduce": 0.1})


@pytest.mark.parametrize(("before", "after", "rises"), [(8.0, 2.0, False), (2.0, 8.0, True)])
def test_a_waterfall_of_studies_ends_at_the_second(before, after, rises):
    from astrarium.search.differences import Difference
    from astrarium.search.gains import Gain, Gains

    parts = tuple(Gain((Difference(knob, (), (1,), (2,)),), None, factor)
                  for knob, factor in (("a.b", 5.0), ("a.c", 0.8)))
    plot = ar.plot.waterfall(Gains("makespan", before, after, 4.0, parts, True, 2, 4, 0))
    bars = plot.layers[0].columns
    assert bars["x2"].values[0] == before
    assert bars["x2"].values[-2] == pytest.approx(after)
    assert bars["x2"].values[-1] == after
    assert bars["x"].values[2] == bars["x2"].values[1]
    kinds = ("longer", "shorter") if rises else ("shorter", "longer")
    assert tuple(bars["colour"].values[1:3]) == kinds
    better = plot.colours[kinds[0]]
    assert better == "#228833"


def test_a_waterfall_of_one_knob_names_it_and_compares_nothing():
    base = ar.Design(workload=ar.SingleCollective(op="all_reduce", payload="80 MB"), network=ar.Network(
        [ar.Switch(4, bandwidth="100 GB/s", latency="1 us"), ar.Switch(2, bandwidth="50 GB/s", latency="1 us")]))
    from astrarium.config import replace_all
    from astrarium.search.explain import explain

    said = ar.plot.waterfall(explain(base, replace_all(base, {"network.dims[1].bandwidth": "5 GB/s"}))).sentence
    assert said.endswith("; network.dims[1].bandwidth: 50 GB/s to 5 GB/s is all that differs.")
    two = replace_all(base, {"network.dims[1].bandwidth": "5 GB/s", "network.dims[0].latency": "2 us"})
    assert "matters most" in ar.plot.waterfall(explain(base, two)).sentence
