"""Generated workloads: two pipeline stages with tensor parallelism, as columns and as files, give the same results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import astrarium as ar
from astrarium import engine
from astrarium.errors import InputError, StallError, TraceError
from astrarium.lower import lower
from astrarium.lower.work import from_generated
from astrarium.report.timeline.counters import memory_counters
from astrarium.report.timeline.run import Recorded, write_timeline
from astrarium.result import Result
from astrarium.result.export import json_pieces
from astrarium.trace import TraceBuilder, Traces, traces_of_bytes
from astrarium.trace.node import attribute
from astrarium.trace.work import Generated, Tensors, TraceClass
from astrarium.vocab import CommOp, NodeKind

TP, BYTES, SENT, TAG, BATCHES = 4, 1 << 20, 1 << 16, 7, 3
COMP, COLL, SEND, RECV = NodeKind.COMP, NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV
ORDER = ((COMP, COLL, SEND), (RECV, COMP, COLL))    # of a microbatch, by stage
WORD = {COMP: "forward", COLL: "sum", SEND: "out", RECV: "in"}
Node = tuple[NodeKind, str, tuple[int, ...]]        # what it is, its name, the nodes that it waits for
RANKS = [np.arange(stage * TP, stage * TP + TP, dtype=np.int32) for stage in (0, 1)]
NETWORK = ar.Network([ar.Switch(TP, bandwidth="100 GB/s", latency="1 us"),
                      ar.Switch(2, bandwidth="50 GB/s", latency="2 us")])
needs_core = pytest.mark.skipif(not engine.HAVE_CORE, reason="only the compiled core folds")


def nodes_of(stage: int) -> list[Node]:
    """Each microbatch's chain; forward passes follow each other."""
    found: list[Node] = []
    for batch in range(BATCHES):
        for place, kind in enumerate(ORDER[stage]):
            before = (len(found) - 1,) if place else (len(found) - 3,) if batch and kind == COMP else ()
            found.append((kind, f"{WORD[kind]} {batch}", before))
    return found


def generated(shared: bool = True) -> Generated:
    """The columns; `shared`: one slot for all sums, one for all messages."""
    classes = tuple(trace_class(stage, shared) for stage in (0, 1))
    return Generated(classes, tuple(RANKS), ("1", "2"), tuple(map(tensors_of, classes)))


def trace_class(stage: int, shared: bool) -> TraceClass:
    nodes, ranks = nodes_of(stage), RANKS[stage]
    count, kinds = len(nodes), np.array([kind for kind, _, _ in nodes], np.uint8)
    own = kinds[kinds != COMP]
    kind_of = np.array([COLL, RECV if stage else SEND], np.uint8) if shared else own
    peers = (ranks + (-TP if stage else TP))[:, None]
    return TraceClass(
        ranks=ranks, node_id=np.arange(count, dtype=np.uint64), type=kinds, is_cpu=np.zeros(count, np.bool_),
        duration_us=np.where(kinds == COMP, 3 + stage, 0).astype(np.uint64), num_ops=np.full(count, np.nan),
        tensor_size=np.zeros(count, np.uint64),
        comm_type=np.where(kinds == COLL, CommOp.ALL_REDUCE, -1).astype(np.int32),
        comm_size=np.select([kinds == COLL, kinds != COMP], [BYTES, SENT], 0).astype(np.int64),
        involved=np.full(count, -1, np.int32), priority=np.zeros(count, np.int32),
        parent_ptr=np.cumsum([0] + [len(after) for _, _, after in nodes]).astype(np.int64),
        parent=np.array([p for _, _, after in nodes for p in after], np.int32),
        slot_a=np.where(kind_of == COLL, -1, peers).astype(np.int32),
        slot_b=np.tile(np.where(kind_of == COLL, stage, TAG), (TP, 1)).astype(np.int32),
        names=lambda node: nodes[node][1], slot=(own != COLL).astype(np.int32) if shared else None)


def tensors_of(trace: TraceClass) -> Tensors:
    """Weights, which every forward reads, and what each forward writes and its sum reads."""
    forward, sums = (np.flatnonzero(trace.type == kind).astype(np.int32) for kind in (COMP, COLL))
    size, writer = [1000, *[50] * forward.size], np.array([-1, *forward.tolist()], np.int32)
    pointer = np.array([0, *range(forward.size, 2 * forward.size + 1)], np.int64)
    return Tensors(np.array(size, np.int64), writer, pointer, np.concatenate([forward, sums]))


