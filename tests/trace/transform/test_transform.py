"""Transforms: what each says it does, and that dependencies stay valid whatever the trace."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace.transform.jobs import assert_valid, generated, makespan, random_jobs

from astrarium.errors import InputError, TraceError, UnsupportedError
from astrarium.trace import TraceBuilder, graph_of, read_node, ready_order
from astrarium.trace._wire import delimited, varint
from astrarium.trace.transform import Job, load_job, parse_step, transform, write_job
from astrarium.trace.transform.patch import Change, patch
from astrarium.trace.transform.splice import Splice, spliced
from astrarium.vocab import CommOp

STEPS = ["rename:to=x{id}", "strip", "scale_durations:by=0.3", "scale_sizes:by=3,kind=collective", "coalesce",
         "coalesce:below=1 ms", "drop:kind=gpu", "drop:kind=host,name=*1", "drop:kind=all_reduce", "cut_ranks:ranks=0",
         "cut_ranks:ranks=0-1", "cut_ranks:ranks=1,3", "cut_ranks:ranks=0-3", "grow_dp:factor=2,over=[all]"]


@settings(max_examples=60, deadline=None)
@given(random_jobs(), st.sampled_from(STEPS[:-1]), st.sampled_from(STEPS[:-1]))
def test_every_transform_keeps_traces_runnable(job: Job, first: str, second: str) -> None:
    for step in (first, second):
        if step.startswith("cut_ranks") and max(map(int, step.partition("=")[2].replace("-", ",").split(","))) >= len(
                job.files):
            continue
        job = transform([job], [step])
        assert_valid(job)


@settings(max_examples=30, deadline=None)
@given(random_jobs(), random_jobs(), st.sampled_from(["ranks", "time"]))
def test_merged_traces_run(left: Job, right: Job, along: str) -> None:
    merged = transform([left, right], along=along)  # type: ignore[arg-type]
    assert len(merged.files) == (8 if along == "ranks" else 4)
    assert_valid(merged)


@settings(max_examples=60, deadline=None)
@given(random_jobs(), st.integers(0, 2))
def test_leaving_nodes_out_keeps_every_order_among_the_rest(job: Job, number: int) -> None:
    before, after = job.traces(), transform([job], [f"drop:kind=gpu,name=*{number}"]).traces()
    for rank in range(4):
        old, new = _reach(before, rank), _reach(after, rank)
        kept = set(new)
        assert {node: ways & kept for node, ways in old.items() if node in kept} == new


FIELDS = st.one_of(
    st.integers(0, 2**63).map(lambda value: b"\x08" + varint(value)), st.text(max_size=9).map(
        lambda text: b"\x12" + delimited(text.encode())), st.just(b"\x18\x04"), st.just(b"\x2a\x02\x01\x02"),
    st.integers(0, 2**40).map(lambda value: b"\x38" + varint(value)), st.just(b"\x52\x04\x0a\x02ab"),
    st.just(b"\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), st.just(b"\xa2\x06\x01x"), st.just(b"\x0d\0\0\0\0"),
    st.just(b"\x12" + delimited(b"n" * 300)))


@given(st.lists(st.lists(FIELDS, max_size=6), min_size=1, max_size=5), st.booleans(), st.sampled_from([2, 7]),
       st.data())
def test_a_spliced_field_is_what_patching_gives(fields: list[list[bytes]], sort: bool, field: int,
                                                data: st.DataObject) -> None:
    """Whatever the order of fields, their number, and what the writer knew that this version does not."""
    messages = [b"".join(sorted(each, key=lambda raw: raw[0]) if sort else each) for each in fields]
    file = b"".join(map(delimited, messages))
    end = np.cumsum([len(delimited(each)) for each in messages])
    start = end - [len(each) for each in messages]
    nodes = np.array(sorted(data.draw(st.sets(st.integers(0, len(messages) - 1)))), np.int64)
    value = data.draw(st.integers(0, 300))
    raw = (b"\x38" + varint(value) if value else b"") if field == 7 else b"\x12" + delimited(b"new" * value)
    change = Change(duration=value) if field == 7 else Change(name="new" * value)
    raw = raw if field == 7 or value else b""
    made = dict(spliced(file, start, end, Splice(field, nodes, [raw] * nodes.size)))
    assert made == {node: patch(messages[node], change) for node in nodes.tolist()}


def _reach(traces: object, rank: int) -> dict[int, set[int]]:
    columns = traces.of(rank)[0]  # type: ignore[attr-defined]
    graph = graph_of(columns)
    found: dict[int, set[int]] = {}
    for node in ready_order(columns, graph).tolist():
        parents = [int(columns.node_id[p]) for p in graph.parent[graph.ptr[node]:graph.ptr[node + 1]]]
        found[int(columns.node_id[node])] = set(parents).union(*(found[p] for p in parents))
    return found


def test_leaving_a_whole_stream_out_stays_small() -> None:
    made, host, gpu = TraceBuilder(), list[int](), list[int]()
    for _ in range(3000):
        host = [made.comp("launch", 1, cpu=True, after=host)]
        gpu = [made.comp("kernel", 2, after=[*host, *gpu])]
    made.comp("wait", 1, cpu=True, after=[*host, *gpu])
    columns = transform([Job([made.encode()], {})], ["drop:kind=gpu"]).traces().classes[0]
    assert columns.nodes == 3001
    assert columns.data_dep.size < 3010


# ------------------------------------------------------------ values
def _one() -> Job:
    made = TraceBuilder()
    made.comp("gemm", 10, num_ops=1000, tensor_size=64, scope="fw")
    made.comp("copy", 3, after=[0])
    made.comp("op", 5, cpu=True, after=[1])
    made.coll("ar", CommOp.ALL_REDUCE, 100, after=[2])
    return Job([made.encode()], {})


def test_values_change_and_the_rest_stays() -> None:
    job = transform([_one()], ["rename:name=ge*,to={name}/{id}", "scale_sizes:by=2.5,kind=all_reduce",
                               "scale_durations:by=3,kind=gpu", "scale_ops:by=2"])
    columns = job.traces().classes[0]
    assert columns.names() == ["gemm/0", "copy", "op", "ar"]
    assert columns.duration.tolist() == [30, 9, 5, 0]
    assert (int(columns.comm_size[3]), columns.num_ops[0], int(columns.tensor_size[0])) == (250, 2000, 64)
    assert read_node(job.traces(), 0, 0).attr("scope") is not None
    stripped = transform([job], ["strip"]).traces()
    assert [a.name for a in read_node(stripped, 0, 0).attrs] == ["is_cpu_op", "num_ops", "tensor_size"]
    assert _one().files[0] == transform([_one()], ["rename:name=nothing,to=x"]).files[0]


def test_scaled_durations_keep_their_sum() -> None:
    made = TraceBuilder()
    for _ in range(1000):
        made.comp("k", 3)
    columns = transform([Job([made.encode()], {})], ["scale_durations:by=0.5"]).traces().classes[0]
    assert (int(columns.duration.sum()), int(columns.duration.min())) == (1500, 1)


def test_roofline_wants_flop_and_bytes(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="has no num_ops"):
        transform([_one()], ["roofline"])
    columns = transform([_one()], ["roofline:name=gemm"]).traces().classes[0]
    assert columns.duration.tolist() == [0, 3, 5, 0]
    (tmp_path / "t.json").write_text(json.dumps({"gemm": {"num_ops": 7}, "*": {"num_ops": 5, "tensor_size": 9}}))
    columns = transform([_one()], [f"roofline:table={tmp_path}/t.json"]).traces().classes[0]
    assert columns.num_ops.tolist()[:3] == [7, 5, 0]
    assert columns.tensor_size.tolist()[:3] == [64, 9, 0]


def test_coalescing_keeps_simulated_time() -> None:
    made = TraceBuilder()
    last: list[int] = []
    for place in range(100):
        last = [made.comp("tiny" if place % 10 else "long", 2 if place % 10 else 500, cpu=True, after=last)]
    job = Job([made.encode()], {})
    short = transform([job], ["coalesce"])
    assert (job.traces().classes[0].nodes, short.traces().classes[0].nodes) == (100, 20)
    assert makespan(short, roofline=False) == makespan(job, roofline=False)


def test_steps_of_training_are_cut_by_their_marks() -> None:
    from astrarium.trace import Attribute, Metadata, Node, encode_trace

    nodes = []
    for step in range(3):
        cpu, gpu = (Attribute("is_cpu_op", flag, "bool_val") for flag in (True, False))
        base = 4 * step
        nodes += [Node(base + 1, f"ProfilerStep#{step}", 4, (), (base - 1,) if step else (), 100 * step + 1, 1,
                       attrs=(cpu,)),
                  Node(base + 2, "launch", 4, (), (base + 1,), 100 * step + 50, 5, attrs=(cpu,)),
                  Node(base + 3, "wait", 4, (), (base + 2,), 100 * step + 60, 5, attrs=(cpu,)),
                  Node(base + 4, "kernel", 4, (), (base + 2, *((base,) if step else ())), 100 * step + 130, 90,
                       attrs=(gpu,))]
    job = Job([encode_trace(Metadata(), nodes)], {})
    columns = transform([job], ["cut_steps:steps=1"]).traces().classes[0]
    assert columns.node_id.tolist() == [5, 6, 7, 8]     # the kernel that ends in step 2 was launched in step 1
    assert columns.data_dep.tolist() == [5, 6, 6]
    with pytest.raises(InputError, match="no node"):
        transform([_one()], ["cut_steps:steps=0"])


# ------------------------------------------------------------ ranks
@pytest.mark.parametrize("zero", [0, 1, 3])
def test_grown_data_parallelism_is_what_the_generator_makes(zero: int) -> None:
    small, big = generated(dp=2, zero=zero, global_batch=8), generated(dp=8, zero=zero, global_batch=32)
    sharded = "step.optimizer*" if zero else ""
    grown = transform([small], [f"grow_dp:factor=4,over=[all],sharded={sharded}"])
    assert_valid(grown)
    a, b = grown.traces().classes[0], big.traces().classes[0]
    for name in ("num_ops", "tensor_size", "comm_size", "data_dep", "type"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert makespan(grown) == makespan(big)


def test_grown_data_parallelism_with_other_groups() -> None:
    small, big = generated(dp=2, tp=2, pp=2, micro_batch=2), generated(dp=4, tp=2, pp=2, micro_batch=2, global_batch=16)
    dp = next(name for name, members in small.groups.items() if tuple(members) == (0, 2))
    grown = transform([small], [f"grow_dp:factor=2,over=[{dp}]"])
    assert_valid(grown)
    assert len(grown.files) == 16
    assert makespan(grown) == pytest.approx(makespan(big), rel=0.02)
    with pytest.raises(InputError, match="no group '99'"):
        transform([small], ["grow_dp:factor=2,over=[99]"])


def test_grown_tensor_parallelism_is_what_the_generator_makes() -> None:
    small, big = generated(tp=2, tp_sequence=True), generated(tp=4, tp_sequence=True)
    grown = transform([small], ["grow_tp:factor=2,over=[all]"])
    assert_valid(grown)
    assert makespan(grown) == pytest.approx(makespan(big), rel=0.05)
    with pytest.raises(UnsupportedError, match="recorded duration"):
        transform([transform([_one()], ["cut_ranks:ranks=0"])], ["grow_tp:factor=2,over=[all]"])


def test_cut_ranks_keeps_what_is_among_them() -> None:
    cut = transform([generated(dp=2, tp=2, pp=2, micro_batch=2)], ["cut_ranks:ranks=0-3"])
    assert_valid(cut)
    traces = cut.traces()
    assert traces.ranks == 4
    assert not any((columns.type == 5).any() for columns in traces.classes)      # the other stage is gone


def test_files_are_written_and_read_again(tmp_path: Path) -> None:
    job = transform([generated(dp=2), generated(dp=2)], along="ranks")
    written = write_job(job, tmp_path / "m", compress=True)
    again = load_job(tmp_path / "m")
    assert written.ranks == 4
    assert list(again.files) == list(job.files)
    assert again.groups == job.groups


def test_what_is_refused() -> None:
    for text in ("cut_rank:ranks=0", "scale_durations:by=0", "rename:to=x,wrong=1", "cut_ranks:ranks=3-1"):
        with pytest.raises(InputError):
            transform([_one()], [parse_step(text)])
    with pytest.raises(InputError, match="as many ranks"):
        transform([_one(), generated(dp=2)], along="time")
