"""Random traces for Hypothesis, and how to compare two sets of columns."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from astrarium.trace import Attribute, Columns, IOInfo, Metadata, Node, Traces, encode_trace

U64 = st.integers(0, 2**64 - 1)
SMALL = st.integers(0, 12)
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_INTEGERS = {"int32": (-2**31, 2**31 - 1), "int64": (-2**63, 2**63 - 1), "uint32": (0, 2**32 - 1),
             "uint64": (0, 2**64 - 1), "sint32": (-2**31, 2**31 - 1), "sint64": (-2**63, 2**63 - 1),
             "fixed32": (0, 2**32 - 1), "fixed64": (0, 2**64 - 1), "sfixed32": (-2**31, 2**31 - 1),
             "sfixed64": (-2**63, 2**63 - 1)}
SCALARS = {**{name: st.integers(*span) for name, span in _INTEGERS.items()},
           "double": st.floats(allow_nan=False), "float": st.floats(width=32, allow_nan=False), "bool": st.booleans(),
           "string": TEXT, "bytes": st.binary(max_size=8)}
NAMES = ("is_cpu_op", "comm_type", "comm_size", "comm_priority", "num_ops", "tensor_size", "stream", "involved_dim",
         "pg_name", "comm_src", "comm_dst", "comm_tag", "op_type", "streams", "pg_names", "", "comm_sizes")


@st.composite
def attributes(draw: st.DrawFn) -> Attribute:
    name = draw(st.sampled_from(NAMES))
    if draw(st.integers(0, 9)) == 0:
        return Attribute(name)
    scalar = draw(st.sampled_from(sorted(SCALARS)))
    if draw(st.integers(0, 2)) == 0 or (name == "involved_dim" and draw(st.booleans())):
        scalar = "bool" if name == "involved_dim" else scalar
        values = tuple(draw(st.lists(SCALARS[scalar], max_size=40 if scalar == "bool" else 4)))
        return Attribute(name, values, f"{scalar}_list", draw(st.sampled_from(["", "doc"])))
    return Attribute(name, draw(SCALARS[scalar]), f"{scalar}_val", draw(st.sampled_from(["", "doc"])))


INFO = st.none() | st.builds(IOInfo, TEXT, TEXT, TEXT)
NODES = st.builds(
    Node, id=SMALL | U64, name=TEXT, type=st.integers(0, 9), ctrl_deps=st.lists(SMALL | U64, max_size=4).map(tuple),
    data_deps=st.lists(SMALL | U64, max_size=4).map(tuple), start=SMALL | U64, duration=SMALL | U64, inputs=INFO,
    outputs=INFO, attrs=st.lists(attributes(), max_size=6).map(tuple))
METADATA = st.builds(Metadata, version=TEXT, attrs=st.lists(attributes(), max_size=2).map(tuple))
FILES = st.builds(encode_trace, METADATA, st.lists(NODES, max_size=6))


def assert_equal(left: Traces, right: Traces) -> None:
    """Both hold the same classes, rows, texts and columns, with the same types."""
    assert left.texts == right.texts
    np.testing.assert_array_equal(left.rank_class, right.rank_class)
    np.testing.assert_array_equal(left.rank_row, right.rank_row)
    for a, b in zip(left.classes, right.classes, strict=True):
        assert_equal_columns(a, b)
    for rank in range(left.ranks):
        assert left.file_bytes(rank) == right.file_bytes(rank)


def assert_equal_columns(left: Columns, right: Columns) -> None:
    for name in Columns.__struct_fields__:
        a, b = getattr(left, name), getattr(right, name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, name
            np.testing.assert_array_equal(a, b, err_msg=name)
        elif isinstance(a, bytes):
            assert a == b, name
