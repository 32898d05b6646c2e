"""Generated workloads as files: the same integers as without files, the same bytes each time, equal ranks once."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.trace.generated import RANKS, workloads

import astrarium as ar
from astrarium.config import decode
from astrarium.errors import InputError, StallError, TraceError
from astrarium.result import Result
from astrarium.trace import check, read_groups, read_node, read_traces
from astrarium.trace.export import group_names, write_generated
from astrarium.trace.work import Generated, TraceClass
from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.config import Workload
from astrarium.workload.generate import generate

NETWORK = ar.Network([ar.Switch(4, bandwidth="100 GB/s", latency="1 us"),
                      ar.Switch(2, bandwidth="50 GB/s", latency="2 us")])
ASTRA = ar.Network([ar.Switch(4, bandwidth="100 GiB/s", latency="1 us"),
                    ar.Switch(2, bandwidth="50 GiB/s", latency="2 us")])
MEMORY = ar.Memory(bandwidth="1 TB/s", remote=ar.Remote("per_npu", latency="1 us", bandwidth="10 GB/s"))
OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
BOOKS: dict[str, dict[str, Any]] = {
    "none": {"network": NETWORK, "compute": ar.Roofline("100 TFLOP/s"),
             "memory": MEMORY},
    "astra_sim": {"network": ASTRA, "compat": "astra_sim", "compute": ar.Roofline("100 TFLOP/s"),
                  "collective": ar.Collective(**{op: ["ring", "direct"] for op in OPS}),
                  "memory": MEMORY},
}


def run(generated: Generated, **sections: Any) -> Result:
    fold = sections.pop("fold", "auto")
    return ar.simulate(ar.Design(workload=ar.Trace("in memory"), **sections), traces=generated, fold=fold)


def run_files(prefix: Path, **sections: Any) -> Result:
    fold = sections.pop("fold", "auto")
    workload = ar.Trace(str(prefix), groups=f"{prefix}.groups.json")
    return ar.simulate(ar.Design(workload=workload, **sections), fold=fold)


def outcome_of(result: Result) -> list[list[int]]:
    return [getattr(result.outcome, name)[result.outcome.row].tolist() for name in ("finish", "busy")]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def all_equal(ranks: int = RANKS, nodes: int = 3) -> Generated:
    """Every rank runs `nodes` all_reduces of all ranks: one file for all."""
    one, none = np.ones(nodes, np.int64), np.full((ranks, nodes), -1, np.int32)
    trace = TraceClass(
        ranks=np.arange(ranks, dtype=np.int32), node_id=np.arange(nodes, dtype=np.uint64),
        type=np.full(nodes, NodeKind.COMM_COLL, np.uint8), is_cpu=np.zeros(nodes, np.bool_),
        duration_us=np.zeros(nodes, np.uint64), num_ops=np.full(nodes, np.nan), tensor_size=np.zeros(nodes, np.uint64),
        comm_type=np.full(nodes, CommOp.ALL_REDUCE, np.int32), comm_size=one << 20,
        involved=np.full(nodes, 1, np.int32), priority=np.zeros(nodes, np.int32),
        parent_ptr=np.zeros(nodes + 1, np.int64), parent=np.zeros(0, np.int32), slot_a=none, slot_b=none)
    return Generated((trace,), (), (), (None,))


@given(workloads(), st.sampled_from(sorted(BOOKS)), st.sampled_from(["auto", "off"]))
def test_files_run_as_the_columns_do(generated: Generated, book: str, fold: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder) / "w"
        write_generated(generated, prefix, tensors=True)
        groups = read_groups(f"{prefix}.groups.json")
        assert list(groups.values()) == [tuple(group.tolist()) for group in generated.groups]
        assert not [found for found in check(read_traces(prefix), groups) if found.severity == "error"]
        try:
            ours = run(generated, fold=fold, **BOOKS[book])
        except (StallError, TraceError) as error:       # ranks may issue a group's collectives in different orders
            with pytest.raises(type(error)):
                run_files(prefix, fold=fold, **BOOKS[book])
            return
        theirs = run_files(prefix, fold=fold, **BOOKS[book])
        assert outcome_of(ours) == outcome_of(theirs)
        if any(each is not None and each.size.size for each in generated.tensors):
            assert ours.peak_memory == theirs.peak_memory


@given(workloads(), st.booleans())
def test_the_same_workload_gives_the_same_bytes(generated: Generated, tensors: bool) -> None:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        write_generated(generated, f"{first}/w", jobs=1, tensors=tensors)
        write_generated(generated, f"{second}/w", jobs=3, link="copy", tensors=tensors)
        assert content(Path(first)) == content(Path(second))


MODEL = {"family": "decoder", "layers": 4, "d_model": 64, "ffn": 256, "heads": 4, "vocab": 256, "seq": 32}
TRAININGS: dict[str, dict[str, Any]] = {
    "dp tp pp": {"dp": 2, "tp": 2, "pp": 2, "micro_batch": 1},
    "zero 3": {"dp": 4, "tp": 2, "zero": 3},
    "interleaved, optimizer in remote memory": {"dp": 2, "pp": 4, "schedule": "interleaved", "micro_batch": 1,
                                                "offload": "optimizer"},
    "ring attention": {"cp": 2, "tp": 2, "dp": 2, "tp_sequence": True, "recompute": "full"},
    "inference": {"source": "inference", "global_batch": None, "batch": 4, "prompt": 16, "generated": 3, "tp": 4,
                  "pp": 2},
}


@pytest.mark.parametrize("name", TRAININGS)
@pytest.mark.parametrize("book", sorted(BOOKS))
def test_a_model_runs_the_same_from_files(name: str, book: str, tmp_path: Path) -> None:
    fields = {"source": "transformer", "model": MODEL, "global_batch": 8, **TRAININGS[name]}
    workload = decode(Workload, {key: value for key, value in fields.items() if value is not None})
    write_generated(generate(workload), tmp_path / "w", tensors=True)
    for fold in ("auto", "off"):
        ours = ar.simulate(ar.Design(workload=workload, **BOOKS[book]), fold=fold)
        theirs = run_files(tmp_path / "w", fold=fold, **BOOKS[book])
        assert outcome_of(ours) == outcome_of(theirs)
        assert ours.peak_memory == theirs.peak_memory


def test_attributes_are_those_that_feeders_read(tmp_path: Path) -> None:
    trace = replace(all_equal(nodes=1).classes[0], slot_b=np.zeros((RANKS, 1), np.int32), names=lambda node: "sum")
    write_generated(Generated((trace,), (np.arange(RANKS, dtype=np.int32),), ("tp",), (None,)), tmp_path / "w")
    node = read_node(read_traces(tmp_path / "w"), 3, 0)
    assert (node.name, node.type) == ("sum", NodeKind.COMM_COLL)
    assert [(a.name, a.kind, a.value) for a in node.attrs] == [
        ("is_cpu_op", "bool_val", False), ("comm_type", "int64_val", 0), ("comm_size", "int64_val", 1 << 20),
        ("involved_dim", "bool_list", (True,) + (False,) * 9), ("pg_name", "string_val", "1")]
    assert json.loads((tmp_path / "w.groups.json").read_text()) == {"1": list(range(RANKS))}


@pytest.mark.parametrize(("names", "said"), [(("3", "12"), ("3", "12")), (("3", "tp"), ("1", "2")),
                                             (("0", "7"), ("1", "2")), (("07", "7"), ("1", "2"))])
def test_groups_keep_names_that_are_numbers(names: tuple[str, str], said: tuple[str, str]) -> None:
    group = np.arange(RANKS, dtype=np.int32)
    assert group_names(replace(all_equal(), groups=(group, group), names=names)) == said


@pytest.mark.parametrize("link", ["hard", "symlink", "copy"])
def test_equal_ranks_are_written_once(link: Any, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    for _ in range(2):      # and again, over what is there
        written = write_generated(all_equal(), tmp_path / "w", link=link,
                                  progress=lambda done, ranks: told.append((done, ranks)))
    paths = [tmp_path / f"w.{rank}.et" for rank in range(RANKS)]
    own = RANKS if link == "copy" else 1
    assert (written.ranks, written.files, written.linked) == (RANKS, own, RANKS - own)
    assert written.bytes == own * len(paths[0].read_bytes())
    assert len({path.stat().st_ino for path in paths}) == own
    assert [path.is_symlink() for path in paths] == [link == "symlink" and rank > 0 for rank in range(RANKS)]
    assert len({path.read_bytes() for path in paths}) == 1
    assert told[-1] == (RANKS, RANKS)
    assert len(list(tmp_path.iterdir())) == RANKS + 1
    moved = tmp_path.rename(tmp_path.parent / f"{tmp_path.name}-moved")
    assert read_traces(moved / "w").ranks == RANKS


def test_more_links_than_the_file_system_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def few(source: str, path: str) -> None:
        if os.stat(source).st_nlink == 3:
            raise OSError(errno.EMLINK, "Too many links")
        link(source, path)

    monkeypatch.setattr(os, "link", few)
    written = write_generated(all_equal(), tmp_path / "w")
    assert (written.files, written.linked) == (3, 5)
    assert len({(tmp_path / f"w.{rank}.et").read_bytes() for rank in range(RANKS)}) == 1


def test_gzip_files_are_the_same_traces(tmp_path: Path) -> None:
    for name, compress in (("plain", False), ("gz", True)):
        write_generated(all_equal(), tmp_path / name, compress=compress)
    assert (tmp_path / "gz.0.et").read_bytes()[:2] == b"\x1f\x8b"
    assert read_traces(tmp_path / "gz").file_bytes(1) == (tmp_path / "plain.1.et").read_bytes()


def test_an_interrupted_run_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_generated(all_equal(nodes=2), tmp_path / "w", link="copy")
    before = content(tmp_path)

    def full(*paths: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match="cannot be written"):
        write_generated(all_equal(), tmp_path / "w")
    monkeypatch.undo()
    groups = before.pop("w.groups.json")
    assert content(tmp_path) == before      # without the groups, which are written last: nothing passes for whole

    def stop(done: int, ranks: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_generated(all_equal(), tmp_path / "w", link="copy", progress=stop)
    (tmp_path / "whole").mkdir()
    write_generated(all_equal(), tmp_path / "whole" / "w")
    whole = {before["w.0.et"], (tmp_path / "whole" / "w.0.et").read_bytes()}
    shutil.rmtree(tmp_path / "whole")
    assert set(content(tmp_path).values()) <= whole
    write_generated(all_equal(nodes=2), tmp_path / "w", link="copy")
    assert content(tmp_path) == {**before, "w.groups.json": groups}


@pytest.mark.parametrize(("how", "words"), [
    ({"prefix": "none/w"}, "there is no folder"), ({"link": "soft"}, "one of hard, copy, symlink"),
    ({"jobs": 0}, "jobs"), ({"prefix": "more"}, "traces of ranks 9 already, and ranks 0 to")])
def test_what_cannot_be_written_is_refused_before(how: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "more.9.et").write_bytes(b"")
    prefix = tmp_path / how.pop("prefix", "w")
    with pytest.raises(InputError, match=words):
        write_generated(all_equal(), prefix, **how)
    assert [path.name for path in tmp_path.iterdir()] == ["more.9.et"]
