"""What a training framework was told, one argument after the other: used, without effect on time, or not known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from astrarium.errors import InputError

__all__ = ["Given", "Launch"]


class Launch(Struct, frozen=True):
    """A job as somebody runs it. `layout`: parts of a Layout but dp, which follows from the NPUs. `model`: fields of a
    Decoder where the arguments say all of them. `settings`: fields of a Transformer. `npus`: where the arguments say
    so. `replica_batch`: samples of one replica, where they say that in place of `global_batch`. `stage_layers` where
    stages are not the usual ones, `shards` where ZeRO shards over so many of dp. `assumed`, `ignored`: for the output.
    """

    framework: str
    layout: Mapping[str, Any]
    model: Mapping[str, Any] | None
    model_name: str | None
    seq: int | None
    global_batch: int | None
    settings: Mapping[str, Any]
    npus: int | None = None
    replica_batch: int | None = None
    stage_layers: tuple[int, ...] | None = None
    shards: int | None = None
    assumed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


class Given(Struct):
    """Arguments by name, each taken once. `where`: the file. `harmless`: patterns of names without effect on time."""

    where: str
    values: Mapping[str, Any]
    harmless: re.Pattern[str]
    _taken: set[str] = field(default_factory=set)
    assumed: list[str] = field(default_factory=list)

    def fault(self, name: str, message: str, expected: str | None = None) -> InputError:
        """An error about an argument."""
        return InputError(f"{self.where}: {name[:80]}", message, expected=expected)

    def has(self, name: str) -> bool:
        """Whether the argument is there."""
        return self.values.get(name) is not None

    def raw(self, name: str) -> Any:
        """The value as it stands, None where it is left out."""
        self._taken.add(name)
        return self.values.get(name)

    def number(self, name: str, otherwise: int | None = None, least: int = 1) -> int | None:
        """A whole number."""
        value = self.raw(name)
        if value is None:
            return otherwise
        text = str(value)
        if isinstance(value, (bool, float, list, dict)) or not re.fullmatch(r"-?[0-9]{1,12}", text) \
                or int(text) < least:
            raise self.fault(name, f"{str(value)[:60]!r} is no whole number of at least {least}")
        return int(text)

    def whole(self, name: str, otherwise: int) -> int:
        """The same with a value where it is left out."""
        found = self.number(name, otherwise)
        return otherwise if found is None else found

    def real(self, name: str, otherwise: float) -> float:
        """A number."""
        value = self.raw(name)
        try:
            return otherwise if value is None else float(value)
        except (TypeError, ValueError):
            raise self.fault(name, f"{str(value)[:60]!r} is no number") from None

    def flag(self, name: str, otherwise: bool = False) -> bool:
        """Whether a switch is on: an argument without a value, or a truth."""
        value = self.raw(name)
        if value is None:
            return otherwise
        if value is True or value is False:
            return value
        if str(value).lower() in ("true", "1", "false", "0"):
            return str(value).lower() in ("true", "1")
        raise self.fault(name, f"{str(value)[:60]!r} is neither true nor false")

    def choice(self, name: str, known: Mapping[str, Any], otherwise: str) -> Any:
        """What the text of an argument stands for. Raises InputError for one that is not known."""
        value = self.raw(name)
        text = otherwise if value is None else str(value).lower()
        if text not in known:
            raise self.fault(name, f"{str(value)[:60]!r} is not predicted", "one of " + ", ".join(known))
        return known[text]

    def refuse(self, name: str, usual: Sequence[Any], why: str) -> None:
        """InputError where an argument has another value than the `usual` ones."""
        value = self.raw(name)
        if value is not None and value not in usual and str(value).lower() not in [str(each).lower() for each in usual]:
            raise self.fault(name, f"{str(value)[:60]!r} is not predicted: {why}",
                             "one of " + ", ".join(map(str, usual)) if usual else "no such argument")

    def rest(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(assumed, ignored): sentences, with arguments that nobody here knows; names without effect on time."""
        left = [name for name, value in self.values.items() if name not in self._taken and value not in (None, False)]
        ignored = [name for name in left if self.harmless.fullmatch(name)]
        unknown = [name[:80] for name in left if not self.harmless.fullmatch(name)]
        said = [f"without effect on time, as they are not known here: {', '.join(unknown)}"] if unknown else []
        return (*self.assumed, *said), tuple(name[:80] for name in ignored)
