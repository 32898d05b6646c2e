"""Streams of requests: seeds, files, refusals."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.config import ConfigError
from astrarium.errors import InputError
from astrarium.serving import ClosedLoop, Poisson, RequestTrace
from astrarium.serving.requests import requests_of


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


def test_a_trace_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text("prompt,arrival,output\n10,2.5,3\n20,0.5,4\n\n30,2.5,5\n")
    found = requests_of(RequestTrace(path=str(path)))
    assert found.arrival.tolist() == [0, 2 * 10**12, 2 * 10**12]
    assert found.prompt.tolist() == [20, 10, 30]
    assert found.output.tolist() == [4, 3, 5]
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


@pytest.mark.parametrize(("text", "message"), [
    ("", "columns"), ("a,b\n1,2\n", "columns"), ("arrival,prompt,output\n", "no requests"),
    ("arrival,prompt,output\n1,x,3\n", "line 2"), ("arrival,prompt,output\n1,2\n", "line 2"),
    ("arrival,prompt,output\n1,2,3\n1,0,3\n", "line 3"), ("arrival,prompt,output\nnan,1,3\n", "out of range"),
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


@given(st.one_of(st.text(), TABLES))
def test_no_file_is_a_crash(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests.csv"
        path.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        with contextlib.suppress(InputError):
            assert len(requests_of(RequestTrace(path=str(path)))) > 0


def test_streams_that_would_never_end_are_refused() -> None:
    with pytest.raises(InputError, match="tokens to generate"):
        requests_of(Poisson(rate=1, count=1_000_000, seed=0, prompt=1, output=1001))
    with pytest.raises(InputError, match="too slow"):
        requests_of(Poisson(rate=1e-9, count=10, seed=0, prompt=1, output=1))


def test_lengths_are_given_once() -> None:
    with pytest.raises(ConfigError, match="no prompt"):
        Poisson(rate=1, count=1, seed=0, use_case="chat", prompt=5)
    with pytest.raises(ConfigError, match="is missing"):
        ClosedLoop(concurrency=1, count=1, prompt=5)