def files() -> Traces:
    """The same as traces."""
    found = []
    for rank in range(2 * TP):
        stage, builder = rank // TP, TraceBuilder()
        for kind, name, after in nodes_of(stage):
            out = ["y" + name.split()[1], "50"]
            if kind == COMP:
                builder.node(kind, name, [attribute("is_cpu_op", False), attribute("inputs", ["w", "1000"]),
                                          attribute("outputs", out)], after=after, duration=3 + stage)
            elif kind == COLL:
                builder.node(kind, name, [attribute("is_cpu_op", False), attribute("comm_type", int(CommOp.ALL_REDUCE)),
                                          attribute("comm_size", BYTES), attribute("pg_name", str(stage + 1)),
                                          attribute("inputs", out)], after=after)
            else:
                (builder.recv if stage else builder.send)(name, (rank + TP) % (2 * TP), SENT, TAG, after=after)
        found.append(builder.encode())
    return traces_of_bytes(found)


def design(**sections: Any) -> ar.Design:
    return ar.Design(**{"workload": ar.Trace("in memory"), "network": NETWORK, **sections})


def both(folder: Path, **how: Any) -> tuple[Result, Result]:
    """The result of the columns and that of the files."""
    (folder / "groups.json").write_text(json.dumps({str(stage + 1): RANKS[stage].tolist() for stage in (0, 1)}))
    named = ar.Trace("in memory", groups=str(folder / "groups.json"))
    return ar.simulate(design(), traces=generated(), **how), ar.simulate(design(workload=named), traces=files(), **how)


def timeline(folder: Path, result: Result) -> str:
    path = folder / "timeline.json"
    write_timeline(str(path), Recorded(result.plan, result.outcome, result.traces, memory_counters(result)))
    return path.read_text()


@pytest.mark.parametrize("how", [{"fold": "off"}, {"fold": "auto"}, {"pure": True}], ids=str)
def test_columns_and_files_give_the_same_results(how: dict[str, Any], tmp_path: Path) -> None:
    ours, theirs = both(tmp_path, **how)
    assert ours.makespan_ps == theirs.makespan_ps
    for name in ("finish", "busy"):
        columns = [getattr(r.outcome, name)[r.outcome.row].tolist() for r in (ours, theirs)]
        assert columns[0] == columns[1], name
    assert [r.plan.slot_a.size for r in (ours, theirs)] == [2 * 2 * TP, 2 * 2 * TP * BATCHES]
    if ours.outcome.folded == theirs.outcome.folded:
        assert list(json_pieces(ours, nodes=True)) == list(json_pieces(theirs, nodes=True))
        assert timeline(tmp_path, ours) == timeline(tmp_path, theirs)


@needs_core
def test_messages_of_one_slot_fold(tmp_path: Path) -> None:
    result = ar.simulate(design(), traces=generated())
    assert (result.outcome.folded, len(result.outcome.finish)) == (True, 2)
    assert result.path.shares() == ar.simulate(design(), traces=generated(), fold="off").path.shares()
    text = timeline(tmp_path, result)
    assert '"forward 0"' in text
    assert '"in 2"' in text
    assert result.peak_memory == 1150    # the weights and what all three microbatches wrote: they overlap


def test_astra_sim_s_rule_book_takes_them_too() -> None:
    network = ar.Network([ar.Switch(TP, bandwidth="100 GiB/s", latency="1 us"),
                          ar.Switch(2, bandwidth="50 GiB/s", latency="2 us")])
    chosen = design(network=network, compat="astra_sim", collective=ar.Collective(all_reduce=["ring", "ring"]))
    results = [ar.simulate(chosen, traces=generated(shared)) for shared in (True, False)]
    assert results[0].outcome.finish[results[0].outcome.row].tolist() == \
        results[1].outcome.finish[results[1].outcome.row].tolist()


def test_replayed_communication_leaves_no_gap_between_slots() -> None:
    """Everything is replayed, so that no node keeps its slot."""
    chosen = design(compute=ar.Replay(everything=True, missing="1 us"))
    assert lower(chosen, generated()).slot_a.size == 0
    assert ar.simulate(chosen, traces=generated()).makespan_ps > 0


