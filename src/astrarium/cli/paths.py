"""What a path on the command line is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.design import Design

__all__ = ["file_form", "is_design", "is_fabric", "is_overlap", "is_program", "is_serving", "read_as", "read_design"]

Found = TypeVar("Found")
NONE: Mapping[str, object] = MappingProxyType({})
KINDS = {"serving file": ({"requests"}, "serve"), "space": ({"choices"}, "search"), "design": ({"network"}, "run"),
         "fabric": ({"instances", "infrastructure"}, "show"), "GPU overlap": ({"gemm"}, "run")}
"""Kind of a YAML file -> (keys that no other kind has, the verb that takes it)."""


def is_design(path: str) -> bool:
    """Whether `path` names a YAML file (a design or a network) rather than traces."""
    return os.path.splitext(path)[1].lower() in (".yaml", ".yml")


def is_fabric(path: str) -> bool:
    """Whether `path` names a fabric: InfraGraph (YAML or JSON), a host's XML, a topology file of ns-3 or htsim."""
    ending = os.path.splitext(path)[1].lower()
    if ending in (".json", ".xml", ".txt", ".topo"):
        return os.path.isfile(path) and not file_form(path)
    return is_design(path) and _kind(path) == "fabric"


def file_form(path: str) -> str:
    """The form of traces that a file has (`astrarium list reader`); empty for another file, and where there is none."""
    from astrarium.trace.read import head_of
    from astrarium.trace.readers import reader_name

    return reader_name(head_of(path)) if os.path.isfile(path) else ""


def is_overlap(path: str) -> bool:
    """Whether `path` names a product beside a collective: a YAML file with `gemm`."""
    if not is_design(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return b"gemm" in file.read(1 << 16) and _kind(path) == "GPU overlap"


def is_serving(path: str) -> bool:
    """Whether `path` names a serving file."""
    return is_design(path) and os.path.isfile(path) and _kind(path) == "serving file"


def is_program(path: str) -> bool:
    """Whether `path` names a collective's MSCCL program (.xml) or MSCCL++ plan (.json)."""
    if not path.lower().endswith((".xml", ".json")) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return path.lower().endswith(".xml") or b'"collective"' in file.read(1 << 16)


def read_design(path: str, changes: Mapping[str, object] = NONE) -> Design:
    """The design in a file, with `changes` (path -> value). Raises InputError, which names the verb for a file of
    another kind."""
    from astrarium.design import load_design

    return read_as("design", lambda name: load_design(name, changes), path)


def read_as(kind: str, load: Callable[[str], Found], path: str) -> Found:
    """What `load` makes of a file. Raises its InputError, or one that names the verb where the file is of another
    kind than `kind`."""
    try:
        return load(path)
    except InputError:
        found = _kind(path)
        form = "" if found else file_form(path)
        if form:
            raise InputError(path, f"is a trace ({form}), not a {kind}",
                             expected=f"a {kind}, or astrarium run --trace {path}") from None
        other = None if found else _other(path)
        if other is not None and other[0] != f"a {kind}":
            raise InputError(path, f"is {other[0]}, not a {kind}", expected=other[1]) from None
        if found in (None, kind):
            raise
        raise InputError(path, f"is a {found}, not a {kind}",
                         expected=f"a {kind}, or astrarium {KINDS[str(found)][1]} {path}") from None


def _other(path: str) -> tuple[str, str] | None:
    """What a file is that no verb reads as it stands, and what to write."""
    from astrarium.config.other_files import other_file

    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return other_file(file.read(1 << 14).decode("utf-8", "replace"), path)


def _kind(path: str) -> str | None:
    """The kind of a YAML file; None for none of them."""
    from astrarium.config.yamlfile import parse_yaml, read_text

    try:
        keys = parse_yaml(read_text(path), path).data
    except InputError:
        return None
    return next((kind for kind, (some, _) in KINDS.items() if isinstance(keys, dict) and some & keys.keys()), None)
