"""A service that all tests of the room share: a process costs half a second to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from astrarium.service.limits import Limits
from astrarium.service.operations import OPERATIONS
from astrarium.service.workers import Workers, folder_at

DESIGN = """\
workload: {source: collective, op: all_reduce, payload: 100 MB}
network: {dims: [{shape: switch, npus: 8, bandwidth: 450 GB/s, latency: 500 ns}]}
"""
SPACE = """\
base: a.yaml
choices:
  collective.chunks: [1, 2, 4, 8]
  network.dims[0].bandwidth: [100 GB/s, 200 GB/s, 400 GB/s]
constraints: ["collective.chunks < 8 or network.dims[0].bandwidth > 100"]
minimize: makespan
"""
LIMITS = Limits(seconds=20.0, memory=2e9, designs=50, request=100_000, folder=10_000_000)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a design and a space."""
    found = tmp_path_factory.mktemp("work")
    (found / "a.yaml").write_text(DESIGN)
    (found / "space.yaml").write_text(SPACE)
    return found


@pytest.fixture(scope="session")
def workers(folder: Path) -> Iterator[Workers]:
    """One process, with an operation more."""
    more = {**OPERATIONS, "probe": "tests.service.probe:probe"}
    with Workers(folder_at(str(folder), LIMITS), LIMITS, operations=more, count=1) as found:
        yield found
