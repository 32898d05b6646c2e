"""Books of parameters: each number has a mark and a source, clusters inherit, values change and scale."""

from __future__ import annotations

from pathlib import Path

import pytest
from comet import Lab, ratio
from comet.cases import case_of
from comet.machines import cluster_of
from tests.examples.comet.book import TEXT, book

from astrarium.errors import InputError
from astrarium.units import FlopRate


def test_reads(tmp_path: Path) -> None:
    found = book(tmp_path)
    assert found.value("clusters.A0.peak") == "100 TFLOP/s"
    assert found.source("clusters.A0.peak") == "a sheet, https://example.org (table 1)"
    assert found.source("clusters.A0.capacity") == "small"
    assert found.names("clusters") == ("A0", "A1", "B0")
    plain = found.plain("clusters.B0")
    assert (plain["peak"], plain["dims"][0]["npus"], plain["dims"][1]["bandwidth"], plain["expansion"]["capacity"]) == (
        "200 TFLOP/s", 4, "100 GB/s", "1 GB")


def test_a_change_reaches_those_that_are_like_it(tmp_path: Path) -> None:
    found = book(tmp_path)
    changed = found.changed({"clusters.A0.dims[1].bandwidth": "20 GB/s", "cases.small.workload.micro_batch": 1})
    assert [changed.plain(f"clusters.{name}")["dims"][1]["bandwidth"] for name in ("A0", "A1", "B0")] == [
        "20 GB/s", "20 GB/s", "100 GB/s"]
    assert changed.plain("cases.small")["workload"]["micro_batch"] == 1
    assert found.plain("clusters.A1")["dims"][1]["bandwidth"] == "10 GB/s"
    assert found.changed({"clusters.*.peak": "1 TFLOP/s"}).plain("clusters.B0")["peak"] == "1 TFLOP/s"


def test_scaling_what_another_cluster_says(tmp_path: Path) -> None:
    scaled = book(tmp_path).scaled({"clusters.A1.peak": 3})
    peaks = [cluster_of(scaled, name).peak for name in ("A0", "A1", "B0")]
    assert peaks == [FlopRate("100 TFLOP/s"), FlopRate("300 TFLOP/s"), FlopRate("200 TFLOP/s")]


@pytest.mark.parametrize(("old", "new", "says"), [
    ("peak: {value: 100 TFLOP/s, mark: R, source: \"sheet: table 1\"}", "peak: 100 TFLOP/s", "has no source"),
    ("mark: V, source: twice", "mark: X, source: twice", "mark 'X' is none"),
    ("mark: V, source: twice", "mark: V, source: ' '", "has no source"),
    ("mark: V, source: twice", "mark: V, source: twice, page: 3", "unknown key"),
    ("like: A1", "like: A9", "A9"),
    ("like: A0", "like: B0", "like each other"),
    ("collective:", "colective:", "did you mean 'collective'"),
    ("      global_batch: {value: 64, mark: A, source: small}", "      global_batch: 64", "has no source"),
    ('sources: {sheet: "a sheet, https://example.org"}', "sources: [sheet]", "sources: .*does not name sources"),
    ("  - {name: faster, scale: {clusters.*.peak: 2}}", "  - faster", r"sensitivities\[0\]: 'faster' is no mapping"),
    ("scale: {clusters.*.peak: 2}", "scale: clusters.*.peak", r"sensitivities\[0\].scale: .*expected path: number"),
    ("scale: {clusters.*.peak: 2}", "scal: {clusters.*.peak: 2}", "unknown key; .*did you mean 'scale'"),
    ("from: 0.125, to: 8", "from: -1, to: 8", r"questions\[0\].from: -1 is impossible; expected a number above 0"),
    (", from: 0.125, to: 8", ", to: 8", r"questions\[0\].from: is missing")])
def test_refuses(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in TEXT
    with pytest.raises(InputError, match=says):
        book(tmp_path, TEXT.replace(old, new))


@pytest.mark.parametrize(("old", "new", "says"), [
    ("nodes: {value: 8,", "nodes: {value: eight,", r"cases.small.nodes: \['eight'\] is impossible"),
    ("splits: {value: [8, 4, 2, 1],", "splits: {value: [0],", "cases.small.splits: .*whole numbers above 0"),
    ("axes: {model: tp, data: dp}", "axes: {model: tp}", "cases.small.axes.data: is missing"),
    ("[weights, gradients, states, activations, working]", "[weigths]", "footprint.parts: 'weigths' is no part of"),
    ("update: {value: true,", "update: {value: 3,", "cases.small.update: 3 is impossible")])
def test_refuses_cases(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in TEXT
    with pytest.raises(InputError, match=says):
        case_of(book(tmp_path, TEXT.replace(old, new)), "small")


def test_refuses_a_torus_as_one_dim(tmp_path: Path) -> None:
    old = "shape: switch\n        npus: {value: 4,"
    found = book(tmp_path, TEXT.replace(old, "shape: torus\n        npus: {value: [2, 2],"))
    with pytest.raises(InputError, match=r"clusters.A0.dims\[0\].shape: torus is several dims; expected its rings"):
        cluster_of(found, "A0")


def test_refuses_ratios_of_nothing(tmp_path: Path) -> None:
    lab = Lab(book(tmp_path, TEXT.replace("expansion: {value: [[A0, A1]],", "expansion: {value: [[A0]],")))
    with pytest.raises(InputError, match=r"ratios.expansion: .*expected a list of clusters, or of pairs"):
        ratio(lab, "small", "expansion")


def test_refuses_paths_that_are_not_there(tmp_path: Path) -> None:
    found = book(tmp_path)
    with pytest.raises(InputError, match=r"did you mean 'clusters\.A0\.peak'"):
        found.value("clusters.A0.peek")
    with pytest.raises(InputError, match="matches no parameter"):
        found.changed({"clusters.*.peek": 1})
    with pytest.raises(InputError, match=r"clusters\.A1\.peek"):
        found.scaled({"clusters.A1.peek": 2})
    with pytest.raises(InputError, match="peak: is not in"):
        found.scaled({"peak": 2})
    with pytest.raises(InputError, match="no number with a unit"):
        found.scaled({"cases.small.axes.model": 2})


def test_the_first_word_of_a_source_may_name_one(tmp_path: Path) -> None:
    text = TEXT.replace("source: few}", "source: sheet; as told}", 1)
    found = book(tmp_path, text.replace("source: twice", "source: twice the sheet"))
    assert found.source("cases.small.nodes") == "a sheet, https://example.org (as told)"
    assert found.source("clusters.B0.peak") == "twice the sheet"
