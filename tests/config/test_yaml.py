"""YAML: the core schema only, hostile input refused, everything written reads back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium import config
from astrarium.config import yamlfile
from astrarium.config.yamlfile import parse_yaml, to_yaml
from astrarium.design import Design
from astrarium.errors import InputError

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def test_scalars_of_the_core_schema() -> None:
    found = parse_yaml(
        "{a: off, b: no, c: true, d: 1e3, e: 010, f: '5', g: ~, h: 1:30, i: 2024-01-01, j: .5, k: }"
    ).data
    assert found == {
        "a": "off",
        "b": "no",
        "c": True,
        "d": 1000.0,
        "e": 10,
        "f": "5",
        "g": None,
        "h": "1:30",
        "i": "2024-01-01",
        "j": 0.5,
        "k": None,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: *x", "f.yaml:2: there is no anchor &x above"),
        ("a: &x [*x]", "f.yaml:1: there is no anchor &x above"),
        ("a: &x 1\nb: {<<: *x}", "f.yaml:2: << is not a mapping"),
        ("x0: &x0 [1]\n" + "".join(f"x{n}: &x{n} [{f'*x{n - 1}, ' * 10}]\n" for n in range(1, 9)),
         "f.yaml:6: aliases copy too much; expected at most 100,000 values"),
        ("x0: &x0 1\n" + "".join(f"x{n}: &x{n} [*x{n - 1}]\n" for n in range(1, 99)), "nested too deeply"),
        ("a: !!python/object:os.system 1", "f.yaml:1: the tag .* is not taken"),
        ("a: 1\nb: 2\na: 3", "f.yaml:3: the key 'a' is there twice"),
        ("? [1, 2]\n: 3", "f.yaml:1: a key is not text"),
        ("a: [", "f.yaml:.*is not YAML"),
        ("a: 1\n---\nb: 2", "f.yaml:2: a second document"),
        ("[" * 100 + "]" * 100, "nested too deeply"),
        ("{a: " * 5000, "nested too deeply"),
        ("a: \x00", "f.yaml.*is not YAML"),
    ],
)
def test_hostile_input_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_yaml(text, "f.yaml")


def test_aliases_are_copies() -> None:
    document = parse_yaml("a: &x {b: [1, 2], c: 3}\nd: *x\ne: {c: 4, <<: *x}\nf: {<<: [{c: 5}, *x], g: 6}\n'<<': 7")
    inner = {"b": [1, 2], "c": 3}
    assert document.data == {"a": inner, "d": inner, "e": {**inner, "c": 4}, "f": {**inner, "c": 5, "g": 6}, "<<": 7}
    assert document.data["a"]["b"] is not document.data["d"]["b"]
    assert (document.line("d.b[0]"), document.line("e.b")) == (2, 3)


@given(st.dictionaries(st.text(), TREES, max_size=4))
def test_what_is_written_reads_back(tree: dict[str, object]) -> None:
    assert parse_yaml(to_yaml(tree)).data == tree


@given(st.text() | st.text(alphabet="[]{}:,-&*!|>'\"#?% \nabc01."))
def test_no_text_crashes_the_reader(text: str) -> None:
    with pytest.raises(InputError):  # a design is never made of noise; nothing but InputError may come out
        config.loads(Design, text, "f.yaml")


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"missing.yaml: cannot be read"):
        config.load(Design, tmp_path / "missing.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        config.load(Design, tmp_path)
    with pytest.raises(InputError, match="is not a file name"):
        config.load(Design, "a\0b")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff")
    with pytest.raises(InputError, match="not UTF-8"):
        config.load(Design, tmp_path / "latin.yaml")
    monkeypatch.setattr(yamlfile, "MAX_BYTES", 10)
    (tmp_path / "big.yaml").write_text("a: 1234567890")
    with pytest.raises(InputError, match="too large"):
        config.load(Design, tmp_path / "big.yaml")


def test_lines_of_paths() -> None:
    document = parse_yaml("a:\n  b:\n    - 1\n    - c: 2\n")
    assert document.line("a.b[1].c") == 4
    assert document.line("a.b[0]") == 3
    assert document.line("a.b[7].x.y") == 2
    assert document.line("zzz") == 1
