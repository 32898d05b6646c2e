"""The files of the folder."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from astrarium.errors import InputError
from astrarium.report.tables.table import Table
from astrarium.service.answer import Answer
from astrarium.service.context import Context
from astrarium.service.operations.fields import Changes, command, sets
from astrarium.units import format_bytes

__all__ = ["Files", "Save", "Show", "files", "save", "show"]

SHOWN = 100_000         # characters of a file
TEXTS = (".yaml", ".yml", ".json", ".csv", ".txt", ".toml")


class Files(Struct, frozen=True, forbid_unknown_fields=True):
    """List the files of the folder: designs, spaces, serving files and studies that other tools may name."""


def files(request: Files, context: Context) -> Answer:  # noqa: ARG001
    """See `Files`."""
    found = list(context.folder.files())
    rows = [(each.name, format_bytes(each.bytes)) for each in found]
    return Answer(title="files", tables=(Table(f"{len(found)} files", "<>", rows),),
                  found={"files": [each.name for each in found]})


class Show(Struct, frozen=True, forbid_unknown_fields=True):
    """Show a file of the folder as text; a design with `changes` as these leave it. With `whole`, a design with every
    field that it leaves at its default, which are the paths that `changes` and the knobs of a search may name."""

    name: Annotated[str, Meta(description="A file of the folder.", examples=["design.yaml"])]
    whole: Annotated[bool, Meta(description="Show a design with all defaults.")] = False
    changes: Changes = {}


def show(request: Show, context: Context) -> Answer:
    """See `Show`."""
    path = context.folder.path(request.name, "name")
    if request.whole or request.changes:
        from astrarium.config import dumps

        text = dumps(context.design(request.name, request.changes), defaults=request.whole)
    else:
        text = _text(path, request.name)
    return Answer(title=request.name, tables=(Table("", "<", [(line,) for line in text.splitlines()]),), result=text,
                  command=command("show", request.name, sets(request.changes)) if request.whole else "")


def _text(path: str, name: str) -> str:
    if not name.endswith(TEXTS):
        raise InputError("name", f"{name!r} is not a text", expected="a file that ends in " + ", ".join(TEXTS))
    with open(path, encoding="utf-8", errors="replace") as stream:
        text = stream.read(SHOWN + 1)
    return text if len(text) <= SHOWN else text[:SHOWN] + "\n… (longer than is shown)"


class Save(Struct, frozen=True, forbid_unknown_fields=True):
    """Save a text file in the folder: a design, a space, a serving file (YAML), a Hugging Face config.json, a log. A
    design with changes is better saved by `run`, which checks it."""

    name: Annotated[str, Meta(description="Name of the file.", examples=["space.yaml"])]
    text: Annotated[str, Meta(description="The whole content.")]


def save(request: Save, context: Context) -> Answer:
    """See `Save`."""
    if not request.name.endswith(TEXTS):
        raise InputError("name", f"{request.name!r} has another ending",
                         expected="a name that ends in " + ", ".join(TEXTS))
    name = context.folder.write(request.name, request.text, "name")
    return Answer(title=name, tables=(Table(f"saved {name}", "", ()),), files=(name,))
