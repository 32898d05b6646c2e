"""Dotted paths: reading, replacing, command-line assignments, reflection."""

from __future__ import annotations

from pathlib import Path

import pytest

import astrarium as ar
from astrarium import config
from astrarium.config import ConfigError
from astrarium.design import Design
from astrarium.errors import InputError


@pytest.fixture
def design() -> Design:
    return ar.Design(
        workload=ar.Trace("w"),
        network=ar.Network(
            [
                ar.Switch(8, bandwidth="450 GB/s", latency="500 ns"),
                ar.Ring(4, bandwidth="50 GB/s", latency="2 us", one_way=True),
            ]
        ),
    )


def test_get(design: Design) -> None:
    assert ar.get(design, "network.dims[1].bandwidth") == 50.0
    assert str(ar.get(design, "network.dims[1].bandwidth")) == "50 GB/s"
    assert ar.get(design, "network.dims[1].shape") == "ring"
    assert ar.get(design, "network.dims")[0].npus == 8


def test_replace_changes_that_field_and_nothing_else(design: Design) -> None:
    other = ar.replace(design, "network.dims[1].bandwidth", "400 Gb/s")
    assert other == design
    other = ar.replace(design, "network.dims[1].bandwidth", "100 GB/s")
    assert ar.get(other, "network.dims[1].bandwidth") == 100.0
    assert ar.replace(other, "network.dims[1].bandwidth", "50 GB/s") == design
    assert ar.get(design, "network.dims[1].bandwidth") == 50.0


def test_replace_of_a_section_and_of_a_list(design: Design) -> None:
    other = ar.replace(design, "compute", {"model": "replay", "missing": "1 ns"})
    assert other.compute == ar.Replay(missing="1 ns")
    other = ar.replace(design, "compute", ar.Replay(missing="1 ns"))
    assert other.compute == ar.Replay(missing="1 ns")
    other = ar.replace(design, "collective.all_reduce", ["ring", "direct"])
    assert ar.replace(other, "collective.all_reduce[0]", "direct").collective.all_reduce == ("direct", "direct")


def test_the_tag_is_a_knob(design: Design) -> None:
    other = ar.replace(design, "network.dims[0].shape", "fully_connected")
    assert other.network.dims[0] == ar.FullyConnected(8, bandwidth="450 GB/s", latency="500 ns")
    with pytest.raises(ConfigError, match=r"network.dims\[1\].one_way: unknown key"):
        ar.replace(design, "network.dims[1].shape", "switch")


def test_changes_that_need_each_other(design: Design) -> None:
    with pytest.raises(ConfigError, match="is missing"):
        ar.replace(design, "network.dims[0].bandwidth", None)
    other = ar.replace_all(design, {"network.dims[0].bandwidth_per_npu": "1 GB/s", "network.dims[0].bandwidth": None})
    assert other.network.flat[0].link_bandwidth == 1.0
    assert other == ar.replace(design, "network.dims[0].bandwidth_per_npu", "1 GB/s")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("network.dims[2].npus", r"network.dims\[2\]: there is no entry 2; expected 0 to 1"),
        ("network.dimz", "network.dimz: unknown key 'dimz'; .*did you mean 'dims'"),
        ("network.dims[0].bandwith", "did you mean 'bandwidth'"),
        ("network[0]", r"network\[0\]: network is not a list"),
        ("fold.x", "fold.x: fold has no fields"),
        ("", "is not a path"),
        ("a..b", "is not a path"),
        (".network", "is not a path"),
        ("network.dims[x]", "is not a path"),
        ("network.dims[-1]", "is not a path"),
        ("network.", "is not a path"),
        ("9", "is not a path"),
    ],
)
def test_paths_that_lead_nowhere(design: Design, path: str, message: str) -> None:
    for look in (lambda: ar.get(design, path), lambda: ar.replace(design, path, 1)):
        with pytest.raises(InputError, match=message):
            look()


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("collective.all_reduce=[ring, direct]", "collective.all_reduce", ["ring", "direct"]),
        ("network.dims[0].bandwidth=50 GB/s", "network.dims[0].bandwidth", "50 GB/s"),
        ("fold=off", "fold", "off"),
        ("collective.chunks=4", "collective.chunks", 4),
        ("memory.capacity=null", "memory.capacity", None),
        ("workload.path=a=b.et", "workload.path", "a=b.et"),
    ],
)
def test_assignments(text: str, path: str, value: object) -> None:
    assert config.assignment(text) == (path, value)


