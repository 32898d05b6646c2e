"""Files of fabrics: InfraGraph (YAML or JSON) in and out, topologies of ns-3 and htsim, hosts of NCCL and lstopo (XML).

Nothing is built but the values of the schema, and sizes are bounded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from astrarium.config.other_files import MATRIX, other_file
from astrarium.config.yamlfile import parse_yaml, read_text, to_yaml
from astrarium.errors import InputError, nearest
from astrarium.fabric.htsim import fat_tree, is_fat_tree
from astrarium.fabric.ns3 import is_topology, topology
from astrarium.fabric.schema import Document, Infrastructure

__all__ = ["document_of", "plain_of", "read_document", "written"]

_AT = re.compile(r"^(.*?)(?: - at `\$\.?(.*?)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_BYTE = re.compile(r"\(byte (\d{1,15})\)")
NEW_LINE = b"\n"
_FIELDS = tuple(sorted({field for kind in msgspec.json.schema(Document)["$defs"].values()
                        for field in kind.get("properties", ())}))


def read_document(path: str) -> Document:
    """A file of a fabric or of a host. Raises InputError with file, path and what was expected."""
    text = read_text(path)
    if text.lstrip("\ufeff \t\r\n")[:1] == "<":
        return _host(text, path)
    other = other_file(text, path) if is_fat_tree(text) else None
    if other is not None and other[0] == MATRIX:
        raise InputError(path, f"is {other[0]}, not a network", expected=other[1])
    if is_topology(text):
        return topology(text, path)
    return fat_tree(text, path) if is_fat_tree(text) else document_of(_plain(text, path), path)


def _host(text: str, where: str) -> Document:
    from astrarium.fabric.lstopo import lstopo_host
    from astrarium.fabric.nccl import nccl_host
    from astrarium.fabric.xmlfile import parse_xml

    root = parse_xml(text, where)
    readers = {"system": nccl_host, "topology": lstopo_host}
    if root.tag not in readers:
        raise InputError(f"{where}:{root.line}", f"<{root.tag[:60]}> outermost",
                         expected="<system> (a topology of NCCL) or <topology> (of lstopo)")
    return readers[root.tag](root, where)


def _plain(text: str, path: str) -> Any:
    """JSON or YAML as plain data."""
    if text.lstrip()[:1] != "{":
        return parse_yaml(text, path).data
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        at = _BYTE.search(str(error))
        line = "" if at is None else f":{text.encode().count(NEW_LINE, 0, int(at[1])) + 1}"
        raise InputError(path + line, f"is not JSON: {error}") from None
    except RecursionError:
        raise InputError(path, "is nested too deeply") from None


def document_of(plain: Any, where: str) -> Document:
    """Plain data as a document; an infrastructure alone is one without annotations. `where` is used in messages."""
    if not isinstance(plain, Mapping):
        raise InputError(where, "is empty" if plain is None else "is not a mapping",
                         expected="devices, links, instances and edges")
    try:
        if "infrastructure" in plain:
            return msgspec.convert(plain, Document)
        return Document(infrastructure=msgspec.convert(plain, Infrastructure))
    except msgspec.ValidationError as error:
        raise _said(str(error), where) from None


def _said(text: str, where: str) -> InputError:
    """What msgspec says as our own error: path, value, nearest match."""
    found = _AT.match(text)
    assert found is not None
    path = f"{where}: {found[2]}" if found[2] else where
    unknown, missing = _UNKNOWN.fullmatch(found[1]), _MISSING.fullmatch(found[1])
    if unknown:
        return InputError(path, f"unknown key {unknown[1][:60]!r}", expected="a key of InfraGraph's schema 3.1",
                          did_you_mean=nearest(unknown[1], _FIELDS))
    return InputError(path, f"{missing[1]} is missing" if missing else found[1][:200])


def plain_of(document: Document) -> dict[str, Any]:
    """The plain data of a document, as it was read: an infrastructure alone where it has no annotations."""
    plain = cast("dict[str, Any]", msgspec.json.decode(msgspec.json.encode(document)))
    return plain if "annotations" in plain else cast("dict[str, Any]", plain["infrastructure"])


def written(document: Document, path: str | os.PathLike[str] = "fabric.yaml") -> str:
    """The text of an InfraGraph file; JSON where `path` ends so, else YAML. It reads back equal."""
    plain = plain_of(document)
    if os.fspath(path).endswith(".json"):
        return msgspec.json.format(msgspec.json.encode(plain), indent=1).decode() + "\n"
    return to_yaml(plain)
