"""Small inputs that the verbs' tests share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.commands import write_design

from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp

RANKS = 4
SYSTEM = {"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1,
          "preferred-dataset-splits": 2, "all-reduce-implementation": ["ring"], "all-gather-implementation": ["ring"],
          "collective-optimization": "baseline", "local-mem-bw": 50}


def write_traces(folder: Path) -> Path:
    """Traces of 4 ranks in `folder`: compute, an all_reduce of all, and a message from even ranks to odd ones."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(RANKS):
        trace = TraceBuilder()
        first = trace.comp("forward", 5)
        whole = trace.coll("gradients", CommOp.ALL_REDUCE, 1 << 20, after=[first])
        if rank % 2 == 0:
            trace.send("give", rank + 1, 4096, tag=7, after=[whole])
        else:
            trace.recv("take", rank - 1, 4096, tag=7, after=[whole])
        trace.comp("update", 3, after=[whole])
        trace.write(folder / f"w.{rank}.et")
    return folder / "w"


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """The prefix of four ranks' traces."""
    return write_traces(tmp_path / "et")


@pytest.fixture
def flags(prefix: Path, tmp_path: Path) -> list[str]:
    """ASTRA-sim's flags for a ring of 4 NPUs that runs those traces."""
    (tmp_path / "system.json").write_text(json.dumps(SYSTEM))
    (tmp_path / "network.yml").write_text("topology: [ Ring ]\nnpus_count: [ 4 ]\n"
                                          "bandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n")
    (tmp_path / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    return [f"--workload-configuration={prefix}", f"--system-configuration={tmp_path / 'system.json'}",
            f"--network-configuration={tmp_path / 'network.yml'}",
            f"--remote-memory-configuration={tmp_path / 'memory.json'}"]


@pytest.fixture
def design(prefix: Path, tmp_path: Path) -> Path:
    """A native design file that runs those traces."""
    return write_design(tmp_path)
