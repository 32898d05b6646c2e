"""Groups from a comm-group file and from METADATA nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astrarium.errors import InputError, TraceError
from astrarium.trace import IOInfo, Metadata, Node, encode_trace, group_key, groups_of, read_groups, traces_of_bytes


def test_a_group_file_keeps_names_and_order(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    path.write_text('{"2": [3, 1], "01": [0]}')
    assert read_groups(path) == {"2": (3, 1), "1": (0,)}


@pytest.mark.parametrize(("text", "message"), [
    ("[1]", "not a JSON object"), ("{", "not JSON"), ('{"0": [1]}', "group id '0'; expected a whole number above 0"),
    ('{"a": [1]}', "group id 'a'"), ('{"-1": [1]}', "group id '-1'"), ('{"1": []}', "group '1': .* at least one rank"),
    ('{"1": 3}', "group '1': 3; expected a list"), ('{"1": [1.5]}', "group '1': rank 1.5"),
    ('{"1": [true]}', "group '1': rank True"), ('{"1": [-2]}', "group '1': rank -2"),
    ('{"1": [2, 3, 2]}', "group '1': rank 2 is there twice"), ('{"1": [2], "01": [3]}', "group '01' is there twice"),
    ("[" * 100000, "not JSON")])
def test_bad_group_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "groups.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_groups(path)


def test_a_missing_group_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"comm-group file: .*none\.json cannot be read: No such file"):
        read_groups(tmp_path / "none.json")


def init(groups: list[dict[str, object]], name: str = "## process_group:init ##") -> bytes:
    node = Node(1, name, 1, inputs=IOInfo(values=str([json.dumps(groups)])))
    return encode_trace(Metadata(), [node])


def test_process_groups_of_pytorch_traces() -> None:
    files = [init([{"pg_name": "0", "ranks": [], "group_size": 2}, {"pg_name": "3", "ranks": [1, 0]}])] * 2
    assert groups_of(traces_of_bytes(files)) == {"0": (0, 1), "3": (1, 0)}


def test_groups_that_contradict_each_other_are_refused() -> None:
    files = [init([{"pg_name": "3", "ranks": [0, 1]}]), init([{"pg_name": "3", "ranks": [1]}])]
    with pytest.raises(TraceError, match=r"rank 1, node 1 .*: process group '3' has other ranks than rank 0 gives it"):
        groups_of(traces_of_bytes(files))


@pytest.mark.parametrize("values", ["", "[]", "nonsense", "[1]", "['{']", "['[1]']", "[[[" * 5000])
def test_other_metadata_is_left_alone_and_damaged_groups_are_refused(values: str) -> None:
    other = encode_trace(Metadata(), [Node(1, "something", 1, inputs=IOInfo(values))])
    assert groups_of(traces_of_bytes([other])) == {}
    damaged = encode_trace(Metadata(), [Node(1, "## process_group:init ##", 1, inputs=IOInfo(values))])
    if values:
        with pytest.raises(TraceError, match=r"inputs\.values cannot be read"):
            groups_of(traces_of_bytes([damaged]))


@pytest.mark.parametrize(("text", "key"), [("5", "5"), ("005", "5"), ("", ""), ("dp", "dp"), ("-1", "-1"), ("٣", "٣")])
def test_group_keys(text: str, key: str) -> None:
    assert group_key(text) == key
