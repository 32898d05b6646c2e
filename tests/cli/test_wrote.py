"""Verbs that write a file say so on stderr in one way, and `mcp --help` says how to add it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.commands import Run
from tests.newcomer.every_input import write_inputs

SPACE = "base: one.yaml\nchoices: {collective.chunks: [1, 2]}\nminimize: makespan\nagent: grid\ntrials: 2\n"


@pytest.mark.parametrize("command", [
    "run one.yaml --html {a.html} --plot breakdown={b.svg}",
    "run one.yaml train.yaml --html {a.html}",
    "explain one.yaml train.yaml --html {a.html}",
    "search space.yaml --study a.study --best {c.yaml} --html {a.html}",
    "trace show linked.0.et --html {a.html}",
    "convert --to jsonl linked.0.et -o {a.jsonl}",
    "calibrate t.csv --base h100_sxm -o {device.toml} --html {a.html}",
])
def test_files_are_named(command: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    (tmp_path / "space.yaml").write_text(SPACE)
    if "linked" in command:
        assert run("trace", "link", "host.json", "device.json", "-o", "linked").code == 0
    said = run(*re.sub(r"[{}]", "", command).split())
    assert said.code == 0, said.err
    names = re.findall(r"{(.*?)}", command)
    assert sorted(re.findall(r"^astrarium: note: wrote (.*)$", said.err, re.MULTILINE)) == sorted(names)
    assert all((tmp_path / name).exists() for name in names)


@pytest.mark.parametrize("command", [
    "run one.yaml --html one.yaml", "run one.yaml --timeline ./one.yaml", "run one.yaml --plot breakdown=one.yaml",
    "explain one.yaml train.yaml --html train.yaml", "trace show linked.0.et --html linked.0.et",
    "convert --to jsonl linked.0.et -o linked.0.et"])
def test_an_input_is_not_written_over(command: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    assert run("trace", "link", "host.json", "device.json", "-o", "linked").code == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    said = run(*command.split())
    assert said.code == 1
    assert re.search(r"--\w+ \S+: is one of the files that are read; expected another name", said.err)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("command", [
    "search space.yaml --best one.yaml", "search space.yaml --start rows.csv --best rows.csv",
    "search space.yaml --study my.study --best ./my.study", "search space.yaml --html space.random-0.study",
    "search space.yaml --html x.html --best x.html", "run one.yaml --html x.html --timeline x.html",
    "run one.yaml --plot breakdown=x.svg --plot breakdown=./x.svg"])
def test_no_output_takes_the_place_of_a_base_a_start_a_study_or_another_output(
        command: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    (tmp_path / "space.yaml").write_text("base: one.yaml\nchoices: {collective.chunks: [1, 2]}\nagent: random\n")
    (tmp_path / "rows.csv").write_text("collective.chunks\n2\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    said = run(*command.split())
    assert said.code == 1
    assert re.search(r"--\w+ \S+: is (one of the files that are read|written by --\w+, too); expected another name",
                     said.err), said.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_the_help_of_mcp_says_how_to_add_it(run: Run) -> None:
    said = " ".join(run("mcp", "--help").out.split())
    assert "claude mcp add astrarium -- astrarium mcp --folder /path/to/designs" in said
    assert '{"mcpServers": {"astrarium": {"command": "astrarium", "args": ["mcp", "--folder", ' in said
