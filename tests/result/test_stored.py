"""`Result.load` gives back what `run --json` and `--parquet` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium.cli import main
from astrarium.errors import InputError
from astrarium.result import Result, Stored, tables, write_json, write_parquet

STEP = """
workload: {source: transformer, model: gpt2-small, tp: 2, dp: 2, pp: 2, global_batch: 8, seq: 512}
compute: {model: roofline, peak: 312 TFLOP/s}
memory: {bandwidth: 2039 GB/s, capacity: 80 GB}
network: {dims: [{shape: ring, npus: 8, bandwidth: 300 GB/s, latency: 500 ns}]}
"""


def made(tmp_path: Path, text: str = STEP) -> tuple[Path, Result]:
    path = tmp_path / "step.yaml"
    path.write_text(text)
    return path, ar.simulate(ar.load_design(path))


def same(stored: Stored, result: Result, *, nodes: bool) -> None:
    assert stored.summary() == result.summary()
    assert stored.makespan_ps == result.makespan_ps
    for name in ("makespan", "compute", "exposed_comm", "peak_memory", "out_of_memory"):
        assert getattr(stored, name) == getattr(result, name), name
    expected = tables(result, nodes=nodes)
    assert stored.tables.keys() == expected.keys()
    for name, table in expected.items():
        if not next(iter(table.values())).size:      # JSON has no columns where there are no rows
            continue
        assert stored.tables[name].keys() == table.keys()
        for column, values in table.items():
            found = stored.tables[name][column]
            assert found.dtype.kind == values.dtype.kind.replace("u", "i"), (name, column)
            assert np.array_equal(found, values, equal_nan=values.dtype.kind == "f"), (name, column)


def test_json_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, result = made(tmp_path)
    assert main(["run", str(path), "--json", "--nodes"]) == 0
    (tmp_path / "out.json").write_text(capsys.readouterr().out)
    stored = Result.load(tmp_path / "out.json")
    same(stored, result, nodes=True)
    assert stored.training["sequence_tokens"] == 512
    assert stored.interval["rows"] == 0
    assert 0 < stored.figures["mfu"] < 1


def test_parquet_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    path, result = made(tmp_path)
    assert main(["run", str(path), "--parquet", str(tmp_path / "out")]) == 0
    stored = Result.load(tmp_path / "out")
    same(stored, result, nodes=False)
    assert stored.training["global_batch"] == 8
    assert stored.figures.keys() >= {"mfu", "hfu", "tokens_per_second"}
    write_parquet(result, tmp_path / "plain", nodes=True)
    same(Result.load(tmp_path / "plain"), result, nodes=True)


def test_a_run_without_node_times_and_with_gaps(tmp_path: Path) -> None:
    design = ar.Design(workload=ar.SingleCollective(op="barrier", payload="1 B"),
                       network=ar.Network([ar.Switch(4, bandwidth="1 GB/s", latency="1 us")]))
    result = ar.simulate(design)
    write_json(result, tmp_path / "barrier.json")
    stored = Result.load(tmp_path / "barrier.json")
    same(stored, result, nodes=False)
    assert np.isnan(stored.tables["collectives"]["busbw_gb_per_s"]).all()
    assert stored.figures == {}
    short = ar.simulate(design, record=False)
    write_json(short, tmp_path / "short.json")
    stored = Result.load(tmp_path / "short.json")
    assert stored.makespan_ps == short.makespan_ps
    with pytest.raises(InputError, match="record=True"):
        _ = stored.compute


@pytest.mark.parametrize(("text", "words"), [
    ("{", "is no JSON"), ("[1]", "is no result"), ('{"summary": {}}', "no summary with a makespan"),
    ('{"summary": {"makespan_ns": 1}, "ranks": [{"a": 1}, {"b": 2}]}', "ranks: is no list of records"),
])
def test_what_is_no_result_is_refused(tmp_path: Path, text: str, words: Any) -> None:
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(InputError, match=words):
        Result.load(tmp_path / "odd.json")


def test_a_path_without_a_result_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        Result.load(tmp_path / "none.json")
    pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    with pytest.raises(InputError, match=r"no ranks\.parquet"):
        Result.load(tmp_path)
