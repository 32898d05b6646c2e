"""Per-request logs of an engine: read in three forms, compared, and what they leave to the host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astrarium import Design, config
from astrarium.errors import InputError
from astrarium.serving.policy import Policy
from astrarium.validate.serving.calibrate import fitted, replayed
from astrarium.validate.serving.log import Log, read_log


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
    table.write_text("arrival,prompt,output,ttft_ms,tpot_ms\n5,10,3,100,100\n4,20,2,200,50\n")
    for path in (rows, lists, table):
        log = read_log(path)
        assert log.arrival.tolist() == [0, 1]
        assert log.prompt.tolist() == [20, 10]
        assert log.ttft.tolist() == [0.2, 0.1]
        assert log.tpot.tolist() == pytest.approx([0.05, 0.1])
    rows.write_text(json.dumps({"arrival_time": 1.7e9, "queued_ts": 4.0, "first_token_ts": 4.2, "last_token_ts": 4.3,
                                "input_toks": 20, "output_toks": 3}))
    assert (read_log(rows).ttft, read_log(rows).tpot) == (pytest.approx([0.2]), pytest.approx([0.05]))
    table.write_text("arrival,prompt,output\n5,10,3\n")
    with pytest.raises(InputError, match="ttft"):
        read_log(table)


def test_constants_of_the_host_are_found_again(design: Design) -> None:
    real = config.decode(Policy, {"overhead": "700 us", "stream_offset": "20 ms"})
    arrival = [0.05 * number for number in range(60)]
    asked = read_like(arrival)
    made = replayed(asked, design, real, {})
    log = Log(asked.arrival, asked.prompt, asked.output, asked.ttft + made.ttft / 1e3, asked.tpot + made.tpot / 1e3)
    found = fitted(log, design, Policy())
    assert found.overhead == pytest.approx(700, rel=0.05)
    assert found.offset == pytest.approx(20, rel=0.05)
    assert found.after.tpot == pytest.approx(found.measured.tpot, rel=0.01)


def read_like(arrival: list[float]) -> Log:
    """Requests of 500 and 60 tokens at these seconds, without times."""
    import numpy as np

    count = len(arrival)
    return Log(np.array(arrival), np.full(count, 500), np.full(count, 60), np.zeros(count), np.zeros(count))
