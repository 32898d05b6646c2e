"""Streams of requests: seeds, files, refusals."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.draws import draws

from astrarium.config import ConfigError, decode
from astrarium.errors import InputError
from astrarium.serving import (
    Arrivals,
    ClosedLoop,
    Gamma,
    JsonLines,
    Lognormal,
    Mooncake,
    Poisson,
    Prefix,
    RequestTrace,
    Session,
    ShareGpt,
    Uniform,
)
from astrarium.serving.requests import busiest, requests_of

LAST = 2**62


def test_poisson_is_what_its_seed_says() -> None:
    stream = Poisson(rate=50, count=20_000, seed=7, use_case="chat")
    one, two = requests_of(stream), requests_of(stream)
    assert (one.arrival == two.arrival).all()
    assert (requests_of(Poisson(rate=50, count=20_000, seed=8, use_case="chat")).arrival != one.arrival).any()
    gaps = np.diff(one.arrival) / 1e12
    assert gaps.mean() == pytest.approx(1 / 50, rel=0.03)
    assert gaps.std() == pytest.approx(1 / 50, rel=0.03)
    assert (one.prompt == 3000).all()
    assert (one.output == 1001).all()


@pytest.mark.parametrize("cv", [0.3, 2.0])
def test_gamma_has_its_rate_and_its_variation(cv: float) -> None:
    gaps = np.diff(requests_of(Gamma(rate=50, cv=cv, count=100_000, seed=7, prompt=1, output=1)).arrival) / 1e12
    assert gaps.mean() == pytest.approx(1 / 50, rel=0.03)
    assert gaps.std() == pytest.approx(cv / 50, rel=0.05)


def test_lengths_have_their_distribution(tmp_path: Path) -> None:
    file = tmp_path / "lengths.txt"
    file.write_text("10\n\n20\n30\n")
    plain = {"kind": "poisson", "rate": 1, "count": 50_000, "seed": 1,
             "prompt": {"kind": "lognormal", "mean": 550, "cv": 0.8},
             "output": {"kind": "empirical", "path": str(file)}}
    found = requests_of(decode(Arrivals, plain))
    assert found.prompt.mean() == pytest.approx(550, rel=0.02)
    assert found.prompt.std() == pytest.approx(440, rel=0.05)
    assert sorted(set(found.output.tolist())) == [10, 20, 30]
    assert found.output.mean() == pytest.approx(20, rel=0.02)
    cut = Lognormal(mean=550, cv=0.8, high=600)
    assert requests_of(Poisson(rate=1, count=1000, seed=1, prompt=cut, output=1)).prompt.max() == 600
    closed = requests_of(ClosedLoop(concurrency=2, count=5000, seed=3, prompt=Uniform(low=5, high=7), output=1))
    assert np.bincount(closed.prompt)[5:].tolist() == pytest.approx([5000 / 3] * 3, rel=0.06)
    for lengths, message in (("1\nx\n", "line 2: 'x' is no whole number"), ("", "no lengths"), ("0\n", "line 1: 0 is")):
        file.write_text(lengths)
        with pytest.raises(InputError, match=message):
            requests_of(decode(Arrivals, plain))


def test_prefixes_and_turns() -> None:
    """A system prompt of 100 tokens before prompts of 20; three turns of which each repeats what was said."""
    stream = Poisson(rate=1, count=7, seed=1, prompt=20, output=5, prefix=Prefix(tokens=100),
                     session=Session(turns=3, think="2 s"))
    found = requests_of(stream)
    assert found.prompt.tolist() == [120, 145, 170, 120, 145, 170, 120]
    assert [found.next_turn(number) for number in range(7)] == [(1, 2 * 10**12), (2, 2 * 10**12), None,
                                                               (4, 2 * 10**12), (5, 2 * 10**12), None, None]
    assert found.roots() == [0, 3, 6]
    assert found.segments(4) == ([(0, 100), (-2, LAST)], True)
    many = requests_of(Poisson(rate=1, count=400, seed=1, prompt=20, output=5, prefix=Prefix(tokens=100, groups=4)))
    assert many.group is not None
    assert np.bincount(many.group).tolist() == pytest.approx([100] * 4, rel=0.3)
    assert requests_of(Poisson(rate=1, count=2, seed=1, prompt=20, output=5)).segments(1) == ([(-2, LAST)], False)


def test_the_busiest_part_of_a_stream() -> None:
    stream = requests_of(Poisson(rate=1, count=50, seed=1, prompt=20, output=5, prefix=Prefix(tokens=9, groups=2)))
    part = busiest(stream, 10)
    start = int(np.flatnonzero(np.isclose(stream.arrival[9:] - stream.arrival[:-9], part.arrival[-1]))[0])
    assert part.arrival[-1] == (stream.arrival[9:] - stream.arrival[:-9]).min()
    assert [part.segments(number)[0][0] for number in range(10)] == [
        stream.segments(start + number)[0][0] for number in range(10)]
    assert busiest(stream, 50) is stream


def test_a_trace_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text("prompt,arrival,output\n10,2.5,3\n20,0.5,4\n\n30,2.5,5\n")
    found = requests_of(RequestTrace(path=str(path)))
    assert found.arrival.tolist() == [0, 2 * 10**12, 2 * 10**12]
    assert found.prompt.tolist() == [20, 10, 30]
    assert found.output.tolist() == [4, 3, 5]
    assert requests_of(RequestTrace(path=str(path), speed=4)).arrival.tolist() == [0, 5 * 10**11, 5 * 10**11]
    assert len(requests_of(RequestTrace(path=str(path), first=1))) == 1


def test_a_trace_of_azure(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n"
                    "2023-11-16 18:17:04.0319600,3180,8\n")
    found = requests_of(RequestTrace(path=str(path)))
    assert found.arrival[1] == pytest.approx(52 * 10**9, abs=10**6)
    assert found.prompt.tolist() == [4808, 3180]
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10T00:00:00.009930+00:00,1,10\n"
                    "2024-05-10T01:00:01+01:00,2,8\n")
    assert requests_of(RequestTrace(path=str(path))).arrival.tolist() == pytest.approx([0, 990_070_000_000], abs=10**6)


def test_a_trace_of_burst_gpt(tmp_path: Path) -> None:
    """Requests that failed have no response tokens."""
    path = tmp_path / "burst.csv"
    path.write_text("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                    "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,Conversation log\n"
                    "118,GPT-4,417,276,693,API log\n")
    found = requests_of(RequestTrace(path=str(path)))
    assert found.arrival.tolist() == [0, 113 * 10**12]
    assert found.output.tolist() == [18, 276]
    assert "1 of 3 requests have no answer" in found.notes[1]
    assert "column 'Model' is not read" in found.notes[0]
    assert "has 2 requests, fewer than first: 5" in requests_of(RequestTrace(path=str(path), first=5)).notes[-1]


def test_a_trace_of_mooncake(tmp_path: Path) -> None:
    path = tmp_path / "moon.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 1030, "output_length": 5, "hash_ids": [0, 1, 2]}\n'
                    '{"timestamp": 3000, "input_length": 600, "output_length": 7, "hash_ids": [0, 9]}\n')
    found = requests_of(Mooncake(path=str(path)))
    assert found.arrival.tolist() == [0, 3 * 10**12]
    assert found.segments(0)[0][:-1] == [(0, 512), (1, 1024), (2, 1030)]
    assert found.segments(1)[0][:-1] == [(0, 512), (9, 600)]


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


ONE: dict[str, Any] = {"arrival": 0, "prompt": 100, "output": 5}


def test_json_lines_have_priorities_prefixes_and_turns(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(lines(
        {"arrival": 9, "prompt": 50, "output": 5, "group": "a", "prefix": 32, "priority": -1},
        {"arrival": 1, "prompt": 40, "output": 3, "session": "s", "hashes": [7, 8], "hash_block": 16},
        {"prompt": 60, "output": 3, "session": "s", "think": 2.5},
        {"arrival": 2, "prompt": 50, "output": 5, "group": "a", "prefix": 32}))
    found = requests_of(JsonLines(path=str(path)))
    assert found.prompt.tolist() == [40, 60, 50, 50]
    assert found.arrival[[0, 2, 3]].tolist() == [0, 10**12, 8 * 10**12]
    assert found.roots() == [0, 2, 3]
    assert found.next_turn(0) == (1, 25 * 10**11)
    assert [found.priority_of(number) for number in range(4)] == [0, 0, 0, -1]
    assert found.segments(2)[0][0] == found.segments(3)[0][0]
    assert found.segments(2)[0][0][1] == 32
    assert [end for _, end in found.segments(0)[0]] == [16, 32, LAST]
    assert found.segments(0)[0][-1] == found.segments(1)[0][-1]
    assert list(found.groups) == ["a"]
    assert found.group is not None
    assert found.group.tolist() == [-1, -1, 0, 0]


@pytest.mark.parametrize(("rows", "message"), [
    ([{**ONE, "lora": "x"}], "line 1: unknown key 'lora'"), ([ONE, {**ONE, "image": 1}], "line 2: unknown key 'image'"),
    ([{**ONE, "prompt": 1.5}], "line 1, prompt: '1.5' is no whole number"),
    ([{**ONE, "output": 0}], "line 1, output: 0 is out of range"),
    ([{**ONE, "prefix": 5}], "belongs to no group"), ([{**ONE, "group": 5}], "line 1, group: '5' is no text"),
    ([{**ONE, "group": "g", "prefix": 101}], "prefix: 101 is out of range"),
    ([{**ONE, "hash_block": 8}], "hash_block: has no effect without hashes"),
    ([{**ONE, "hashes": [1] * 8}], "8 hashes; expected at most 7"), ([{**ONE, "hashes": 5}], "hashes: '5' is no list"),
    ([{**ONE, "think": 5}], "comes before no turn"),
    ([{"prompt": 1, "output": 1}], "line 1, arrival: 'None' is no time"),
    ([{**ONE, "session": "s"}, {"prompt": 105, "output": 1, "session": "s"}], "line 2, prompt: 105 tokens"),
    ([{**ONE, "session": "s"}, {**ONE, "session": "s"}], "line 2, arrival: has no effect")])
def test_json_lines_that_are_none_are_refused(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(lines(*rows))
    with pytest.raises(InputError, match=message):
        requests_of(JsonLines(path=str(path)))


def test_json_lines_have_a_key_once(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(lines({**ONE, "group": '":":":"'}) + '{"arrival": 0, "prompt": 5, "output": 5, "prompt": 7}\n')
    with pytest.raises(InputError, match="line 2: key 'prompt' is there twice"):
        requests_of(JsonLines(path=str(path)))


def test_share_gpt_needs_a_rate_of_characters(tmp_path: Path) -> None:
    path = tmp_path / "share.json"
    path.write_text(json.dumps([{"id": "a", "conversations": [{"from": "human", "value": "x" * 400},
                                                              {"from": "gpt", "value": "y" * 80}, {"value": "z"}]},
                                {"id": "b", "conversations": [{"from": "human", "value": "x"}]}]))
    found = requests_of(ShareGpt(path=str(path), characters_per_token=4, rate=2, count=3, seed=1))
    assert found.prompt.tolist() == [100] * 3
    assert found.output.tolist() == [20] * 3
    with pytest.raises(ConfigError, match="characters_per_token: is missing"):
        decode(Arrivals, {"kind": "sharegpt", "path": str(path), "rate": 2, "count": 3, "seed": 1})
    for text, message in (("[1]", "conversation 0"), ("{}", "no list"), ("[]", "no conversation"), ("[", "no JSON"),
                          ('[{"conversations": [{"value": 1}, {"value": "a"}]}]', "a turn without text")):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            requests_of(ShareGpt(path=str(path), characters_per_token=4, rate=2, count=3, seed=1))


@pytest.mark.parametrize(("text", "message"), [
    ("", "is empty"), ("a,b\n1,2\n", "columns"), ("arrival,prompt,output\n", "no requests"),
    ("arrival,prompt,output\n1,x,3\n", "line 2, column prompt: 'x' is no whole number"),
    ("arrival,prompt,output\n1,2\n", "line 2: 2 values; expected 3"),
    ("arrival,prompt,output\n1,2,3,4\n", "line 2: 4 values; expected 3"),
    ("arrival,prompt,output,priority\n1,2,3,4\n", "line 1: unknown column 'priority'.*jsonl"),
    ("arrival,prompt,output,prompt\n1,2,3,4\n", "line 1: column 'prompt' is there twice"),
    ("arrival,prompt,output\n1,2,3\n1,0,3\n", "line 3, column prompt"),
    ("arrival,prompt,output\nnan,1,3\n", "out of range"),
    ("arrival,prompt,output\n1e300,1,3\n", "out of range"),
    ("arrival,prompt,output\nsoon,1,3\n", "line 2, column arrival: 'soon' is no time")])
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "requests.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        requests_of(RequestTrace(path=str(path)))
    with pytest.raises(InputError, match="cannot be read"):
        requests_of(RequestTrace(path=str(tmp_path / "none.csv")))


VALUES = st.one_of(st.integers(), st.floats(), st.text(max_size=30))
TABLES = st.lists(st.lists(VALUES, max_size=4)).map(
    lambda rows: "arrival,prompt,output\n" + "\n".join(",".join(map(str, row)) for row in rows))
KEYS = st.sampled_from(["arrival", "prompt", "output", "session", "think", "group", "prefix", "hashes", "timestamp",
                        "input_length", "output_length", "hash_ids"])
OBJECTS = st.lists(st.dictionaries(KEYS, st.one_of(VALUES, st.none(), st.lists(VALUES, max_size=3)))).map(
    lambda rows: lines(*rows))


@draws(25)
@given(st.one_of(st.text(), TABLES, OBJECTS), st.sampled_from([RequestTrace, JsonLines, Mooncake]))
def test_no_file_is_a_crash(text: str, kind: type[RequestTrace | JsonLines | Mooncake]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests"
        path.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        with contextlib.suppress(InputError):
            assert len(requests_of(kind(path=str(path)))) > 0


def test_streams_that_would_never_end_are_refused() -> None:
    with pytest.raises(InputError, match="tokens to generate"):
        requests_of(Poisson(rate=1, count=1_000_000, seed=0, prompt=1, output=1001))
    with pytest.raises(InputError, match="too slow"):
        requests_of(Poisson(rate=1e-9, count=10, seed=0, prompt=1, output=1))
    with pytest.raises(InputError, match="a prompt of"):
        requests_of(Poisson(rate=1, count=5, seed=0, prompt=9_999_999, output=1, session=Session(turns=5)))


def test_lengths_are_given_once() -> None:
    with pytest.raises(ConfigError, match="no prompt"):
        Poisson(rate=1, count=1, seed=0, use_case="chat", prompt=5)
    with pytest.raises(ConfigError, match="is missing"):
        ClosedLoop(concurrency=1, count=1, prompt=5)
    with pytest.raises(ConfigError, match=r"high: 100 is below the mean, 500: .*at least 500"):
        Lognormal(mean=500, cv=1, high=100)
    with pytest.raises(ConfigError, match=r"seed: is missing.*lengths"):
        ClosedLoop(concurrency=1, count=1, prompt=Uniform(low=1, high=2), output=5)
