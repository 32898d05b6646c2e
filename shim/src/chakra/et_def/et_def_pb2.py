"""The older name of chakra.schema.protobuf.et_def_pb2."""

from chakra.schema.protobuf.et_def_pb2 import *  # noqa: F403
