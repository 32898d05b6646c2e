"""Per-request logs of an engine: read in all forms, compared, and what they leave to the host."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from astrarium import Design, config
from astrarium.errors import InputError
from astrarium.serving.policy import Policy
from astrarium.validate.serving.calibrate import fitted, means_of, replayed
from astrarium.validate.serving.log import Log, log_notes, read_log
from astrarium.validate.serving.log_formats import Sent


@pytest.fixture
def design() -> Design:
    return config.decode(Design, {
        "workload": {"source": "inference", "model": "llama3-8b", "phase": "decode", "context": 1},
        "network": {"dims": [{"like": "dgx_h100_nvswitch", "npus": 1, "latency": "0 ns"}]},
        "compute": {"model": "measured", "device": "h100_sxm"}, "memory": {"like": "h100_sxm"}})


def test_three_forms_of_a_log(tmp_path: Path) -> None:
    lines = [{"start_time": 5.0, "input_tokens": 10, "output_tokens": 3, "ttft": 0.1, "latency": 0.3},
             {"start_time": 4.0, "input_tokens": 20, "output_tokens": 2, "ttft": 0.2, "latency": 0.25}]
    rows, lists, table = tmp_path / "log.jsonl", tmp_path / "bench.json", tmp_path / "log.csv"
    rows.write_text("\n".join(map(json.dumps, lines)))
    lists.write_text(json.dumps({"start_times": [5.0, 4.0], "input_lens": [10, 20], "output_lens": [3, 2],
                                 "ttfts": [0.1, 0.2], "itls": [[0.1, 0.1], [0.05]]}))
    several = tmp_path / "several.json"         # a gap of 0.2 s for two tokens
    several.write_text(lists.read_text().replace("[0.1, 0.1]", "[0.2]"))
    failed = tmp_path / "failed.json"
    failed.write_text(json.dumps({"start_times": [5.0, 4.0], "input_lens": [10, 20], "output_lens": [3, 0],
                                  "ttfts": [0.1, 0.0], "itls": [[0.1, 0.1], []]}))
    assert (len(read_log(failed).prompt), read_log(failed).failed) == (1, 1)
    table.write_text("arrival,prompt,output,ttft_ms,tpot_ms\n5,10,3,100,100\n4,20,2,200,50\n")
    for path in (rows, lists, several, table):
        log = read_log(path)
        assert log.arrival.tolist() == [0, 1]
        assert log.prompt.tolist() == [20, 10]
        assert log.ttft.tolist() == [0.2, 0.1]
        assert log.tpot.tolist() == pytest.approx([0.05, 0.1])
    rows.write_text(json.dumps({"arrival_time": 1.7e9, "queued_ts": 4.0, "first_token_ts": 4.2, "last_token_ts": 4.3,
                                "input_toks": 20, "output_toks": 3}))
    assert (read_log(rows).ttft, read_log(rows).tpot) == (pytest.approx([0.2]), pytest.approx([0.05]))


def test_records_of_other_clients(tmp_path: Path) -> None:
    path = tmp_path / "log"
    metrics = {name: {"value": value, "unit": unit} for name, value, unit in (
        ("input_sequence_length", 20, "tokens"), ("request_latency", 300, "ms"), ("time_to_first_token", 0.2, "sec"),
        ("output_sequence_length", 3, "tokens"))}
    records = [{"metadata": {"request_start_ns": 4_000_000_000}, "metrics": metrics, "error": None},
               {"metadata": {"request_start_ns": 5_000_000_000}, "metrics": None, "error": {"code": 499}}]
    path.write_text("\n".join(map(json.dumps, records)))                       # AIPerf
    aiperf = read_log(path)
    info = {"input_tokens": 20, "response_metrics": {"output_tokens": 2, "server_usage": {"completion_tokens": 3},
                                                     "output_token_times": [4.2, 4.2, 4.25, 4.25, 4.3]}}
    path.write_text(json.dumps([{"start_time": 4.0, "end_time": 4.4, "info": info, "error": None}]))    # inference-perf
    for log, failed in ((aiperf, 1), (read_log(path), 0)):
        assert (log.prompt.tolist(), log.output.tolist(), log.failed) == ([20], [3], failed)
        assert [*log.ttft, *log.tpot, *log.latency] == pytest.approx([0.2, 0.05, 0.3])
    records[0]["metrics"] = {"request_latency": {"value": 1, "unit": "furlongs"}}
    path.write_text(json.dumps(records[0]))
    with pytest.raises(InputError, match="request 1: has no 'furlongs' where its format has it"):
        read_log(path)


BENCH = {"input_lens": [10, 20, 30], "output_lens": [3, 2, 2], "ttfts": [0.1, 0.2, 0.3],
         "itls": [[0.1, 0.1], [0.1], [0.1]]}


@pytest.mark.parametrize(("settings", "arrival", "users", "said"), [
    ({"request_timestamps": [9.0, 9.5, 8.0]}, [0, 1, 1.5], None, ""),
    ({"request_rate": "inf", "max_concurrency": 2}, [0, 0, 0], 2, "a closed loop of 2"),
    ({"request_rate": float("inf"), "max_concurrency": None}, [0, 0, 0], None, "all at once"),
    ({"request_rate": 2.0, "burstiness": 1e9}, [0, 0.5, 1], None, "are drawn .2 per second, burstiness 1e.09"),
    ({"request_rate": 2.0, "max_concurrency": 8}, None, None, "no more than 8 at once is not modelled")])
def test_without_times_of_sending_its_settings_count(tmp_path: Path, settings: dict[str, object],
                                                     arrival: list[float] | None, users: int | None, said: str) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(BENCH | settings))
    log = read_log(path)
    assert arrival is None or log.arrival.tolist() == pytest.approx(arrival, abs=1e-3)
    assert log.sent.concurrency == users
    assert re.search(said, " ".join(log_notes("x", log)))


def test_a_closed_loop_is_replayed_as_one(design: Design) -> None:
    served = [replayed(replace(read_like([0.0] * 8), sent=Sent(users)), design, Policy(), {}) for users in (1, None)]
    assert served[0].tpot < served[1].tpot
    assert served[0].ttft < 0.5 * served[1].ttft


def test_a_log_may_have_one_time(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arrival_s,prompt,output,latency_ms\n5,10,3,300\n")
    log = read_log(path)
    assert log.count("latency") == 1
    assert log.latency.tolist() == [0.3]
    assert (means_of(log).latency, means_of(log).ttft) == (pytest.approx(300), 0)
    path.write_text("arrival,prompt,output,tpot\n5,10,1,0.02\n6,10,2,0.03\n")
    assert means_of(read_log(path)).tpot == pytest.approx(30)       # an answer of one token has none


HEAD = "arrival,prompt,output,ttft"


@pytest.mark.parametrize(("text", "message"), [
    ("arrival,prompt,output\n5,10,3\n", "has no measured time.*ttft, ttft_s, ttft_ms; .*latency"),
    ("arival,prompt,output,ttft\n5,10,3,1\n", "arrival: is not among.*did you mean .arrival"),
    (f"{HEAD}\n5,10,3\n", "line 2: 3 values; expected 4"), (f"{HEAD}\n5,10,3,1,9\n", "line 2: 5 values"),
    (f"{HEAD},ttft\n5,10,3,1,2\n", "line 1: column 'ttft' is there twice"),
    (f"{HEAD},ttft_ms\n5,10,3,1,2\n", "ttft: is there in seconds and in ms"),
    (f"{HEAD}\n5,10,3,1\n6,10,3,x\n", "request 2: ttft: 'x' is no number"),
    (f"{HEAD}\n5,10,3,-1\n", "request 1: ttft: -1 s is impossible"),
    (f"{HEAD},latency\n5,10,3,1,0.5\n", "request 1: latency: 0.5 s is less than its ttft, 1 s"),
    (f"{HEAD}\n5,10,3,\n", "no time that can be compared"),
    (f"{HEAD}\n5,10,3,0\n", "ttft: is 0 in all requests"), (f"{HEAD}\nsoon,10,3,1\n", "'soon' is no time"),
    (f"{HEAD}\n5,10.5,3,1\n", "request 1: prompt: 10.5 is impossible"),
    (f"{HEAD}\nnan,10,3,1\n", "request 1: arrival: nan is impossible"),
    (f"{HEAD}\n1e300,10,3,1\n", "request 1: arrival: 1e\\+300 is impossible"),
    (f"{HEAD}\n5,10,0,1\n", "request 1: output: 0 is impossible"),
    ('[1]', "not an object"), ('{"input_lens": [], "ttfts": [], "itls": []}', "output_lens: is missing"),
    ('{"input_lens": [], "ttfts": [], "output_lens": [], "itls": []}', "start_times: is missing.*request_rate"),
    ('{"input_lens": [1], "ttfts": [1], "output_lens": [1], "itls": [[]], "request_rate": 0}', "request_rate: '0' is"),
    ('{"start_times": [1], "input_lens": [1, 2], "ttfts": [1], "output_lens": [1], "itls": [[]]}',
     "1 start_times, 2 input_lens"), ("", "has no requests"),
    ('{"input_lens": [1], "ttfts": [1], "output_lens": [0], "itls": [[]], "start_times": [1]}',
     "none of its 1 requests has an answer"),
    ('{"completed": 1, "request_rate": 4}', "totals of bench_serving, but no lists.*--save-detailed"),
    ('{"completed": 1, "request_rate": 4}\n{"completed": 1, "request_rate": 8}', "several results of bench_serving"),
    (f"{HEAD}\n0,10,3,1\n1e11,10,3,1\n", "first and last are 1e.11 s apart"),
    ('{"metadata": {"request_start_ns": 1}, "metrics": {"output_sequence_length": {"value": null, "unit": "s"}}}',
     "another type of value than its format")])
def test_a_log_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_log(path)


def test_constants_of_the_host_are_found_again(design: Design) -> None:
    real = config.decode(Policy, {"overhead": "700 us", "stream_offset": "20 ms"})
    arrival = [0.05 * number for number in range(60)]
    asked = read_like(arrival)
    made = replayed(asked, design, real, {})
    log = Log(asked.arrival, asked.prompt, asked.output, asked.ttft + made.ttft / 1e3, asked.tpot + made.tpot / 1e3,
              asked.latency)
    found = fitted(log, design, Policy())
    assert found.overhead == pytest.approx(700, rel=0.05)
    assert found.offset == pytest.approx(20, rel=0.05)
    assert found.after.tpot == pytest.approx(found.measured.tpot, rel=0.01)


def read_like(arrival: list[float]) -> Log:
    """Requests of 500 and 60 tokens at these seconds, without times."""
    import numpy as np

    count = len(arrival)
    return Log(np.array(arrival), np.full(count, 500), np.full(count, 60), *np.zeros((3, count)))
