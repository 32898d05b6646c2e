"""The older name of chakra.src.third_party.utils.protolib."""

from chakra.src.third_party.utils.protolib import decodeMessage, encodeMessage, openFileRd

__all__ = ["decodeMessage", "encodeMessage", "openFileRd"]
