"""The compiled reader, its pure-Python twin and the protobuf package agree on random traces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.errors import TraceError
from astrarium.trace import HAVE_CORE, Metadata, Node, encode_trace, graph_of, ready_order, traces_of_bytes
from astrarium.trace.node import decode_metadata, decode_node, encode_metadata, encode_node

from .strategies import FILES, METADATA, NODES, assert_equal

needs_core = pytest.mark.skipif(not HAVE_CORE, reason="no compiled core")


@needs_core
@given(st.lists(FILES, min_size=1, max_size=4))
def test_core_and_twin_give_equal_columns(files: list[bytes]) -> None:
    assert_equal(traces_of_bytes(files), traces_of_bytes(files, pure=True))


def _outcome(data: bytes, pure: bool) -> str:
    try:
        traces = traces_of_bytes([data], pure=pure)
    except TraceError as error:
        return str(error)
    return f"{traces.nodes} nodes"


@needs_core
@given(FILES, st.data())
def test_core_and_twin_refuse_alike(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data) - 1))
    damaged = data[:at] + draw.draw(st.binary(max_size=3)) + data[at + draw.draw(st.integers(0, 3)):]
    assert _outcome(damaged, pure=False) == _outcome(damaged, pure=True)


@needs_core
@given(st.lists(st.builds(Node, id=st.integers(0, 6), type=st.just(4),
                          data_deps=st.lists(st.integers(0, 7), max_size=3).map(tuple),
                          ctrl_deps=st.lists(st.integers(0, 7), max_size=2).map(tuple)), max_size=7),
       st.sampled_from(["data", "data+ctrl"]))
def test_core_and_twin_order_alike(nodes: list[Node], deps: str) -> None:
    columns = traces_of_bytes([encode_trace(Metadata(), nodes)], pure=True).classes[0]
    graph = graph_of(columns, deps)
    np.testing.assert_array_equal(ready_order(columns, graph), ready_order(columns, graph, pure=True))


@given(NODES)
def test_nodes_survive_encoding(node: Node) -> None:
    assert decode_node(encode_node(node)) == node


@given(METADATA)
def test_metadata_survives_encoding(metadata: Metadata) -> None:
    assert decode_metadata(encode_metadata(metadata)) == metadata


@pytest.fixture(scope="module")
def proto():
    """Message classes built from the field numbers of Chakra's schema."""
    pytest.importorskip("google.protobuf")
    return _schema()


def _schema():
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    from astrarium.trace._oneof import KINDS

    field = descriptor_pb2.FieldDescriptorProto
    types = {name: getattr(field, f"TYPE_{name.upper()}") for name in (
        "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
        "sfixed64", "bool", "string", "bytes")}
    file = descriptor_pb2.FileDescriptorProto(name="chakra_test.proto", package="chakra_test", syntax="proto3")

    def message(name: str, *fields: tuple[str, int, int | str, bool]):
        made = file.message_type.add(name=name)
        for title, number, kind, repeated in fields:
            label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            put = made.field.add(name=title, number=number, label=label)
            if isinstance(kind, str):
                put.type, put.type_name = field.TYPE_MESSAGE, f".chakra_test.{kind}"
            else:
                put.type = kind
        return made

    for name, kind in types.items():
        message(f"{name}List", ("values", 1, kind, True))
    made = message("Attribute", ("name", 1, types["string"], False), ("doc_string", 2, types["string"], False),
                   *((kind, number, f"{kind[:-5]}List" if kind.endswith("_list") else types[kind[:-4]], False)
                     for kind, number in KINDS.items()))
    made.oneof_decl.add(name="value")
    for put in made.field[2:]:
        put.oneof_index = 0
    message("IOInfo", *((name, i + 1, types["string"], False) for i, name in enumerate(("values", "shapes", "types"))))
    message("Node", ("id", 1, types["uint64"], False), ("name", 2, types["string"], False),
            ("type", 3, types["int32"], False), ("ctrl_deps", 4, types["uint64"], True),
            ("data_deps", 5, types["uint64"], True), ("start_time_micros", 6, types["uint64"], False),
            ("duration_micros", 7, types["uint64"], False), ("inputs", 8, "IOInfo", False),
            ("outputs", 9, "IOInfo", False), ("attr", 10, "Attribute", True))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("chakra_test.Node"))


@given(node=NODES)
def test_the_protobuf_package_reads_what_we_write(proto, node: Node) -> None:
    message = proto.FromString(encode_node(node))
    assert message.SerializeToString(deterministic=True) == encode_node(node)
    assert (message.id, message.name, message.type) == (node.id, node.name, node.type)
    assert (tuple(message.ctrl_deps), tuple(message.data_deps)) == (node.ctrl_deps, node.data_deps)
    assert (message.start_time_micros, message.duration_micros) == (node.start, node.duration)
    assert message.HasField("inputs") == (node.inputs is not None)
    for theirs, ours in zip(message.attr, node.attrs, strict=True):
        assert (theirs.name, theirs.doc_string, theirs.WhichOneof("value")) == (ours.name, ours.doc, ours.kind)
        if ours.kind is not None:
            value = getattr(theirs, ours.kind)
            assert (tuple(value.values) if ours.kind.endswith("_list") else value) == ours.value
