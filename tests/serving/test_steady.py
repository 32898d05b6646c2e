"""Warm-up and drain, saturation, and what is printed of a run."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from tests.serving.test_loop import MANY, MS, one_of, server

from astrarium.cli.dispatch import dispatch
from astrarium.design import load_design
from astrarium.report.tables.serving import serving_plain
from astrarium.serving import ClosedLoop, Objective, Poisson, Policy, Served, Session, load_serving, policy_of
from astrarium.serving.loop import run as answer
from astrarium.serving.requests import requests_of
from astrarium.serving.shape import Scaled


def served(rate: float, count: int, longer: float = 1.0, max_batch: int = 32) -> Served:
    """100 tokens each, 10 ms a step, `max_batch` at once: at most max_batch a second."""
    one = server(Policy(max_batch=max_batch), MANY, lambda step: 10 * MS)
    one.times = Scaled(one.times, longer)
    return answer(requests_of(Poisson(rate=rate, count=count, seed=4, prompt=10, output=100)), one_of(one, npus=4))


def test_a_stream_that_is_served_in_time_has_its_own_rate() -> None:
    """Issue 36: 31.5 requests per second were reported for a stream of 50 that was served in time (the drain counted).
    """
    found = served(50, 300, max_batch=256)
    assert len(found.finish) / found.span < 44
    rates = found.summary()
    arrived = 299 / (found.arrival[-1] - found.arrival[0]) * 1e12
    assert rates["requests_per_s"] == pytest.approx(arrived, rel=0.08)
    assert rates["output_tokens_per_s"] == pytest.approx(100 * arrived, rel=0.08)
    assert rates["output_tokens_per_s_per_npu"] == rates["output_tokens_per_s"] / 4
    assert rates["output_tokens_per_s_per_user"] == pytest.approx(100, rel=0.01)
    assert found.summary(whole=True)["requests_per_s"] == pytest.approx(300 / found.span)


def test_the_steady_state_is_that_of_a_long_stream() -> None:
    """A newcomer's report: TPOT of a stream's first 100 requests was 1.64 ms, called steady, and 2.60 ms with 10,000:
    a step takes longer the more requests run, and few run beside the first and the last."""

    def busy(count: int) -> Served:
        one = server(Policy(max_batch=4096), MANY, lambda step: 2 * MS + MS * step.count // 8)
        return answer(requests_of(Poisson(rate=40, count=count, seed=3, prompt=10, output=100)), one_of(one))

    short, middle, long = (busy(count) for count in (40, 500, 3000))
    assert short.window is None
    assert not short.saturated
    assert 40 < short.fewest < 500
    expected = long.summary()["tpot_mean_ns"]
    table = serving_plain(long, None, Objective(), ())["over_time"]
    assert isinstance(table, list)
    assert len(table) == 8
    assert table[3]["running_mean"] == pytest.approx(long.over_time(2), rel=0.3)
    assert middle.summary()["tpot_mean_ns"] == pytest.approx(expected, rel=0.1)
    assert short.summary()["tpot_mean_ns"] < 0.9 * expected


def test_conversations_fill_up_until_the_first_ones_end() -> None:
    """Each has 5 turns of 0.1 s and 4 pauses of 1 s: from the first arrival to 8.9 s servers fill up, and from 4.5 s
    before the last conversation begins they empty."""
    one, talk = server(Policy(max_batch=4096), MANY, lambda step: 10 * MS), Session(turns=5, think="1 s")
    found = answer(requests_of(Poisson(rate=10, count=2000, seed=3, prompt=1, output=10, session=talk)), one_of(one))
    assert found.window is not None
    last = int(found.arrival[::5].max())
    assert (found.window.start - int(found.arrival.min())) / 1e12 == pytest.approx(2 * 4.5, rel=0.02)
    assert (last - found.window.end) / 1e12 == pytest.approx(4.5, rel=0.02)
    assert found.summary()["requests_per_s"] == pytest.approx(5 * 400 / (last / 1e12), rel=0.1)
    short = Poisson(rate=10, count=500, seed=3, prompt=1, output=10, session=talk)
    assert answer(requests_of(short), one_of(one)).window is None


def test_a_closed_loop_has_the_rate_of_its_server() -> None:
    one = server(Policy(max_batch=32), MANY, lambda step: 10 * MS)
    found = answer(requests_of(ClosedLoop(concurrency=8, count=100, prompt=10, output=100)), one_of(one))
    assert found.summary()["requests_per_s"] == pytest.approx(8, rel=0.1)
    assert not found.saturated


def test_means_over_time_are_those_of_little_s_law() -> None:
    """A newcomer's report: 32 users were 30 in the table, and one request an hour was half a request at a time."""
    one = server(Policy(max_batch=32), MANY, lambda step: 10 * MS)
    full = answer(requests_of(ClosedLoop(concurrency=8, count=100, prompt=10, output=100)), one_of(one))
    assert full.over_time(1) + full.over_time(2) == pytest.approx(8, rel=0.05)
    rare = served(0.1, 60)
    assert rare.over_time(2) == pytest.approx(60 / (float(rare.finish.max()) / 1e12), rel=0.01)


