"""Rows of your own: beside the catalog's, for every verb, and refused with file, row and column where wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import astrarium as ar
from astrarium import catalog
from astrarium.catalog.files import VARIABLE
from astrarium.cli.dispatch import dispatch

CHIP = """[devices.my_chip]
title = "Our chip"
peak = "700 TFLOP/s"
peaks = { fp8 = "1.4 PFLOP/s" }
capacity = "96 GiB"
bandwidth = "3 TB/s"
source = "our own data sheet"
"""
LINK = """[networks.my_link]
title = "Our link"
shape = "ring"
npus = 4
bandwidth = "100 GB/s"
latency = "1 us"
source = "our own data sheet"
"""
DESIGN = """workload: {source: transformer, model: gpt2-small, global_batch: 4, dp: 4}
network: my_link
compute: my_chip
memory: my_chip
"""


def written(folder: Path, text: str, name: str = "mine.toml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_rows_stand_beside_ours_for_as_long_as_asked(tmp_path: Path) -> None:
    with catalog.overlay(written(tmp_path, CHIP)):
        assert catalog.device("my_chip").peak("fp8") == 1.4e6
        assert catalog.device("h100_sxm").title.startswith("NVIDIA")
    with pytest.raises(ar.InputError, match=r"'my_chip' is not known"):
        catalog.device("my_chip")
    assert VARIABLE not in os.environ


def test_a_design_runs_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, design = written(tmp_path, CHIP + LINK), written(tmp_path, DESIGN, "design.yaml")
    assert dispatch(["run", design, "--catalog", rows, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["out_of_memory"] is False
    assert dispatch(["run", design]) == 1
    assert "my_link" in capsys.readouterr().err


def test_several_files_and_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chip, link = written(tmp_path, CHIP, "chip.toml"), written(tmp_path, LINK, "link.toml")
    assert dispatch(["list", "device", "--catalog", chip, "--catalog", link]) == 0
    assert "my_chip" in capsys.readouterr().out


def test_workers_know_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = written(tmp_path, CHIP + LINK)
    space = written(tmp_path, """base: {workload: {source: transformer, model: gpt2-small, global_batch: 4, dp: 4},
       network: my_link, compute: h100_sxm, memory: h100_sxm}
choices: {compute: [h100_sxm, my_chip], collective.chunks: [1, 2]}
minimize: makespan
""", "space.yaml")
    assert dispatch(["search", space, "--catalog", rows, "--agent", "grid", "--trials", "4", "-j", "2", "--processes",
                     "--study", str(tmp_path / "study.db")]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(("text", "message"), [
    ("[device.my_chip]\n", r"mine.toml: device: is no kind of row; .*did you mean 'devices'"),
    (CHIP.replace("my_chip", "h100_sxm"), r"devices.h100_sxm: the catalog has a row of this name"),
    (CHIP.replace("capacity", "capacty"), r"my_chip.capacty: is no column of devices; .*did you mean 'capacity'"),
    (CHIP.replace('capacity = "96 GiB"\n', ""), r"devices.my_chip.capacity: is missing"),
    (CHIP.replace('"96 GiB"', "96"), r"devices.my_chip.capacity: 96 is a number without a unit"),
    (CHIP.replace('"700 TFLOP/s"', '"700 GB/s"'), r"devices.my_chip.peak: .*has the unit 'GB/s'"),
    (CHIP.replace("fp8", "f8"), r"devices.my_chip.peaks.f8: is no number format; .*did you mean 'fp8'"),
    (CHIP.replace('source = "our own data sheet"\n', ""), r"devices.my_chip.source: is missing"),
    (LINK.replace('bandwidth = "100 GB/s"\n', ""), r"networks.my_link.bandwidth: is needed, or bandwidth_per_npu"),
    ("devices = 3\n", r"mine.toml: devices: holds no rows"),
    ("[devices.x", r"mine.toml: is not TOML"),
])
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ar.InputError, match=message), catalog.overlay(written(tmp_path, text)):
        pass
    assert VARIABLE not in os.environ


def test_one_name_in_two_files(tmp_path: Path) -> None:
    files = [written(tmp_path, CHIP, name) for name in ("a.toml", "b.toml")]
    with pytest.raises(ar.InputError, match=r"b.toml: devices.my_chip: another file has a row of this name"), \
         catalog.overlay(*files):
        pass


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["list", "device", "--catalog", str(tmp_path / "no.toml")]) == 1
    assert "cannot be read" in capsys.readouterr().err
