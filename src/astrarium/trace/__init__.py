"""Chakra execution traces: read, write, check."""

from __future__ import annotations

from astrarium.trace._native import HAVE_CORE
from astrarium.trace.columns import Attr, Columns, Traces
from astrarium.trace.read import find_traces, read_traces, traces_of_bytes

__all__ = ["HAVE_CORE", "Attr", "Columns", "Traces", "find_traces", "read_traces", "traces_of_bytes"]
