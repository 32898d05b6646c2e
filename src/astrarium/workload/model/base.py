"""The abstract `Model`: a family and its sizes. Text stands for one too: a name of the catalog, or a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from astrarium.config import Config, to_plain
from astrarium.config.spec import Shorthand, Variants
from astrarium.errors import InputError, nearest
from astrarium.registry import Kind

__all__ = ["AnyModel", "Model"]


class _NameOrFile:
    """A name of the catalog, or the path of a Hugging Face config.json."""

    def plain(self, text: str) -> Mapping[str, Any]:
        if self.is_file(text):
            from astrarium.workload.model.hugging_face import read_config

            return to_plain(read_config(text))
        from astrarium import catalog

        rows = catalog.load("models")
        if text not in rows:
            raise InputError("", f"{text[:60]!r} is not a model of the catalog", expected=self.takes(),
                             did_you_mean=nearest(text, rows))
        found: Mapping[str, Any] = rows[text]["model"]
        return found

    def is_file(self, text: str) -> bool:
        return text.endswith(".json")

    def takes(self) -> str:
        return "a name of the catalog (`astrarium list models`), a path ending in .json (Hugging Face)"


class Model(Config, frozen=True):
    """What is computed: a family of models and its sizes."""

    variants: ClassVar[Variants | None] = Kind("model")
    tag_key: ClassVar[str] = "family"
    shorthand: ClassVar[Shorthand | None] = _NameOrFile()


if TYPE_CHECKING:

    class AnyModel:
        """A field that takes a Model or the text that stands for one, and reads as a Model."""

        def __get__(self, obj: object, owner: object = None) -> Model: ...
        def __set__(self, obj: object, value: str | Model) -> None: ...
else:
    AnyModel = Model
