"""Equal ranks are held once: what counts as equal, and that every rank can be had back byte for byte."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.trace import (
    HAVE_CORE,
    Attribute,
    Metadata,
    Node,
    TraceBuilder,
    encode_trace,
    read_node,
    read_traces,
    traces_of_bytes,
)
from astrarium.trace.write import node_name
from astrarium.vocab import CommOp

from .strategies import METADATA, NODES, assert_equal

BACKENDS = [pytest.param(False, marks=pytest.mark.skipif(not HAVE_CORE, reason="no compiled core")), True]
both = pytest.mark.parametrize("pure", BACKENDS)
PLACE = ("pg_name", "comm_src", "comm_dst", "comm_tag")


def ring(rank: int, ranks: int) -> bytes:
    build = TraceBuilder()
    start = build.comp("gemm", 5)
    build.coll(f"ar of group {rank // 2}", CommOp.ALL_REDUCE, 1024, group=1 + rank // 2, after=[start])
    build.send(f"to {(rank + 1) % ranks}", (rank + 1) % ranks, 64, tag=10**6 * rank, after=[start])
    build.recv(f"from {(rank - 1) % ranks}", (rank - 1) % ranks, 64, tag=10**6 * ((rank - 1) % ranks))
    return build.encode()


@both
def test_ranks_equal_up_to_place_share_a_class(pure: bool) -> None:
    files = [ring(rank, 300) for rank in range(300)]
    traces = traces_of_bytes(files, pure=pure)
    assert len(traces.classes) == 1
    columns = traces.classes[0]
    assert columns.destination[:, 1].tolist() == [(r + 1) % 300 for r in range(300)]
    assert columns.source[:, 2].tolist() == [(r - 1) % 300 for r in range(300)]
    assert columns.tag[:, 1].tolist() == [10**6 * r for r in range(300)]
    assert [traces.texts[g] for g in columns.group[:, 0]] == [str(1 + r // 2) for r in range(300)]
    assert [traces.file_bytes(r) for r in range(300)] == files
    assert node_name(traces, 7, 2) == "to 8"
    assert read_node(traces, 7, 2).attr("comm_dst") == Attribute("comm_dst", 8, "int32_val")
    assert (traces.ranks, traces.nodes) == (300, 1200)


@both
@pytest.mark.parametrize("change", [
    {"duration": 6}, {"start": 1}, {"id": 9}, {"name": "gemv"}, {"data_deps": (4,)}, {"ctrl_deps": (4,)}, {"type": 5},
    {"attrs": (Attribute("num_ops", 1, "int64_val"),)}, {"attrs": (Attribute("comm_dst", 1, "int64_val"),)},
    {"unknown": b"\x98\x06\x01"},
], ids=lambda change: next(iter(change)))
def test_any_other_difference_makes_another_class(change: dict[str, object], pure: bool) -> None:
    node = Node(1, "gemm", 4, duration=5, attrs=(Attribute("num_ops", 2, "int64_val"),))
    files = [encode_trace(Metadata(), [each]) for each in (node, msgspec.structs.replace(node, **change))]  # type: ignore[arg-type]
    assert len(traces_of_bytes(files, pure=pure).classes) == 2


@both
def test_presence_and_type_of_a_peer_are_not_masked(pure: bool) -> None:
    variants = [Attribute("comm_dst", 5, "int32_val"), Attribute("comm_dst"), Attribute("comm_dst", 5.0, "float_val"),
                Attribute("comm_src", 5, "int32_val")]
    files = [encode_trace(Metadata(), [Node(1, "s", 5, attrs=(attr,))]) for attr in variants]
    assert len(traces_of_bytes(files, pure=pure).classes) == 4
    same = [Attribute("comm_dst", 7, kind) for kind in ("int32_val", "uint64_val", "sint64_val", "fixed32_val")]
    files = [encode_trace(Metadata(), [Node(1, "s", 5, attrs=(attr,))]) for attr in same]
    traces = traces_of_bytes(files, pure=pure)
    assert len(traces.classes) == 1
    assert [traces.file_bytes(rank) for rank in range(4)] == files


@st.composite
def families(draw: st.DrawFn) -> list[bytes]:
    """A few programs, each for several ranks that differ in metadata, comm names, groups, peers and tags."""
    files = []
    for _ in range(draw(st.integers(1, 3))):
        nodes = draw(st.lists(NODES, max_size=5))
        for _ in range(draw(st.integers(1, 3))):
            files.append(encode_trace(draw(METADATA), [draw(varied(node)) for node in nodes]))
    return draw(st.permutations(files))


@st.composite
def varied(draw: st.DrawFn, node: Node) -> Node:
    if node.type not in (5, 6, 7):
        return node
    attrs = tuple(msgspec.structs.replace(attr, value=draw(st.integers(0, 1 << 20)))
                  if attr.name in PLACE and attr.kind == "int64_val" else attr for attr in node.attrs)
    name = draw(st.text("ab", min_size=1, max_size=200)) if node.name else ""
    return msgspec.structs.replace(node, name=name, attrs=attrs)


@pytest.mark.skipif(not HAVE_CORE, reason="no compiled core")
@given(families())
def test_core_and_twin_fold_alike(files: list[bytes]) -> None:
    core = traces_of_bytes(files)
    assert_equal(core, traces_of_bytes(files, pure=True))
    assert [core.file_bytes(rank) for rank in range(len(files))] == files


@both
@given(files=families())
def test_every_row_says_what_its_own_file_says(files: list[bytes], pure: bool) -> None:
    traces = traces_of_bytes(files, pure=pure)
    for rank, file in enumerate(files):
        alone = traces_of_bytes([file], pure=pure)
        columns, row = traces.of(rank)
        for name in ("source", "destination", "tag"):
            np.testing.assert_array_equal(getattr(columns, name)[row], getattr(alone.classes[0], name)[0])
        groups = [[t.texts[g] if g >= 0 else None for g in c.group[r]] for t, c, r in (
            (traces, columns, row), (alone, alone.classes[0], 0))]
        assert groups[0] == groups[1]
        np.testing.assert_array_equal(columns.data_dep, alone.classes[0].data_dep)
        np.testing.assert_array_equal(columns.present, alone.classes[0].present)


@pytest.mark.shared
def test_golden_gpt_traces_fold_into_pipeline_stages(shared: Path) -> None:
    traces = read_traces(shared / "golden/s_s16_2D/et/w")
    assert traces.rank_class.tolist() == [0] * 8 + [1] * 8
    for rank in range(16):
        assert traces.file_bytes(rank) == Path(traces.sources[rank]).read_bytes()