def test_answers_bound_the_rate_under_overload() -> None:
    """A newcomer's report: 12.2 requests a second where 9.6 are answered, and nothing said."""
    found = served(48, 3000)
    assert found.saturated
    assert found.summary()["requests_per_s"] < 34


def test_results_do_not_replace_what_was_read(capsys: pytest.CaptureFixture[str], root: Path, tmp_path: Path) -> None:
    path = tmp_path / "chat.yaml"
    text = (root / "examples" / "inference" / "chat.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("h100.yaml", str(root / "examples" / "inference" / "h100.yaml")), encoding="utf-8")
    before = path.read_bytes()
    assert dispatch(["serve", str(path), "--set", "requests.count=2", "--csv", str(path)]) == 1
    assert "is one of the files that are read" in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.parametrize(("rate", "longer", "saturated"), [(16, 1.0, False), (27, 1.0, False), (27, 1.3, True),
                                                            (40, 1.0, True), (60, 1.0, True)])
def test_saturation_is_said(rate: float, longer: float, saturated: bool) -> None:
    assert served(rate, 1500, longer).saturated == saturated


def test_a_single_instant_has_no_steady_state() -> None:
    zeros = np.zeros(3, np.int64)
    none = np.zeros(0, np.int64)
    found = Served(zeros, zeros + MS, zeros + 2 * MS, zeros + 1, zeros + 2, zeros, none, none, none.astype(np.int32), 2,
                   2 * MS, 6, 0)
    assert found.window is None
    assert not found.saturated
    assert found.summary(Objective(ttft="1 ms"))["goodput_per_s"] == pytest.approx(3 / 0.002)
    arrival = np.array([0, 0, 9000 * MS])
    apart = replace(found, arrival=arrival, first=arrival + 1, finish=arrival + 2)
    assert apart.window is None         # nobody comes in the middle


def test_the_command_says_what_it_assumes_and_writes_requests(capsys: pytest.CaptureFixture[str], root: Path,
                                                              tmp_path: Path) -> None:
    path, table = str(root / "examples" / "inference" / "chat.yaml"), tmp_path / "requests.csv"
    assert dispatch(["serve", path, "--set", "requests.count=12", "--csv", str(table), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["saturated"] is False
    assert found["saturated_with_longer_steps"] is False
    assert found["groups"]["all"][0] == 12
    assert found["steady"] is False
    assert found["notes"][0].startswith("too short for a steady state: ")
    assert "overhead" in found["notes"][1]
    assert found["whole_run"] == {name: found[name] for name in found["whole_run"]}
    assert found["good_requests"] == 12
    assert found["step_times"].startswith("steps from tables")
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["request"]) for row in rows] == list(range(12))
    assert float(rows[0]["ttft_ms"]) > 0
    assert all(float(row["latency_ms"]) >= float(row["ttft_ms"]) for row in rows)


@pytest.mark.parametrize("stack", ["vllm", "sglang", "trt-llm"])
def test_a_stack_fills_what_the_policy_leaves_out(stack: str, root: Path, tmp_path: Path) -> None:
    """Under what the file and the command line state, whether or not that is a default."""
    text = (root / "examples" / "inference" / "h100.yaml").read_text(encoding="utf-8")
    (tmp_path / "design.yaml").write_text(f"stack: {stack}\n{text}", encoding="utf-8")
    (tmp_path / "s.yaml").write_text("design: design.yaml\npolicy: {max_batch: 256}\n"
                                     "requests: {kind: closed_loop, concurrency: 1, count: 1, prompt: 5, output: 5}\n")
    expected = policy_of(load_design(tmp_path / "design.yaml"))
    assert (expected.max_tokens, expected.max_batch > 256) == (8192, True)
    found = load_serving(tmp_path / "s.yaml", {"policy.block": 16}).policy
    assert (found.max_batch, found.block) == (256, 16)
    assert found == replace(expected, max_batch=256, block=16)


def test_requests_a_second_of_users_in_lockstep() -> None:
    """Eight users who come back together, two prompts a step: the window ends within a round, and counting those that
    are answered in it is 2 % off."""
    one = server(Policy(max_tokens=20), MANY, lambda step: 6 * MS if step.prompts else MS)
    found = answer(requests_of(ClosedLoop(concurrency=8, count=80, prompt=10, output=12)), one_of(one))
    assert found.window is not None
    rate = found.rates(found.window)["requests_per_s"]
    assert rate == pytest.approx(8 / (found.latency[found.within(found.window)].mean() / 1e12), rel=0.01)