def test_an_assignment_needs_its_sign() -> None:
    with pytest.raises(InputError, match="is not an assignment; expected path=value"):
        config.assignment("fold")


def test_every_knob_has_help_and_says_what_it_takes() -> None:
    found = list(ar.fields(Design))
    assert {info.path for info in found} >= {
        "network.dims[].shape",
        "network.dims[].bandwidth",
        "collective.all_reduce",
        "compute.peak",
        "memory.remote.kind",
        "system.comm_streams",
        "compat",
    }
    for info in found:
        assert info.help, info.path
        assert info.help.rstrip(".") != info.help, info.path
        assert info.takes, info.path
    peak = next(info for info in found if info.path == "compute.peak")
    assert (peak.when, peak.required) == ("compute.model=roofline", True)
    assert next(info for info in found if info.path == "compat").legal == ("none", "astra_sim")
    assert "ring" in next(info for info in found if info.path == "collective.all_reduce").legal


MENDED = """workload: {source: collective, op: all_reduce, payload: 1 MB}
network:
  dims: [{shape: switch, npus: 4, latency: 500 ns}]
  backend: packet
"""


def test_changes_mend_a_file_that_alone_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "design.yaml"
    path.write_text(MENDED)
    changes = {"network.dims[0].bandwidth": "50 GB/s", "network.backend": "packets"}
    design = config.load(Design, path, changes)
    assert (design.network.dims[0].bandwidth, design.network.backend) == (50.0, "packets")
    with pytest.raises(ConfigError, match=r"design.yaml:4: network.backend: 'packet' is not known"):
        config.load(Design, path, {"network.dims[0].bandwidth": "50 GB/s"})
    with pytest.raises(InputError, match=r"network.dims\[1\]: there is no entry 1; expected 0 to 0"):
        config.load(Design, path, {**changes, "network.dims[1].bandwidth": "50 GB/s"})


def test_files_in_changes_are_those_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "design.yaml").write_text(
        "workload: {source: trace, path: w}\nnetwork: {dims: [{shape: ring, npus: 4, latency: 1 us}]}\n")
    monkeypatch.chdir(tmp_path)
    bandwidth = {"network.dims[0].bandwidth": "1 GB/s"}
    assert config.load(Design, "sub/design.yaml", bandwidth).workload == ar.Trace("sub/w")
    assert config.load(Design, "sub/design.yaml", {**bandwidth, "workload.path": "v"}).workload == ar.Trace("v")


def test_changes_of_plain_data() -> None:
    plain = {"compute": "h100_sxm", "network": {"dims": [{"npus": 2}]}}
    changes = {"compute.missing": "1 ns", "network.dims[0].npus": 4, "system.comm_streams": 2,
               "network": {"dims": [{}]}}
    assert config.put(plain, changes) == {"compute": {"like": "h100_sxm", "missing": "1 ns"},
                                          "network": {"dims": [{"npus": 4}]}, "system": {"comm_streams": 2}}
    assert plain == {"compute": "h100_sxm", "network": {"dims": [{"npus": 2}]}}
    assert config.put(plain, {"network.dims": []})["network"] == {"dims": []}


def test_a_path_assigned_twice() -> None:
    assert config.assignments(["a=1", "b=x"]) == {"a": 1, "b": "x"}
    with pytest.raises(InputError, match="--set a: is there twice"):
        config.assignments(["a=1", "a=2"])


def test_a_variant_and_its_fields_together(design: Design) -> None:
    for first in ("compute.model", "compute.peak"):
        changes = {"compute.model": "roofline", "compute.peak": "2 TFLOP/s", "memory.bandwidth": "1 TB/s"}
        changes = {first: changes.pop(first), **changes}
        found = config.replace_all(design, changes)
        assert (found.compute.tag, found.compute.peak) == ("roofline", 2000.0)
    with pytest.raises(InputError, match=r"compute.pek: unknown key 'pek'.*did you mean 'peak'"):
        config.replace_all(design, {"compute.model": "roofline", "compute.pek": "2 TFLOP/s"})
