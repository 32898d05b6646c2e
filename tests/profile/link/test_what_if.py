"""Replay of a linked trace against the machine that made it, at the measured kernel speed and at others."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import machine
from .machine import CUDA, HIP, PROGRAMS, run
from .paired import kernels_by, linked, replayed_us
from .random_programs import program as random_program

programs = pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)


@programs
@pytest.mark.parametrize("told", [False, True], ids=["inferred", "told"])
def test_the_measured_time_comes_back(tmp_path: Path, program: object, told: bool) -> None:
    machine = run(program, told=told)
    report = linked(tmp_path, machine).report
    assert replayed_us(tmp_path) == pytest.approx(machine.span, rel=0.002)
    assert report.replayed_us == pytest.approx(machine.span, rel=0.002)
    assert report.unexplained_us < 0.12 * machine.span


@programs
@pytest.mark.parametrize("factor", [0.1, 0.5, 2.0, 4.0])
@pytest.mark.parametrize("told", [False, True], ids=["inferred", "told"])
def test_another_kernel_speed_comes_to_what_the_machine_takes_then(tmp_path: Path, program: object, factor: float,
                                                                   told: bool) -> None:
    linked(tmp_path, run(program, told=told))
    truth = run(program, scale=factor, told=told).span
    assert replayed_us(tmp_path, kernels_by(factor)) == pytest.approx(truth, rel=0.02)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.exam) for seed in range(8, 20))])
def test_random_programs_at_other_kernel_speeds(tmp_path: Path, seed: int) -> None:
    """Times that fall between microseconds, threads that begin by waiting, copies behind a queue."""
    program = random_program(seed)
    assert linked(tmp_path, run(program, told=True)).report.host_spins == 0     # every wait has a call
    assert replayed_us(tmp_path) == pytest.approx(run(program).span, rel=0.01)
    for factor, within in ((0.1, 0.02), (0.5, 0.02), (2.0, 0.02), (4.0, 0.03)):
        assert replayed_us(tmp_path, kernels_by(factor)) == pytest.approx(run(program, scale=factor).span, rel=within)


@pytest.mark.parametrize("seed", [2, 6, 43, 46, 69])
def test_what_kernels_four_times_as_slow_miss_is_the_gaps_that_no_stream_had(
        tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seeds of 0 to 159 that are furthest off at that speed, up to 2.4 % too fast: kernels of 1 to 5 us came so far
    apart that no trace shows the microsecond between two in a queue. On a GPU without such gaps nothing is missed."""
    monkeypatch.setattr(machine, "GAP", 0.0)
    program = random_program(seed)
    linked(tmp_path, run(program, told=True))
    assert replayed_us(tmp_path, kernels_by(4.0)) == pytest.approx(run(program, scale=4.0).span, rel=0.02)


@programs
def test_amd_names_give_the_same_trace(tmp_path: Path, program: object) -> None:
    (tmp_path / "amd").mkdir()
    (tmp_path / "nvidia").mkdir()
    amd = linked(tmp_path / "amd", run(program, names=HIP, runtime="hip_runtime")).report
    nvidia = linked(tmp_path / "nvidia", run(program, names=CUDA)).report
    assert amd == nvidia
    assert replayed_us(tmp_path / "amd") == replayed_us(tmp_path / "nvidia")


def test_streams_that_wait_are_found_without_being_told(tmp_path: Path) -> None:
    (tmp_path / "told").mkdir()
    inferred = linked(tmp_path, run(PROGRAMS["two_streams"])).report
    told = linked(tmp_path / "told", run(PROGRAMS["two_streams"], told=True)).report
    assert (told.stream_waits, told.stream_waits_inferred) == (15, 0)
    assert inferred.stream_waits == inferred.stream_waits_inferred == 15
    assert inferred.thread_waits == told.thread_waits == 3
