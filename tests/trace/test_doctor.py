"""The doctor: every kind of fault is found, named with rank, node and name, and clean traces have none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.trace import (
    Attribute,
    Finding,
    Metadata,
    Node,
    TraceBuilder,
    Traces,
    check,
    encode_trace,
    read_groups,
    read_traces,
    traces_of_bytes,
)
from astrarium.trace._check_graph import find_cycles
from astrarium.vocab import CommOp, NodeKind

from .strategies import FILES

AR, AG = CommOp.ALL_REDUCE, CommOp.ALL_GATHER


def of(*nodes: Node) -> Traces:
    return traces_of_bytes([encode_trace(Metadata(), nodes)])


def built(ranks: int, make: Callable[[TraceBuilder, int], None]) -> Traces:
    files = []
    for rank in range(ranks):
        build = TraceBuilder()
        make(build, rank)
        files.append(build.encode())
    return traces_of_bytes(files)


def codes(found: list[Finding]) -> list[tuple[str, str]]:
    return [(f.severity, f.code) for f in found]


def comp(number: int, *after: int, ctrl: tuple[int, ...] = (), duration: int = 1) -> Node:
    return Node(number, f"n{number}", NodeKind.COMP, ctrl, after, duration=duration)


def coll(**attrs: object) -> Node:
    kinds = {"comm_type": "int64_val", "comm_size": "int64_val", "pg_name": "string_val", "is_cpu_op": "bool_val"}
    return Node(1, "c", NodeKind.COMM_COLL, attrs=tuple(
        v if isinstance(v, Attribute) else Attribute(k, v, kinds[k]) for k, v in attrs.items()))


def test_clean_traces_have_no_findings() -> None:
    def make(build: TraceBuilder, rank: int) -> None:
        a = build.comp("a", 5)
        b = build.coll("ar", AR, 64, group=1 + rank // 2, after=[a, a])
        build.coll("alone", AR, 64, group=9 + rank, after=[b])
        build.coll("sync", CommOp.BARRIER, 0, after=[b])
        build.send("s", (rank + 1) % 4, 32, after=[b])
        build.recv("r", (rank - 1) % 4, 32)

    groups = {"1": [0, 1], "2": [2, 3], **{str(9 + r): [r] for r in range(4)}}
    assert check(built(4, make), groups) == []


def test_cycles_are_printed_as_a_path() -> None:
    found = check(of(comp(1, 3), comp(2, 1), comp(3, 2), comp(4, 4), comp(5, 4, 1), comp(6), comp(7, 5)))
    assert codes(found) == [("error", "cycle"), ("error", "cycle"), ("error", "unreachable")]
    assert "1 (n1) -> 3 (n3) -> 2 (n2) -> 1 (n1)" in found[0].message
    assert "cycle of 1 node (each waits for the next): 4 (n4) -> 4 (n4)" in found[1].message
    assert "2 nodes behind a cycle or a missing node can never run: 5 (n5), 7 (n7)" in found[2].message
    assert (found[0].rank, found[0].node, found[0].name) == (0, 1, "n1")


def test_dependency_semantics_are_a_choice() -> None:
    traces = of(comp(1, ctrl=(2,)), comp(2, 1))
    assert codes(check(traces)) == [("error", "cycle")]
    assert check(traces, deps="data") == []


def test_dangling_dependencies() -> None:
    found = check(of(comp(1, 9), comp(2, 1), comp(3, ctrl=(8,))))
    assert codes(found) == [("error", "dangling_data_dep"), ("error", "unreachable"), ("warning", "dangling_ctrl_dep")]
    assert "node 9, which is not in the trace" in found[0].message
    assert found[1].node == 2
    assert found[2].node == 3


@pytest.mark.parametrize(("node", "expected"), [
    (comp(1, duration=0), ("warning", "missing_duration")),
    (Node(1, "m", NodeKind.MEM_LOAD), ("error", "missing_tensor_size")),
    (Node(1, "x", 0), ("warning", "invalid_node")),
    (Node(1, "x", 8), ("error", "unknown_type")),
    (coll(comm_size=8), ("error", "missing_comm_type")),
    (coll(comm_type=0), ("error", "missing_comm_size")),
    (coll(comm_type=10, comm_size=8), ("error", "unknown_comm_type")),
    (coll(comm_type=0, comm_size=0), ("warning", "zero_size")),
    (coll(comm_type=0, comm_size=-1), ("error", "negative_size")),
    (Node(1, "op", 4, duration=9_223_372_036_855), ("error", "too_long")),
    (Node(1, "n1", NodeKind.COMP, duration=1, attrs=(Attribute("num_ops", float("nan"), "double_val"),)),
     ("error", "negative_size")),
    (Node(1, "n1", NodeKind.COMP, duration=1, attrs=(Attribute("num_ops", -1, "int64_val"),)),
     ("error", "negative_size")),
    (Node(1, "n1", NodeKind.COMP, duration=1, attrs=(Attribute("tensor_size", -1, "int64_val"),)),
     ("error", "negative_size")),
    (coll(comm_type=0, comm_size=8, is_cpu_op=True), ("error", "comm_on_cpu")),
    (coll(comm_type=0, comm_size=Attribute("comm_size", 8.0, "double_val")), ("error", "wrong_type")),
    (coll(comm_type=0, comm_size=8, pg_name="7"), ("error", "missing_group")),
])
def test_faults_of_one_node(node: Node, expected: tuple[str, str]) -> None:
    found = check(of(node))
    assert codes(found) == [expected]
    assert (found[0].ranks, found[0].node, found[0].name) == ((0,), 1, node.name)
    assert found[0].fix


def test_barriers_need_no_size_and_world_groups_no_definition() -> None:
    assert check(of(coll(comm_type=9))) == []
    assert check(of(coll(comm_type=0, comm_size=8, pg_name="0"))) == []
    assert check(of(coll(comm_type=0, comm_size=8, pg_name=""))) == []


def test_duplicate_ids_and_empty_traces() -> None:
    assert codes(check(of(comp(1), comp(1), comp(2)))) == [("error", "duplicate_id")]
    assert codes(check(of())) == [("warning", "empty")]


def p2p(kind: NodeKind, number: int, **attrs: int) -> Node:
    return Node(number, f"p{number}", kind, attrs=tuple(Attribute(k, v, "int32_val") for k, v in attrs.items()))


@pytest.mark.parametrize(("attrs", "code"), [
    ({"comm_tag": 0}, "missing_comm_dst"), ({"comm_dst": 1}, "missing_comm_tag"),
    ({"comm_tag": 0, "comm_dst": 0}, "self_send"), ({"comm_tag": 0, "comm_dst": 2}, "peer_outside"),
    ({"comm_tag": 0, "comm_dst": -1}, "peer_outside"), ({"comm_tag": 0, "comm_dst": 1}, "unmatched_send"),
])
def test_faulty_sends(attrs: dict[str, int], code: str) -> None:
    send = p2p(NodeKind.COMM_SEND, 1, comm_size=8, **attrs)
    found = check(traces_of_bytes([encode_trace(Metadata(), [send]), encode_trace(Metadata(), [comp(1)])]))
    assert codes(found) == [("error", code)]
    assert (found[0].ranks, found[0].node, found[0].name) == ((0,), 1, "p1")


def test_a_send_that_says_it_comes_from_elsewhere() -> None:
    sides = [[p2p(NodeKind.COMM_SEND, 1, comm_size=8, comm_tag=0, comm_dst=1, comm_src=1)],
             [p2p(NodeKind.COMM_RECV, 1, comm_size=8, comm_tag=0, comm_src=0, comm_dst=1)]]
    traces = traces_of_bytes([encode_trace(Metadata(), side) for side in sides])
    assert codes(check(traces)) == [("error", "wrong_owner")]


def pair(send: tuple[int, int], recv: tuple[int, int]) -> list[str]:
    def make(build: TraceBuilder, rank: int) -> None:
        if rank == 0:
            build.send("s", 1, send[0], send[1])
        else:
            build.recv("r", 0, recv[0], recv[1])

    return [f"{f.code} {f.message}" for f in check(built(2, make))]


def test_unmatched_messages_say_what_comes_closest() -> None:
    assert pair((8, 1), (8, 1)) == []
    assert pair((8, 1), (9, 1)) == [
        "unmatched_send send to rank 1 with tag 1 and 8 bytes, but the receive there has 9 bytes",
        "unmatched_receive receive from rank 0 with tag 1 and 9 bytes, but the send there has 8 bytes"]
    assert pair((8, 1), (8, 2))[0] == (
        "unmatched_send send to rank 1 with tag 1 and 8 bytes, but the receive there has tag 2")
    assert pair((8, 1), (9, 2))[1] == "unmatched_receive receive from rank 0 with tag 2 and 9 bytes has no send there"


def test_only_the_surplus_is_unmatched() -> None:
    def make(build: TraceBuilder, rank: int) -> None:
        for i in range(3 if rank == 0 else 2):
            build.send(f"s{i}", 1, 8) if rank == 0 else build.recv(f"r{i}", 0, 8)

    found = check(built(2, make))
    assert [(f.code, f.node, f.name) for f in found] == [("unmatched_send", 2, "s2")]


def orders(tied: bool) -> list[Finding]:
    def make(build: TraceBuilder, rank: int) -> None:
        start = [build.comp("start", 1 + rank)]
        for op in ((AR, AG) if rank != 2 else (AG, AR)):
            other = [build.comp("other", 3)] if not tied else start
            start = [build.coll(op.name, op, 64, group=4, after=other)]

    return check(built(4, make), {"4": [0, 1, 2, 3]})


def test_collectives_in_different_orders() -> None:
    found = orders(tied=True)
    assert codes(found) == [("error", "collective_order")]
    assert found[0].ranks == (2,)
    assert "collective number 1 of group '4' is all_gather of 64 bytes (node 1), but all_reduce of 64 bytes (node 1)" \
        in found[0].message
    assert codes(orders(tied=False)) == [("warning", "collective_order")]


@pytest.mark.parametrize(("calls", "code"), [
    ([(AR, 64), (AR, 32)], "collective_size"), ([(AR, 64), (AG, 64)], "collective_mismatch"),
    ([(AR, 64)], "collective_mismatch"), ([], "collective_mismatch")])
def test_collectives_that_do_not_agree(calls: list[tuple[CommOp, int]], code: str) -> None:
    def make(build: TraceBuilder, rank: int) -> None:
        before: list[int] = []
        for op, size in ([(AR, 64), (AR, 16)] if rank else calls):
            before = [build.coll("c", op, size, after=before)]
        build.comp("end", 1, after=before)

    found = check(built(3, make))
    assert codes(found) == [("error", code)]
    assert found[0].ranks == (0,)


def test_group_membership_is_folded_over_ranks() -> None:
    found = check(built(70, lambda build, _: build.coll("c", AR, 64, group=1) and None), {"1": [0, 1, 2, 99]})
    assert codes(found) == [("error", "member_outside"), ("error", "not_member")]
    assert found[1].ranks == tuple(range(3, 70))
    assert str(found[1]).startswith("error: ranks 3-69, node 0 (c): uses group '1', to which the rank does not belong")


def test_everything_is_found_at_once_up_to_a_limit() -> None:
    traces = of(*(comp(i, duration=0) for i in range(50)), comp(99, 98))
    assert len(check(traces)) == 51
    found = check(traces, limit=10)
    assert codes(found) == [("error", "dangling_data_dep")] + [("warning", "missing_duration")] * 11
    assert found[-1].message == "40 more findings 'missing_duration' are not shown"


@given(st.lists(FILES, min_size=1, max_size=3))
def test_the_doctor_survives_anything_that_can_be_read(files: list[bytes]) -> None:
    for finding in check(traces_of_bytes(files), {"1": [0, 1], "x": [2, 7]}):
        assert finding.message
        assert finding.fix
        assert set(finding.ranks) <= set(range(len(files)))


@given(st.lists(st.lists(st.integers(0, 7), max_size=3), min_size=8, max_size=8))
def test_cycles_are_real_and_complete(edges: list[list[int]]) -> None:
    parents = dict(enumerate(edges))
    reach = {node: set(parents[node]) for node in parents}
    for _ in parents:
        for node in parents:
            reach[node] |= {far for near in reach[node] for far in reach[near]}
    in_cycle = {node for node in parents if node in reach[node]}
    found = find_cycles(parents)
    assert set().union(*(component for component, _ in found)) == in_cycle
    for component, cycle in found:
        assert set(cycle) <= component
        assert all(b in parents[a] for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True))


@pytest.mark.shared
def test_golden_cases_that_run_have_no_errors(shared: Path) -> None:
    import json

    bad = {}
    for case in sorted((shared / "golden").iterdir()):
        if not (case / "expected.json").exists():
            continue
        expected = json.loads((case / "expected.json").read_text())
        prefix = str(next(case.glob("et/*.0.et")))[: -len(".0.et")]
        groups = read_groups(case / "comm_groups.json") if (case / "comm_groups.json").exists() else None
        errors = sorted({f.code for f in check(read_traces(prefix), groups) if f.severity == "error"})
        if errors:
            bad[case.name] = errors
            usable = [expected.get(backend, {}).get("usable", False) for backend in ("unaware", "aware")]
            assert not any(usable), (case.name, errors)
    assert bad["g_tag_mismatch"] == ["unmatched_receive", "unmatched_send"]
    assert bad["i_rank_order_swap"] == ["collective_order"]
    assert bad["k_not_member"] == ["not_member"]
