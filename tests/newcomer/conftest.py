"""A small design on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.commands import write_design

from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp

RANKS = 4


def write_traces(folder: Path, ranks: int = RANKS, group: str | None = None, collectives: int = 1) -> None:
    """`w.RANK.et`: compute and all_reduces, one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        trace = TraceBuilder()
        last = trace.comp("forward", 5, num_ops=10**9, tensor_size=10**6)
        for _ in range(collectives):
            last = trace.coll("gradients", CommOp.ALL_REDUCE, 1 << 20, group=group, after=[last])
        trace.write(folder / f"w.{rank}.et")


@pytest.fixture
def design(tmp_path: Path) -> Path:
    """A design of 4 NPUs, its traces beside it."""
    write_traces(tmp_path / "et")
    return write_design(tmp_path)
