"""Space files: the twin of the Python value."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.search.designs import CHOICES, four_dims, network_space

from astrarium import dump_design
from astrarium.errors import InputError
from astrarium.search import Choice, Space, dump_space, load_space
from astrarium.search.searchfile import load_search
from astrarium.search.space import space_plain

TEXT = """
base: design.yaml
choices:
  network.dims[*].npus: [4, 8, 16]
  network.dims[*].bandwidth: {values: [50 GB/s, 100 GB/s], shared: true}
  collective.chunks: {from: 1, to: 32, factor: 2}
  collective.active_chunks: {values: [1, 2], when: collective.chunks > 1}
derived:
  collective.pipeline: collective.chunks * 2
constraints:
  - network.npus == 1024
"""


def test_file_and_python_are_twins(tmp_path: Path) -> None:
    dump_design(four_dims(), tmp_path / "design.yaml")
    (tmp_path / "space.yaml").write_text(TEXT)
    read = load_space(tmp_path / "space.yaml")
    made = Space(four_dims(), {
        "network.dims[*].npus": [4, 8, 16],
        "network.dims[*].bandwidth": Choice(values=["50 GB/s", "100 GB/s"], shared=True),
        "collective.chunks": Choice(low=1, high=32, factor=2),
        "collective.active_chunks": Choice(values=[1, 2], when="collective.chunks > 1"),
    }, "network.npus == 1024", derived={"collective.pipeline": "collective.chunks * 2"})
    assert space_plain(read) == space_plain(made)
    assert read.count == made.count == 10 * 2 * (1 + 5 * 2)


@pytest.mark.parametrize("space", [network_space(), Space(four_dims(), {**CHOICES, "collective.endpoint_delay": {
    "from": "0 ns", "to": "1 us"}}, "network.npus == 1024", variables={"x": [1, 2.5, "three"]})])
def test_what_is_written_reads_back(space: Space, tmp_path: Path) -> None:
    dump_space(space, tmp_path / "out.yaml")
    again = load_space(tmp_path / "out.yaml")
    assert space_plain(again) == space_plain(space)
    assert again.count == space.count
    assert again.base == space.base


@pytest.mark.parametrize(("given", "known"), [("{name: near}", "random"), ("{name: genetics, seed: 3}", "genetic"),
                                              ("{kind: genetic}", "genetic")])
def test_an_agent_without_its_key_says_how_one_is_named(given: str, known: str, tmp_path: Path) -> None:
    (tmp_path / "search.yaml").write_text(f"variables: {{x: [1, 2]}}\nminimize: x\nagent: {given}\n")
    with pytest.raises(InputError, match=rf"yaml:3: agent.agent: is missing; .*`agent: {known}`, or `agent: "
                       rf"{{agent: {known}, ...}}` with its options"):
        load_search(tmp_path / "search.yaml")


def test_messages_have_file_and_line(tmp_path: Path) -> None:
    dump_design(four_dims(), tmp_path / "design.yaml")
    name = tmp_path / "space.yaml"
    for old, new, says in [("collective.chunks:", "collective.chunk:", r"space.yaml:6: collective.chunk: .*chunks"),
                           ("== 1024", "== 1000", r"space.yaml:11: constraints\[0\]: no design meets"),
                           ("design.yaml", "nowhere.yaml", r"nowhere.yaml: cannot be read"),
                           ("[1, 2]", "[1, -2]", r"space.yaml:7: collective.active_chunks.*0 or more"),
                           ("chunks * 2", "chunks ** 2", r"space.yaml:9: collective.pipeline.*not a value")]:
        name.write_text(TEXT.replace(old, new))
        with pytest.raises(InputError, match=says):
            load_space(name)


def test_base_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = Path("space.yaml")
    name.write_text("""
base:
  workload: {source: trace, path: deep/t.*.et}
  network: {dims: [{shape: ring, npus: 4, latency: 1 us, bandwidth: 50 GB/s}]}
choices: {collective.chunks: [1, 2]}
""")
    space = load_space(name)
    assert space.base is not None
    assert space.base.workload.path == "deep/t.*.et"
    (tmp_path / "deep").mkdir()
    dump_space(space, "deep/again.yaml")
    assert "path: t.*.et" in (tmp_path / "deep/again.yaml").read_text()
    name.write_text(name.read_text().replace("npus: 4", "npu: 4"))
    with pytest.raises(InputError, match=r"space.yaml:4: base.network.dims\[0\].npu: unknown key.*'npus'"):
        load_space(name)
