"""Expressions: against Python's own arithmetic, folding against plain evaluation, and hostile text."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.errors import InputError
from astrarium.search.bounds.columns import vector
from astrarium.search.expression import Const, Node, Ref, bounds, compiled, names_in, put, resolve
from astrarium.search.scope import parse

NAMES = ("a", "b", "c")


def leaf() -> st.SearchStrategy[str]:
    return st.one_of(st.sampled_from(NAMES), st.integers(0, 9).map(str))


def numbers() -> st.SearchStrategy[str]:
    return st.recursive(leaf(), lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["//", "%", "/"]), st.integers(1, 9)).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"max({t[0]}, {t[1]})"),
        inner.map(lambda t: f"-{t}"),
        st.tuples(inner, inner).map(lambda t: f"sum({t[0]}, {t[1]}, 2)"),
        st.tuples(inner, inner).map(lambda t: f"product({t[0]}, {t[1]})")), max_leaves=8)


def truths() -> st.SearchStrategy[str]:
    one = st.tuples(numbers(), st.sampled_from(["<=", "<", ">=", ">", "==", "!="]), numbers()).map(" ".join)
    return st.recursive(one, lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda t: f"not ({t})")), max_leaves=3)


def tree(text: str) -> Node:
    return resolve(parse(text), lambda name: [Ref(name)])


def python(text: str, values: dict[str, int]) -> Any:
    """The rival: the same text is Python, but for sum and product."""
    names = {"sum": lambda *args: sum(args), "product": lambda a, b: a * b, "max": max, **values}
    return eval(text, {"__builtins__": {}}, names)


def filled(node: Node, values: dict[str, int]) -> Any:
    for name, value in values.items():
        node = put(node, name, Const(value))
    assert isinstance(node, Const)
    return node.value


VALUES = st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(-20, 20)))


@given(numbers(), VALUES)
def test_arithmetic_is_pythons(text: str, values: dict[str, int]) -> None:
    expected = python(text, values)
    assert filled(tree(text), values) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    function = compiled(tree(text), {name: index for index, name in enumerate(NAMES)})
    assert function([values[name] for name in NAMES]) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(truths(), VALUES, st.permutations(NAMES))
def test_truth_is_pythons_in_whatever_order_values_come(text: str, values: dict[str, int], order: list[str]) -> None:
    if "/" in text.replace("//", ""):      # folding may add floats in another order
        return
    assert filled(tree(text), {name: values[name] for name in order}) is bool(python(text, values))


@given(truths() | numbers(), VALUES)
def test_bounds_hold_the_value(text: str, values: dict[str, int]) -> None:
    ranges = {name: (min(0, value) - 1, value + 2) for name, value in values.items()}
    low, high = bounds(tree(text), ranges)
    assert low - 1e-9 <= python(text, values) <= high + 1e-9


@pytest.mark.parametrize(("text", "value"), [
    ("'80 GiB'", 80 * 2.0**30), ("'450 GB/s'", 450.0), ("'2 us'", 2000.0), ("'ring'", "ring"), ("-2 * 3", -6),
    ("7 // 2 % 2", 1), ("2 in [1, 2]", True), ("'a' in ['b']", False), ("1 <= 2 <= 3", True), ("1 <= 2 <= 1", False),
    ("not not true", True), ("if(1 < 2, 3, 1 / 0 * 0 + 4)", 3), ("sqrt(16) + log2(8) + abs(-1)", 8.0),
    ("ceil(1.5) - floor(1.5)", 1), ("min(3, 1, 2)", 1), ("true or 1 < 0", True)])
def test_constants(text: str, value: object) -> None:
    if "1 / 0" in text:
        with pytest.raises(InputError, match="divides by zero"):
            parse(text)
        return
    assert tree(text) == Const(value)


@pytest.mark.parametrize(("text", "says"), [
    ("", "the end"), ("1 +", "the end"), ("(1", "close"), ("1 2", "does not belong"),
    ("__import__('os')", "not a function"),
    ("a.b()", "not a function"), ("prod(1)", "did you mean 'product'"), ("1 & 2", "not understood"),
    ("a[0", "not understood|does not belong"), ("lambda: 1", "not understood|does not belong"), ("1 / 0", "zero"),
    ("'x' * 2", "not a number"), ("'x' <= 2", "not a number"), ("if(1, 2)", "2 arguments"), ("a in b", "a list"),
    ("a in [b]", "numbers and 'text' only"), ("9" * 31, "too long"), ("(" * 50 + "1" + ")" * 50, "nested"),
    ("1" * 5000, "too long"), ("not 3", "true or false"), ("product()", "0 arguments"),
    ("'unclosed", "not understood")])
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse(text, "here")


@given(st.text(max_size=60))
def test_no_text_crashes_the_parser(text: str) -> None:
    with contextlib.suppress(InputError):
        parse(text)


@pytest.mark.parametrize("text", [
    "a in [1, 3]", "a * b + a * b - c", "if(a > b, a * b, c // 2)", "max(a, b, c) >= 2 and not a == b",
    "min(a, b) + sqrt(c) + a % 3 + abs(b - c)", "7", "b"])
def test_columns_have_the_values_of_their_rows(text: str) -> None:
    rows = [(1, 2, 3), (3, 1, 4), (2, 2, 0), (9, 4, 7)]
    node = parse(text)
    of_row, columns = compiled(node, {"a": 0, "b": 1, "c": 2}), dict(zip(NAMES, np.array(rows).T, strict=True))
    assert np.broadcast_to(vector(node, columns), len(rows)).tolist() == [of_row(row) for row in rows]


def test_only_what_is_needed_is_computed() -> None:
    node = tree("if(a > 0, 6 // a, 0) == 3")
    assert put(node, "a", Const(0)) == Const(False)
    assert put(node, "a", Const(2)) == Const(True)
    assert put(tree("a == 0 or 4 // a == 2"), "a", Const(0)) == Const(True)
    with pytest.raises(InputError, match="divides by zero"):
        put(tree("4 // a == 2"), "a", Const(0))


def test_products_of_the_same_worth_are_one_tree() -> None:
    assert put(put(tree("a * b * c <= 8"), "a", Const(2)), "b", Const(3)) == \
        put(put(tree("a * b * c <= 8"), "a", Const(6)), "b", Const(1))
    assert names_in(tree("c * a + c")) == ("c", "a")