def test_a_stall_names_nodes() -> None:
    work = generated()
    lost = replace(work.classes[0], slot_b=work.classes[0].slot_b + np.array([0, 1], np.int32))
    with pytest.raises(StallError, match=r"rank 4: .*node 0 \(in 0; recv from 0, tag 7"):
        ar.simulate(design(), traces=replace(work, classes=(lost, work.classes[1])))


def test_a_group_file_beside_a_generated_workload_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"workload\.groups"):
        ar.simulate(design(workload=ar.Trace("in memory", groups=str(tmp_path / "groups.json"))), traces=generated())


def changed(**columns: Any) -> Generated:
    """The workload with columns of its second class replaced, by functions of what they were."""
    work = generated()
    second = work.classes[1]
    fresh = {name: change(getattr(second, name).copy()) for name, change in columns.items()}
    return replace(work, classes=(work.classes[0], replace(second, **fresh)))


def put(place: Any, value: int) -> Callable[[Any], Any]:
    def change(column: Any) -> Any:
        column[place] = value
        return column
    return change


FAULTS: dict[str, tuple[Callable[[], Generated], type[InputError], str]] = {
    "a rank twice": (lambda: changed(ranks=put(0, 3)), InputError, "rank 3 is in 2 classes"),
    "a rank beyond": (lambda: changed(ranks=put(0, 8)), InputError, "there is no rank 8"),
    "a group beyond": (lambda: replace(generated(), groups=(RANKS[0], RANKS[1] + 1)), InputError,
                       "group 2: there is no rank 8"),
    "a member twice": (lambda: replace(generated(), groups=(RANKS[0], RANKS[1] // 2 * 2)), InputError,
                       "group 2 has rank 4 twice"),
    "an empty group": (lambda: replace(generated(), groups=(RANKS[0], RANKS[1][:0])), InputError, "group 2 is empty"),
    "equal names": (lambda: replace(generated(), names=("tp", "tp")), InputError, "2 groups with 1 names"),
    "too few tensors": (lambda: replace(generated(), tensors=()), InputError, "tensors of 0 classes"),
    "a strange group": (lambda: changed(slot_b=put((2, 0), 0)), TraceError, r"rank 6, node 2 \(sum 0\).*not in"),
    "no such group": (lambda: changed(slot_b=put((2, 0), 2)), TraceError, r"rank 6, node 2 \(sum 0\): its group"),
    "no such peer": (lambda: changed(slot_a=put((1, 1), 8)), TraceError, r"rank 5, node 0 \(in 0\): its peer"),
    "itself": (lambda: changed(slot_a=put((1, 1), 5)), TraceError, r"rank 5, node 0 \(in 0\).*itself"),
    "a negative tag": (lambda: changed(slot_b=put((1, 1), -1)), TraceError, r"rank 5, node 0 \(in 0\).*negative tag"),
    "a slot beyond": (lambda: changed(slot=put(3, 2)), TraceError, r"node 5 \(sum 1\): its slot"),
    "slots of two kinds": (lambda: changed(slot=put(3, 1)), TraceError, r"node 5 \(sum 1\): shares a slot with node 0"),
    "a slot of two sizes": (lambda: changed(comm_size=put(5, 9)), TraceError, r"node 5 \(sum 1\).*comm_size differs"),
    "a slot without a node": (lambda: changed(slot=np.zeros_like), InputError, "no node uses slot 1"),
    "a negative size": (lambda: changed(comm_size=put(slice(None), -1)), TraceError, r"node 0 \(in 0\): a negative"),
    "ids that descend": (lambda: changed(node_id=put(3, 1)), TraceError, "node 1 .*do not ascend"),
    "a parent beyond": (lambda: changed(parent=put(0, 9)), TraceError, r"node 1 \(forward 0\): waits for node index 9"),
    "a short column": (lambda: changed(priority=lambda p: p[1:]), InputError, "class 1: priority has shape"),
    "a short pointer": (lambda: changed(parent_ptr=lambda p: p[1:]), InputError, "parent_ptr"),
    "a strange type": (lambda: changed(type=put(1, 99)), TraceError, r"node 1 \(forward 0\): node type 99"),
    "too long": (lambda: changed(duration_us=put(1, 2**60)), TraceError, r"node 1 \(forward 0\): a duration"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_run_is_refused_with_its_place(name: str) -> None:
    make, error, words = FAULTS[name]
    with pytest.raises(error, match=words):
        from_generated(make(), 2 * TP)
