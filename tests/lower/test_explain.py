"""What cannot run is named by file, rank, node and name, whichever engine finds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import astrarium as ar
from astrarium import engine
from astrarium.errors import StallError, TraceError, UnsupportedError
from astrarium.lower.explain import explained
from astrarium.trace import TraceBuilder, read_traces
from astrarium.vocab import CommOp

NETWORK = ar.Network([ar.Switch(2, bandwidth="1 GB/s", latency="0 ns")])
PURE = [True, pytest.param(False, marks=pytest.mark.skipif(not engine.HAVE_CORE, reason="no compiled core here"))]

Make = Callable[[TraceBuilder, int], None]


def run(folder: Path, make: Make, *, pure: bool) -> ar.Result:
    for rank in range(2):
        builder = TraceBuilder()
        make(builder, rank)
        builder.write(folder / f"w.{rank}.et")
    return ar.simulate(ar.Design(workload=ar.Trace(str(folder / "w")), network=NETWORK), pure=pure)


def lonely(builder: TraceBuilder, rank: int) -> None:
    builder.comp("forward", 1)
    if rank == 1:
        builder.recv("activations", 0, 64, tag=7, after=[0])


def crossed(builder: TraceBuilder, rank: int) -> None:
    sizes = [1024, 2048] if rank == 0 else [2048, 1024]
    first = builder.coll("gradients", CommOp.ALL_REDUCE, sizes[0])
    builder.coll("weights", CommOp.ALL_REDUCE, sizes[1], after=[first])


@pytest.mark.parametrize("pure", PURE)
def test_a_stall_says_cause_file_rank_and_name(tmp_path: Path, pure: bool) -> None:
    with pytest.raises(StallError) as caught:
        run(tmp_path, lonely, pure=pure)
    cause, wait = caught.value.waits
    assert (cause.rank, wait.rank, wait.node) == (None, 1, 1)
    where = tmp_path / "w.1.et"
    assert cause.text.startswith(f"cause: {where}: rank 1, node 1 (activations): ")
    assert wait.text.startswith(f"{where}: rank 1: node 1 (activations; recv from 0, tag 7, 64 bytes) waits")


@pytest.mark.parametrize("pure", PURE)
def test_a_fault_of_the_traces_says_file_rank_and_name(tmp_path: Path, pure: bool) -> None:
    with pytest.raises(TraceError) as caught:
        run(tmp_path, crossed, pure=pure)
    error = caught.value
    assert error.path in {str(tmp_path / "w.0.et"), str(tmp_path / "w.1.et")}
    assert error.name in {"gradients", "weights"}
    assert error.rank is not None


def test_errors_about_other_fields_stay(tmp_path: Path) -> None:
    run(tmp_path, lambda builder, rank: None, pure=True)
    traces = read_traces(str(tmp_path / "w"), 2)
    error = UnsupportedError("network.backend", "is not there")
    assert explained(error, traces, None) is error


def test_a_sentence_without_a_finding_is_placed(tmp_path: Path) -> None:
    run(tmp_path, lambda builder, rank: builder.comp("forward", 1) and None, pure=True)
    traces = read_traces(str(tmp_path / "w"), 2)
    found = explained(UnsupportedError("workload", "too long", rank=1, node=0, name="delay"), traces, None)
    assert str(found) == f"{tmp_path / 'w.1.et'}: rank 1, node 0 (forward; delay): too long"
    assert isinstance(found, UnsupportedError)
