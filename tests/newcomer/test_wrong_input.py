"""What a newcomer types wrong: one clear message, exit code 1, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.commands import Run

from astrarium.astra_sim.keys import load_yaml
from astrarium.errors import InputError
from astrarium.trace import read_groups, read_traces

from .conftest import write_traces

LIMITS = {"system.compute_streams": 2**31, "system.comm_streams": 2**31, "system.p2p_streams": 2**31,
          "system.copy_streams": 2**31, "system.cpu_threads": 2**31, "collective.active_chunks": 2**30}


@pytest.mark.parametrize("path", LIMITS)
def test_numbers_that_the_engine_cannot_hold_are_refused(run: Run, design: Path, path: str) -> None:
    said = run("run", design, "--set", f"{path}={LIMITS[path]}")
    assert said.code == 1
    assert f"{path}: {LIMITS[path]} is impossible" in said.err
    assert f"below {LIMITS[path]}" in said.err
    assert run("run", design, "--set", f"{path}={LIMITS[path] - 1}").code == 0


def test_an_endless_endpoint_delay_is_refused(run: Run, design: Path) -> None:
    said = run("run", design, "--set", "collective.endpoint_delay=1e30 s")
    assert (said.code, said.err) == (1, "astrarium: collective.endpoint_delay: is more than 2^63 ps; expected at most "
                                        "106 days\n")


def test_traces_that_nobody_would_run_are_refused(run: Run, design: Path) -> None:
    write_traces(design.parent / "et", 8)
    said = run("run", design)
    assert said.code == 1
    assert "w.*.et has traces of ranks 4-7 too; expected ranks 0 to 3: one per NPU" in said.err
    said = run("run", design, "--set", "network.dims[0].npus=8", "--set", "system.placement=[0]")
    assert said.code == 1
    assert "has traces of ranks 1-7 too" in said.err
    assert run("run", design, "--set", "network.dims[0].npus=8").code == 0


def test_a_missing_trace_has_no_hint_that_leads_nowhere(run: Run, design: Path) -> None:
    said = run("run", design, "--set", "workload.path=nowhere/w.*.et")
    assert said.code == 1
    assert "w.0.et does not exist; no rank has one" in said.err
    assert "did you mean" not in said.err


def test_one_trace_s_name_in_place_of_the_prefix_has_a_hint(run: Run, design: Path) -> None:
    said = run("run", design, "--set", f"workload.path={design.parent}/et/w.0.et")
    assert said.code == 1
    assert f"did you mean '{design.parent}/et/w'?" in said.err


@pytest.mark.parametrize("path", ["a\0b", "a\0/b", "\udc80"])
def test_a_name_that_no_file_can_have(path: str) -> None:
    with pytest.raises(InputError, match=r"is not a file name|does not exist"):
        read_traces(path, 1)
    with pytest.raises(InputError, match=r"is not a file name|does not exist"):
        read_traces(path)


def test_group_names_of_any_length(run: Run, tmp_path: Path, design: Path) -> None:
    name = "9" * 5000
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps({f"00{name}": [0, 1, 2, 3]}))
    assert read_groups(groups) == {name: (0, 1, 2, 3)}
    write_traces(tmp_path / "et", group=name)
    assert run("run", design, "--set", f"workload.groups={groups}").code == 0
    groups.write_text(json.dumps({f"-{name}": [0]}))
    with pytest.raises(InputError) as error:
        read_groups(groups)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("text", ["a: [", "a: 1\n---\nb: 2", "? [a]\n: b", "!!python/object:os.x {}", "a: \x07"])
def test_a_message_about_yaml_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "network.yml"
    path.write_text(text)
    with pytest.raises(InputError, match="not YAML") as error:
        load_yaml(str(path))
    assert "\n" not in str(error.value)


def test_a_rank_outside_the_group_is_refused(run: Run, design: Path) -> None:
    write_traces(design.parent / "et", group="1")
    (design.parent / "groups.json").write_text('{"1": [0, 1, 3]}')
    said = run("run", design, "--set", f"workload.groups={design.parent}/groups.json")
    assert said.code == 1
    assert "w.2.et: rank 2, node 1 (gradients): a collective of a group that the rank is not in" in said.err
    assert "expected one of the group's ranks: 0, 1, 3" in said.err
