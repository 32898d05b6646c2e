"""What a training framework was told, one key after the other: used, harmless, predicted as something simpler, refused
or not known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from astrarium.errors import InputError, nearest
from astrarium.planner.launch.known import Known, is_off

__all__ = ["Given", "Launch", "without"]

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Launch(Struct, frozen=True):
    """A job as somebody runs it. `layout`: parts of a Layout but dp, which follows from the NPUs. `model`: fields of a
    Decoder that the arguments say; `missing`: those that they leave out. `settings`: fields of a
    Transformer; `fields`: those that count for this job alone, not for other layouts. `npus`: where the arguments say
    so. `replica_batch`: samples of one replica, where they say that. `shards`: ranks out of
    dp that ZeRO shards over, `copies` of what it shards, where they say either. `fixed`: part of a layout -> values
    that the framework has. `degrees`: NPUs that the degrees of all axes multiply to, where they say all.
    `assumed`, `ignored`: for the output.
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
    fields: Mapping[str, Any] = NOTHING
    shards: int | None = None
    copies: int = 1
    degrees: int | None = None
    fixed: Mapping[str, Sequence[Any]] = NOTHING
    missing: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


class Given(Struct):
    """Keys with their values, each taken once. `where`: the file. `known`: tables of the keys that no prediction
    uses. `printed`: a framework printed all keys that it has, and those that are off do not matter."""

    where: str
    values: Mapping[str, Any]
    known: Known
    printed: bool = False
    _taken: set[str] = field(default_factory=set)
    assumed: list[str] = field(default_factory=list)

    def fault(self, name: str, message: str, expected: str | None = None) -> InputError:
        """An error about an argument."""
        return InputError(f"{self.where}: {name[:80]}", message, expected=expected)

    def has(self, name: str) -> bool:
        """Whether the argument is there."""
        return self.values.get(name) is not None

    def raw(self, name: str) -> Any:
        """The raw value, None if it is left out."""
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

    def whole(self, name: str, otherwise: int, least: int = 1) -> int:
        """A whole number, `otherwise` where it is left out."""
        found = self.number(name, otherwise, least)
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

    def flags(self, *names: str) -> bool:
        """Whether one of several switches is on."""
        found = [self.flag(name) for name in names]
        return any(found)

    def choice(self, name: str, known: Mapping[str, Any], otherwise: str) -> Any:
        """The meaning of an argument's text. Raises InputError for an unknown one."""
        value = self.raw(name)
        text = otherwise if value in (None, False) else str(value).lower()
        if text not in known:
            raise self.fault(name, f"{str(value)[:60]!r} is not predicted", "one of " + ", ".join(known))
        return known[text]

    def refuse(self, name: str, usual: Sequence[Any], why: str) -> None:
        """InputError where an argument has another value than the `usual` ones."""
        value = self.raw(name)
        if not is_off(value) and str(value).lower() not in [str(each).lower() for each in usual]:
            raise self.fault(name, f"{str(value)[:60]!r} is not predicted: {why}",
                             ("one of " + ", ".join(map(str, usual)) if usual else "no such key") +
                             f", or --ignore {name[:80]} to predict as without it")

    def rest(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(assumed: sentences; ignored: harmless keys) of the keys that no prediction used. Raises InputError for a
        refused key and for an unknown one."""
        rest = {name: value for name, value in self.values.items() if name not in self._taken}
        left = [name for name, value in rest.items() if not is_off(value)]
        for name in left:
            if name in self.known.refused:
                raise self.fault(name, f"{str(self.values[name])[:60]!r} is not predicted: {self.known.refused[name]}",
                                 f"no such key, or --ignore {name[:80]} to predict as without it")
        unknown = [name for name in (left if self.printed else [name for name in rest if self.has(name)])
                   if name not in self.known.names() and not self.known.is_harmless(name)]
        if unknown:
            raise self._unknown(unknown)
        said = [f"{self.known.simpler[name]} ({name})" for name in left if name in self.known.simpler]
        return (*self.assumed, *said), tuple(name for name in left if name not in self.known.simpler)

    def names(self) -> tuple[str, ...]:
        """All keys that are known: of the tables, and those that were asked for."""
        return (*self.known.names(), *self._taken)

    def _unknown(self, names: Sequence[str]) -> InputError:
        """An error that names the first unknown keys, each with the nearest known one, and what to do."""
        near = [nearest(name[:80], self.names()) for name in names[:4]]
        ignore = f"--ignore {','.join(name[:40] for name in names[:4])} where neither time nor memory depends on it"
        if len(names) == 1:
            return InputError(f"{self.where}: {names[0][:80]}", "is not known here", expected=ignore,
                              did_you_mean=near[0])
        shown = [name[:40] + (f" (did you mean {each}?)" if each else "") for name, each in zip(names, near)]
        shown += [f"and {len(names) - 4} others"] if len(names) > 4 else []
        return InputError(self.where, f"keys that are not known here: {', '.join(shown)}", expected=ignore)


def without(values: Mapping[str, Any], ignore: Sequence[str], where: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """(the keys that count; those that `ignore` takes out, by name or pattern). Raises InputError for a pattern that
    matches no key."""
    for pattern in ignore:
        if not any(fnmatchcase(name, pattern) for name in values):
            raise InputError(f"--ignore {pattern[:80]}", f"is not a key of {where}", expected="a key of that file",
                             did_you_mean=nearest(pattern[:80], values))
    left_out = tuple(name for name in values if any(fnmatchcase(name, pattern) for pattern in ignore))
    return {name: value for name, value in values.items() if name not in left_out}, left_out
