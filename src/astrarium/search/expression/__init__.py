"""Expressions over dotted paths and figures, as constraints, derived values and objectives write them."""

from __future__ import annotations

from astrarium.search.expression.evaluate import Interval, bounds, compiled, put, put_all, resolve
from astrarium.search.expression.nodes import CONDITIONS, FALSE, TRUE, Const, Node, Op, Ref, make, names_in
from astrarium.search.expression.parse import parse

__all__ = ["CONDITIONS", "FALSE", "TRUE", "Const", "Interval", "Node", "Op", "Ref", "bounds", "compiled", "make",
           "names_in", "parse", "put", "put_all", "resolve"]
