"""`astrarium trace stage`: STAGE's main.py with its own flags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from astrarium.trace import check, read_groups, read_traces

if TYPE_CHECKING:
    from tests.commands import Run

SMALL = ("--dp", "2", "--tp", "2", "--pp", "2", "--num_stacks", "3", "--dmodel", "64", "--dff", "128", "--seq", "64",
         "--dvocal", "1000")


def test_main_py_s_flags_write_main_py_s_files(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    said = run("trace", "stage", "--output_dir", folder, "--output_name", "w.%d.et", "--kvhead", "4", *SMALL, "--json")
    assert (said.code, "STAGE ignores --kvhead" in said.err) == (0, True)
    assert json.loads(said.out)["groups"] == f"{folder}/w.json"
    assert sorted(path.name for path in folder.iterdir()) == [*(f"w.{rank}.et" for rank in range(8)), "w.json"]
    assert not [found for found in check(read_traces(folder / "w"), read_groups(folder / "w.json"))
                if found.severity == "error"]


def test_what_is_not_reproduced_is_refused(run: Run, tmp_path: Path) -> None:
    said = run("trace", "stage", "--output_dir", tmp_path, "--output_name", "w", "--model_type", "debug")
    assert (said.code, "'debug' is not reproduced" in said.err) == (1, True)
    assert run("trace", "stage", "--output_dir", tmp_path, "--comm_group_file", "x").code == 2
