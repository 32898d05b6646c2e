"""The abstract `Model`: a family and its sizes. Text stands for one too: a name of the catalog, or a config.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from astrarium import catalog
from astrarium.config import Config, Knob, to_plain
from astrarium.config.named import Shorthand
from astrarium.config.spec import Variants
from astrarium.errors import InputError, nearest
from astrarium.registry import Kind

__all__ = ["Model"]


_TAKES = "a name of the catalog (`astrarium list models`), a path ending in .json (Hugging Face)"


def _is_file(text: str) -> bool:
    return text.endswith(".json")


def _plain(text: str) -> Mapping[str, Any]:
    """The model that a name of the catalog, or a Hugging Face config.json, describes."""
    if _is_file(text):
        from astrarium.workload.model.hugging_face import read_config

        return to_plain(read_config(text))
    rows = catalog.load("models")
    if text not in rows:
        raise InputError("", f"{text[:60]!r} is not a model of the catalog", expected=_TAKES,
                         did_you_mean=nearest(text, rows))
    found: Mapping[str, Any] = rows[text]["model"]
    unsaid = found["family"] == "decoder" and "seq" not in found     # sources that do not say how long samples were
    return {**found, "seq": None} if unsaid else found


class Model(Config, frozen=True, kw_only=True):
    """What is computed: a family of models and its sizes."""

    variants: ClassVar[Variants | None] = Kind("model")
    tag_key: ClassVar[str] = "family"
    shorthand: ClassVar[Shorthand | None] = Shorthand(_plain, _TAKES, _is_file)
    notes: Annotated[Sequence[str], Knob("What the import of a Hugging Face config.json assumed, and what it left out."
                                         )] = ()
