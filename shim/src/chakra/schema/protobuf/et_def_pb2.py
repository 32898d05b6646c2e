"""The messages of Chakra's execution traces (proto3, package ChakraProtoMsg), built from their description."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal import enum_type_wrapper

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = ("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
            "sfixed32", "sfixed64", "bool", "string", "bytes")
_NODE_TYPES = ("INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE", "COMM_SEND_NODE",
               "COMM_RECV_NODE", "COMM_COLL_NODE")
_COLLECTIVES = ("ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER", "BROADCAST", "ALL_TO_ALL", "REDUCE_SCATTER",
                "REDUCE_SCATTER_BLOCK", "BARRIER")
_PACKAGE = "ChakraProtoMsg"


def _description():
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package=_PACKAGE, syntax="proto3")
    for name, values in (("NodeType", _NODE_TYPES), ("CollectiveCommType", _COLLECTIVES)):
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for scalar in _SCALARS:
        _message(file, f"{scalar.capitalize()}List", [("values", 1, scalar, True)])
    _attribute(file)
    _message(file, "GlobalMetadata", [("version", 1, "string", False), ("attr", 2, "AttributeProto", True)])
    _message(file, "IOInfo", [("values", 1, "string", False), ("shapes", 2, "string", False),
                              ("types", 3, "string", False)])
    _message(file, "Tensor", [(name, number, "uint64", False) for number, name in enumerate(
        ("tensor_id", "storage_id", "offset", "num_elem", "elem_bytes"), 1)] + [("device", 6, "string", False)])
    _message(file, "Node", [
        ("id", 1, "uint64", False), ("name", 2, "string", False), ("type", 3, "NodeType", False),
        ("ctrl_deps", 4, "uint64", True), ("data_deps", 5, "uint64", True), ("start_time_micros", 6, "uint64", False),
        ("duration_micros", 7, "uint64", False), ("inputs", 8, "IOInfo", False), ("outputs", 9, "IOInfo", False),
        ("attr", 10, "AttributeProto", True)])
    return file


def _message(file, name, fields):
    message = file.message_type.add(name=name)
    for field, number, kind, repeated in fields:
        _field(message, field, number, kind, repeated)
    return message


def _field(message, name, number, kind, repeated):
    field = message.field.add(name=name, number=number,
                              label=_FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL)
    if kind in _SCALARS:
        field.type = getattr(_FIELD, f"TYPE_{kind.upper()}")
        return field
    field.type = _FIELD.TYPE_ENUM if kind == "NodeType" else _FIELD.TYPE_MESSAGE
    field.type_name = f".{_PACKAGE}.{kind}"
    return field


def _attribute(file):
    message = _message(file, "AttributeProto", [("name", 1, "string", False), ("doc_string", 2, "string", False)])
    message.oneof_decl.add(name="value")
    for place, scalar in enumerate(_SCALARS):
        for offset, (name, kind) in enumerate(((f"{scalar}_val", scalar),
                                               (f"{scalar}_list", f"{scalar.capitalize()}List"))):
            _field(message, name, 3 + 2 * place + offset, kind, False).oneof_index = 0


_POOL = descriptor_pool.DescriptorPool()
DESCRIPTOR = _POOL.AddSerializedFile(_description().SerializeToString()) or _POOL.FindFileByName("et_def.proto")


def _class(name):
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


AttributeProto, GlobalMetadata, IOInfo, Tensor, Node = map(
    _class, ("AttributeProto", "GlobalMetadata", "IOInfo", "Tensor", "Node"))
DoubleList, FloatList, Int32List, Int64List, Uint32List, Uint64List, Sint32List, Sint64List, Fixed32List, Fixed64List, \
    Sfixed32List, Sfixed64List, BoolList, StringList, BytesList = (_class(f"{each.capitalize()}List")
                                                                   for each in _SCALARS)
NodeType = enum_type_wrapper.EnumTypeWrapper(_POOL.FindEnumTypeByName(f"{_PACKAGE}.NodeType"))
CollectiveCommType = enum_type_wrapper.EnumTypeWrapper(_POOL.FindEnumTypeByName(f"{_PACKAGE}.CollectiveCommType"))
INVALID_NODE, METADATA_NODE, MEM_LOAD_NODE, MEM_STORE_NODE, COMP_NODE, COMM_SEND_NODE, COMM_RECV_NODE, \
    COMM_COLL_NODE = range(len(_NODE_TYPES))
ALL_REDUCE, REDUCE, ALL_GATHER, GATHER, SCATTER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, \
    BARRIER = range(len(_COLLECTIVES))
