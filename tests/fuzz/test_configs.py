"""ASTRA-sim's configuration files, damaged: parsed, or refused with a message; never anything else."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.errors import InputError, InternalError

from .dropin import parse
from .strategies import (
    GROUPS,
    GROUPS_BYTES,
    MEMORY,
    MEMORY_BYTES,
    NETWORK,
    NETWORK_BYTES,
    SYSTEM_BYTES,
    as_json,
    as_yaml,
    system,
)

GOOD = {"system": as_json(system(2)), "network": as_yaml(NETWORK), "memory": as_json(MEMORY), "groups": as_json(GROUPS)}
NAMES = {"system": "system.json", "network": "network.yml", "memory": "memory.json", "groups": "groups.json"}
ANY_BYTES = {"system": SYSTEM_BYTES, "network": NETWORK_BYTES, "memory": MEMORY_BYTES, "groups": GROUPS_BYTES}


def _parse(which: str, data: bytes, backend: str) -> None:
    """Parses good files with one replaced. A refusal names the file."""
    with tempfile.TemporaryDirectory() as name:
        files = {**GOOD, which: data}
        try:
            inputs = parse(Path(name), files["system"], files["network"], files["memory"], files["groups"], backend)
        except InputError as error:
            text = str(error)
        else:
            assert 0 < inputs.npus <= 2**24
            return
    assert len(text) < 2000
    others = ("custom", "nowhere", "cannot be read", "not YAML")  # about a file that the damaged one names
    assert NAMES[which] in text or any(word in text for word in others)


@pytest.mark.parametrize("which", list(GOOD))
@given(data=st.data())
def test_a_damaged_file_is_parsed_or_refused(which: str, data: st.DataObject) -> None:
    """Values of the wrong type, out of range, missing and unknown keys, broken syntax, wrong encodings."""
    _parse(which, data.draw(ANY_BYTES[which]), "unaware")


@pytest.mark.parametrize("which", list(GOOD))
@given(data=st.binary(max_size=64))
def test_any_bytes(which: str, data: bytes) -> None:
    """Bytes that are no such file at all."""
    _parse(which, data, "aware")


@pytest.mark.parametrize(("which", "data"), [
    ("system", b"[" * 100_000), ("groups", b'{"a":' * 100_000), ("network", b"[" * 3_000), ("network", b"&a [*a]"),
    ("network", b"topology: &a [*a]\nnpus_count: *a\nbandwidth: *a\nlatency: *a\n"),
    ("network", b"!!python/object/apply:os.getcwd []"), ("network", b"topology: [Ring]\n\tnpus_count: [2]"),
    ("network",
     b"a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n"
     b"d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\n"
     b"topology: [*e,*e,*e,*e,*e,*e,*e,*e]\nnpus_count: [2]\nbandwidth: [1]\nlatency: [1]\n"),
    ("network", b"2020-99-99: 1"),
    ("network", b"topology: [Ring]\nnpus_count: [0x7fffffffffffffff]\nbandwidth: [1]\nlatency: [1]"),
    ("network", b"topology: [Ring]\nnpus_count: [0x" + b"f" * 5000 + b"]\nbandwidth: [1]\nlatency: [1]"),
    ("network", b"topology: [Ring]\nnpus_count: [2]\nbandwidth: [1]\nlatency: &a [[*a, *a]]"),
    ("network", b"".join(b"l%d: &l%d [%s]\n" % (i, i, b",".join([b"*l%d" % (i - 1)] * 9) if i else b"x")
                         for i in range(12)) +
     b"topology: [*l11]\nnpus_count: [2]\nbandwidth: [1]\nlatency: [1]"),
    ("system", b'{"preferred-dataset-splits": 4, "all-reduce-implementation-custom": ["a\\u0000b"]}'),
    ("system", b'{"preferred-dataset-splits": 4, "all-reduce-implementation-custom": ["\\ud800"]}'),
    ("system", b'{"preferred-dataset-splits": 4, "all-reduce-implementation-custom": ["nowhere/x"]}'),
    ("system", b'{"preferred-dataset-splits": 4, "per-node-custom-implementation": "a\\u0000b"}'),
    ("system", b'{"preferred-dataset-splits": 4, "per-node-custom-implementation": ["x"]}'),
    ("system", b'{"preferred-dataset-splits": 1e999}'), ("system", b"\xff\xfe{}"), ("memory", b'{"memory-type": []}'),
    ("groups", b'{"1": [0, 0]}'), ("groups", b'{"\xc2\xb2": [0]}'), ("groups", b'{"1": [0], "01": [1]}'),
    ("system", b'{"preferred-dataset-splits": ' + b"9" * 5000 + b"}"),
])
def test_known_traps(which: str, data: bytes) -> None:
    """Deep nesting, recursive aliases, tags, bombs of aliases, numbers without end, digits that are none."""
    _parse(which, data, "unaware")


def test_internal_errors_are_never_the_answer_to_bad_input() -> None:
    """What _parse lets through is exactly the tree of input errors."""
    assert not issubclass(InternalError, InputError)
