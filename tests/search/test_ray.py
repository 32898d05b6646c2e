"""Studies over a local Ray cluster, which the test starts: same trials, and none lost with its worker."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.search.designs import small_space
from tests.search.dying import DEATHS, makespan
from tests.search.test_study import rows

from astrarium.errors import InputError, install_line
from astrarium.search import search

exam = pytest.mark.exam


@pytest.fixture
def cluster(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A cluster of two CPUs whose workers find this checkout; the folder that counts deaths."""
    ray = pytest.importorskip("ray", reason="no Ray here: pip install 'astrarium[ray]'")
    marks = tmp_path / "marks"
    marks.mkdir()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root / "src"), str(root)]))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("ASTRARIUM_DYING", str(marks))
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield marks
    ray.shutdown()


@exam
def test_the_same_trials_though_workers_die(cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def study(name: str, **more: str) -> list[object]:
        search(small_space(), makespan, agent="genetic", trials=100, seed=1, study=tmp_path / name, **more)  # type: ignore[arg-type]
        return rows(tmp_path / name)
    there = study("ray", ray="local")
    assert len(list(cluster.iterdir())) == DEATHS
    assert [row[0] for row in there] == list(range(100))
    monkeypatch.delenv("ASTRARIUM_DYING")      # nobody dies here
    assert there == study("here")


@exam
def test_no_cluster_at_an_address(root: Path) -> None:
    pytest.importorskip("ray", reason="no Ray here: pip install 'astrarium[ray]'")
    with pytest.raises(InputError, match="no cluster answers"):
        search(small_space(), "makespan", trials=1, ray="no-such-address")


def test_without_ray_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=re.escape(install_line("ray"))):
        search(small_space(), "makespan", trials=1, ray="local")
