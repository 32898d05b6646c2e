"""Writing: whole files or nothing, unchanged nodes byte for byte, values checked against their kind."""

from __future__ import annotations

import errno
import gzip
import os
from pathlib import Path

import msgspec
import pytest

from astrarium.errors import InputError
from astrarium.trace import (
    Attribute,
    Metadata,
    Node,
    TraceBuilder,
    attribute,
    encode_trace,
    read_node,
    read_traces,
    write_trace,
    write_traces,
)
from astrarium.trace._wire import tagged, varint
from astrarium.trace.write import node_messages, write_files
from astrarium.vocab import CommOp


def make(folder: Path) -> Path:
    for rank in range(3):
        build = TraceBuilder()
        build.comp("c", 5)
        build.coll(f"ar {rank}", CommOp.ALL_REDUCE, 1024, group=rank + 1, after=[0])
        build.comp("d", 6, after=[1])
        build.write(folder / f"in.{rank}.et")
    return folder / "in"


def test_reading_then_writing_changes_nothing(tmp_path: Path) -> None:
    prefix = make(tmp_path)
    paths = write_traces(read_traces(prefix), tmp_path / "out")
    assert [Path(p).name for p in paths] == ["out.0.et", "out.1.et", "out.2.et"]
    for rank in range(3):
        assert (tmp_path / f"out.{rank}.et").read_bytes() == (tmp_path / f"in.{rank}.et").read_bytes()
    assert len(list(tmp_path.iterdir())) == 6


def test_only_edited_nodes_change(tmp_path: Path) -> None:
    odd = tagged(200, 0, varint(7)) + tagged(1, 0, b"\x82\x00")   # an unknown field, an id that is not in shortest form
    write_trace(tmp_path / "in.0.et", b"", [odd, Node(3, "c", 4, duration=1)])
    traces = read_traces(tmp_path / "in")
    longer = msgspec.structs.replace(read_node(traces, 0, 1), duration=9)
    write_traces(traces, tmp_path / "out", edits={(0, 1): longer})
    assert list(node_messages((tmp_path / "out.0.et").read_bytes()))[1] == odd
    assert read_traces(tmp_path / "out").classes[0].duration.tolist() == [0, 9]
    write_traces(traces, tmp_path / "out", edits={(0, 0): None})
    assert read_traces(tmp_path / "out").classes[0].node_id.tolist() == [3]
    with pytest.raises(InputError, match="no node index 2 on rank 0"):
        write_traces(traces, tmp_path / "out", edits={(0, 2): None})


def test_edits_of_a_rank_that_is_not_the_first_of_its_class(tmp_path: Path) -> None:
    traces = read_traces(make(tmp_path))
    assert len(traces.classes) == 1
    node = read_node(traces, 2, 1)
    assert node.name == "ar 2"
    write_traces(traces, tmp_path / "out", edits={(2, 1): msgspec.structs.replace(node, attrs=node.attrs[:-1])})
    again = read_traces(tmp_path / "out")
    assert again.rank_class.tolist() == [0, 0, 1]
    assert again.classes[1].group.tolist() == [[-1]]


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = read_traces(make(tmp_path))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"nowhere.out\.0\.et: cannot be written \(No such file"):
        write_traces(traces, tmp_path / "nowhere" / "out")
    with pytest.raises(InputError, match="does not fit int32_val"):
        write_traces(traces, tmp_path / "out", edits={(2, 0): Node(attrs=(Attribute("x", 1 << 40, "int32_val"),))})
    assert sorted(tmp_path.iterdir()) == before


def test_a_full_disk_is_reported_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")      # without a file's name, as the system does it

    monkeypatch.setattr("astrarium.trace.write._beside", full)
    with pytest.raises(InputError, match=r"a\.0\.et: cannot be written \(No space left on device\)"):
        write_files([(str(tmp_path / "a.0.et"), b"x")])


def test_compressed_files_are_reproducible(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_trace(tmp_path / f"{name}.0.et", Metadata("1.0.0"), [Node(1, "c", 4)], compress=True)
    assert (tmp_path / "a.0.et").read_bytes() == (tmp_path / "b.0.et").read_bytes()
    assert gzip.decompress((tmp_path / "a.0.et").read_bytes()) == encode_trace(Metadata("1.0.0"), [Node(1, "c", 4)])


@pytest.mark.parametrize(("name", "value", "kind"), [
    ("is_cpu_op", True, "bool_val"), ("comm_type", 2, "int64_val"), ("comm_size", 2, "int64_val"),
    ("comm_dst", 2, "int32_val"), ("tensor_size", 2, "uint64_val"), ("num_ops", 2, "int64_val"),
    ("pg_name", "1", "string_val"), ("involved_dim", [True], "bool_list"), ("mine", 2.5, "double_val"),
    ("mine", ["a", "b"], "string_list"), ("mine", b"x", "bytes_val"), ("mine", [1, 2], "int64_list")])
def test_attributes_take_the_oneof_of_chakras_generators(name: str, value: object, kind: str) -> None:
    assert attribute(name, value).kind == kind


def test_values_that_fit_nothing_are_refused() -> None:
    with pytest.raises(InputError, match=r"expected bool, int, float"):
        attribute("mine", None)
    with pytest.raises(InputError, match=r"a list of 2 values of 2 types"):
        attribute("mine", [1, "a"])
    with pytest.raises(InputError, match=r"did you mean 'int64_val'"):
        Attribute("mine", 1, "int64_vall")
    misfits = ((-1, "uint32_val"), ("x", "int64_val"), (1.5, "int64_val"), (1, "string_val"), (3, "int64_list"))
    for value, kind in misfits:
        with pytest.raises(InputError, match=f"does not fit {kind}"):
            encode_trace(Metadata(), [Node(attrs=(Attribute("mine", value, kind),))])


@pytest.mark.shared
def test_chakras_own_files_are_encoded_alike(shared: Path) -> None:
    from astrarium.trace.node import decode_metadata, decode_node, encode_metadata, encode_node

    for case in ("s_t1_2D", "j_memory_pool", "g_p2p_rdv", "h_replay"):
        for path in sorted((shared / "golden" / case / "et").glob("*.et"))[:2]:
            metadata, *nodes = node_messages(path.read_bytes())
            assert encode_metadata(decode_metadata(metadata)) == metadata
            assert [encode_node(decode_node(node)) for node in nodes] == nodes


def test_what_a_killed_writer_left_goes_after_a_day(tmp_path: Path) -> None:
    """Hidden files of the same name, and no others; a young one may belong to a writer that is still at work."""
    names = {".w.0.et.0123456789ab": True, ".w.0.et.ba9876543210": False, ".w.1.et.0123456789ab": True,
             ".w.0.et.bak": True, "w.0.et.0123456789ab": True}
    for name, old in names.items():
        (tmp_path / name).write_bytes(b"half")
        if old:
            os.utime(tmp_path / name, (1e9, 1e9))
    write_files([(str(tmp_path / "w.0.et"), b"whole")])
    assert {path.name for path in tmp_path.iterdir()} == {"w.0.et", *names} - {".w.0.et.0123456789ab"}
