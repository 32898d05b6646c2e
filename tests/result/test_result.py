"""What a Result says of small runs whose every figure is known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium.errors import InputError
from astrarium.result import Result, tables, write_json, write_parquet
from astrarium.simulate import simulate_many
from astrarium.trace import TraceBuilder, Traces, attribute, traces_of_bytes
from astrarium.vocab import CommOp, NodeKind

PAIR = ar.Network([ar.Switch(2, bandwidth="1 GB/s", latency="0 ns")])
US = 1_000_000  # ps


def traces_of(*makers: Any) -> Traces:
    """One trace per function, which adds the nodes of its rank."""
    builders = [TraceBuilder() for _ in makers]
    for make, builder in zip(makers, builders, strict=True):
        make(builder)
    return traces_of_bytes([builder.encode() for builder in builders])


def run(*makers: Any, record: bool = True, **sections: Any) -> Result:
    chosen = {"workload": ar.Trace("in memory"), "network": PAIR, **sections}
    return ar.simulate(ar.Design(**chosen), traces=traces_of(*makers), record=record, fold="off")


def first_stage(builder: TraceBuilder) -> None:
    builder.comp("forward", 10)
    builder.send("activations", 1, 5000, after=[0])


def second_stage(builder: TraceBuilder) -> None:
    builder.comp("prepare", 2)
    builder.recv("activations", 0, 5000)
    builder.comp("forward", 4, after=[1])


def test_a_receive_is_in_flight_once_its_message_is() -> None:
    result = run(first_stage, second_stage)
    ranks = result.ranks
    assert result.makespan_ps == 19 * US
    assert ranks.compute.tolist() == [10 * US, 6 * US]
    assert ranks.exposed_comm.tolist() == [5 * US, 5 * US]
    assert ranks.bubble.tolist() == [0, 8 * US]
    assert ranks.idle.tolist() == [4 * US, 0]
    assert (result.last_rank, str(result.makespan), str(result.exposed_comm)) == (1, "19 us", "5 us")


def test_the_critical_path_crosses_to_the_sender() -> None:
    path = run(first_stage, second_stage).path
    assert list(zip(path.rank.tolist(), path.work.tolist(), path.start.tolist(), path.end.tolist())) == [
        (0, 0, 0, 10 * US), (1, 2, 10 * US, 15 * US), (1, 0, 15 * US, 19 * US)]
    assert path.shares() == {"compute": pytest.approx(14 / 19), "message": pytest.approx(5 / 19)}


def late(micros: int) -> Any:
    def make(builder: TraceBuilder) -> None:
        builder.comp("before", micros)
        builder.coll("sum", CommOp.ALL_REDUCE, 8000, after=[0])
        builder.comp("beside", 3, after=[0])
    return make


def test_a_collective_counts_from_its_last_participant() -> None:
    result = run(late(1), late(6))
    found = result.collectives
    assert (found.start.tolist(), found.ready.tolist(), found.end.tolist()) == ([1 * US], [6 * US], [14 * US])
    assert (found.payload.tolist(), found.ranks.tolist(), found.instances.tolist()) == ([8000], [2], [1])
    assert found.algbw.tolist() == found.busbw.tolist() == [1.0]
    assert result.ranks.exposed_comm.tolist() == [10 * US, 5 * US]
    assert [r for r in result.path.rank.tolist() if r == 0] == [0]      # only the collective itself is on rank 0
    assert result.path.work.tolist() == [0, 1]


def test_under_astra_sim_exposed_is_finish_minus_compute() -> None:
    result = run(late(1), late(6), compat="astra_sim", collective=ar.Collective(all_reduce=["ring"]))
    assert result.ranks.compute.tolist() == [4 * US, 9 * US]
    np.testing.assert_array_equal(result.ranks.exposed_comm, result.ranks.finish - result.ranks.compute)


def test_remote_memory_and_host_work_have_columns_of_their_own() -> None:
    def make(builder: TraceBuilder) -> None:
        builder.memory("load", 3000)
        builder.comp("host", 2, cpu=True, after=[0])
        builder.comp("device", 1, after=[1])

    ranks = run(make, make, memory=ar.Memory(remote=ar.Remote("per_npu", bandwidth="1 GB/s"))).ranks
    assert (ranks.exposed_memory.tolist(), ranks.exposed_host.tolist()) == ([3 * US] * 2, [2 * US] * 2)
    assert (ranks.compute.tolist(), ranks.bubble.tolist()) == ([1 * US] * 2, [0, 0])


def test_links_and_dims() -> None:
    result = run(first_stage, second_stage)
    assert result.links.size.tolist() == [5000, 5000]
    assert result.dims.size.tolist() == [5000]
    assert result.busiest_link() == ("dim 0: out of NPU 0", pytest.approx(5 / 19))


def test_use_of_links_over_time() -> None:
    # 5,000 bytes leave NPU 0 at 1 byte/ns from 10 us on (see test_a_receive...): bins of 131,072 ps hold 19 us.
    result = run(first_stage, second_stage)
    dims = result.dims
    first = result.messages
    begin = int(result.comm.start[first.send[0]])
    shares = [max(0, min(begin + 5 * US, (i + 1) * dims.bin) - max(begin, i * dims.bin))
              for i in range(dims.busy_over_time.shape[1])]
    assert dims.bin == 131_072
    assert len(shares) == 19 * US // dims.bin + 1
    assert dims.busy_over_time.tolist() == [shares]
    assert dims.utilisation_over_time.max() == 1.0
    table = tables(result)["dims_over_time"]
    assert table["links_busy_ns"].sum() == 5000
    assert table["end_ns"][-1] == 19_000
    assert (table["end_ns"][:-1] == table["start_ns"][1:]).all()


def test_memory_over_time_and_the_verdict() -> None:
    def make(builder: TraceBuilder) -> None:
        builder.node(NodeKind.COMP, "a", [attribute("inputs", ["w", "100"], "string_list"),
                                          attribute("outputs", ["x", "50"], "string_list")], duration=1)
        builder.node(NodeKind.COMP, "b", [attribute("inputs", ["x", "50"], "string_list"),
                                          attribute("outputs", ["y", "70.0"], "string_list")], duration=1, after=[0])

    # w until 1 us, x until 2 us, y from 1 us on: nobody reads it
    fits = run(make, make, memory=ar.Memory(capacity="220 B"))
    at, held = fits.memory.over_time(0)
    assert (at.tolist(), held.tolist()) == ([0, 1 * US, 2 * US], [150, 120, 70])
    assert (fits.peak_memory, fits.out_of_memory) == (150, False)
    assert run(make, make, memory=ar.Memory(capacity="149 B")).out_of_memory is True
    assert run(make, make).out_of_memory is None
    assert run(first_stage, second_stage).peak_memory is None


def test_tensor_lists_that_cannot_be_read_cost_only_that_figure() -> None:
    def make(builder: TraceBuilder) -> None:
        builder.node(NodeKind.COMP, "a", [attribute("outputs", ["x", "50.0", "odd"], "string_list")], duration=1)

    result = run(make, make)
    assert result.makespan_ps == 1 * US
    assert result.peak_memory is None
    assert "node 0 (a): attribute outputs cannot be read" in result.summary()["memory_unknown_because"]


def test_json_says_its_units_and_leaves_no_half_file(tmp_path: Path) -> None:
    result = run(late(1), late(6))
    write_json(result, tmp_path / "out.json", nodes=True)
    found = json.loads((tmp_path / "out.json").read_text())
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    assert found["summary"]["makespan_ns"] == 14_000
    assert found["ranks"][1] == {
        "rank": 1, "finish_ns": 14_000, "compute_ns": 9_000, "exposed_comm_ns": 5_000, "exposed_memory_ns": 0,
        "exposed_host_ns": 0, "bubble_ns": 0, "idle_ns": 0, "peak_memory_bytes": None}
    assert found["collectives"][0]["op"] == "all_reduce"
    assert len(found["nodes"]) == 6
    for name, rows in found.items():
        for key in rows[0] if name != "summary" else rows:
            assert not key.endswith("_ps")


def test_parquet_holds_the_same_tables(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra `parquet`")
    result = run(late(1), late(6))
    written = write_parquet(result, tmp_path / "out")
    assert len(written) == 6
    assert parquet.read_table(tmp_path / "out" / "ranks.parquet").column("finish_ns").to_pylist() == [14_000, 14_000]


def test_a_data_frame_takes_each_table() -> None:
    """As docs/guides/results.md says; the columns have the values of the attributes, in the units of their names."""
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    result = run(*[lambda builder: builder.coll("c", CommOp.ALL_REDUCE, 4096, duration=3)] * 2)
    for name, table in tables(result, nodes=True).items():
        assert len({len(column) for column in table.values()}) == 1, name
        assert list(pandas.DataFrame(table)) == list(table)
    frame = pandas.DataFrame(tables(result)["collectives"])
    assert frame["op"].tolist() == ["all_reduce"]
    assert (frame["end_ns"] * 1000).tolist() == result.collectives.end.tolist()


def test_without_recorded_nodes_only_the_finish_is_known() -> None:
    result = run(first_stage, second_stage, record=False)
    assert result.makespan_ps == 19 * US
    assert list(tables(result)) == ["ranks"]
    assert result.summary()["makespan_ns"] == 19_000
    for name in ("nodes", "comm", "messages", "ranks", "collectives", "path"):
        with pytest.raises(InputError, match=r"node times were not recorded; expected simulate\(design, record=True\)"):
            getattr(result, name)


def test_a_run_of_nothing() -> None:
    result = run(lambda builder: None, lambda builder: None)
    assert result.makespan_ps == 0
    assert result.summary()["critical_path"] == {}
    assert result.collectives.op.size == result.messages.send.size == 0


def test_many_designs_at_once_read_their_traces_once(tmp_path: Path) -> None:
    for rank in range(2):
        builder = TraceBuilder()
        late(rank + 1)(builder)
        builder.write(tmp_path / f"t.{rank}.et")
    design = ar.Design(workload=ar.Trace(str(tmp_path / "t")), network=PAIR)
    designs = [ar.replace(design, "network.dims[0].bandwidth", f"{n} GB/s") for n in (1, 2, 4)]
    cache: Any = {}
    found = simulate_many(designs, workers=2, cache=cache)
    assert len(cache) == 1
    assert [result.makespan_ps for result in found] == [ar.simulate(d).makespan_ps for d in designs]
    (tmp_path / "t.0.et").unlink()
    assert ar.simulate(designs[0], cache=cache).makespan_ps == found[0].makespan_ps
    with pytest.raises(InputError, match=r"t\.0\.et"):
        ar.simulate(designs[0])


def test_the_verb_stands_whatever_was_imported_first() -> None:
    code = ("import astrarium.simulate, astrarium as ar; from astrarium.simulate import simulate_many; "
            "print(callable(ar.simulate), ar.simulate.__module__)")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["True", "astrarium.simulate"]
