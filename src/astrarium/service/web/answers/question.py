"""A question of a view."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

__all__ = ["OPERATION", "Ask"]

OPERATION = "astrarium.service.web.answers.ask:ask"
"""What workers answer it with."""


class Ask(Struct, frozen=True, forbid_unknown_fields=True):
    """`view`: what is asked for. `design` with changes `sets` (path -> text), for a comparison also `other` with
    `other_sets`; or a `file`; the name to `save` a text under; or the `request` of a job, which is a `verb`."""

    view: Literal["choices", "design", "answer", "details", "compare", "kind", "file", "text", "job"]
    design: str = ""
    sets: dict[str, str] = {}
    other: str = ""
    other_sets: dict[str, str] = {}
    file: str = ""
    save: str = ""
    verb: Literal["plan", "search", "serve", "validate", "calibrate"] = "plan"
    request: dict[str, Any] = {}
