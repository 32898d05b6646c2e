"""What reading a design assumed or dropped, and what its back end does not see, printed by commands that read one."""

from __future__ import annotations

from typing import Any

from astrarium.cli.arguments import note

__all__ = ["say_imports"]


def say_imports(design: Any) -> None:
    """A remark to stderr for every note of every model, network and number format in a configuration."""
    from astrarium.report.notes.imports import import_notes

    for text in import_notes(design):
        note(text)
