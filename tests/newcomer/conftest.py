"""A small design on disk, and a way to run the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from astrarium.cli import main
from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp

RANKS = 4


@dataclass(frozen=True)
class Said:
    """What one command returned and printed."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("list", "shape")` -> Said, without the notes."""
    def command(*arguments: str | Path) -> Said:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        found = capsys.readouterr()
        talk = [line for line in found.err.splitlines(keepends=True) if "astrarium: note: " not in line]
        return Said(code, found.out, "".join(talk))
    return command


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
    path = tmp_path / "design.yaml"
    path.write_text("workload: {source: trace, path: et/w.*.et}\n"
                    "network:\n  dims:\n    - {shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 500 ns}\n")
    return path
