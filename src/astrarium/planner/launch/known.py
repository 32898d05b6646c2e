"""Tables of the keys that no prediction uses: keys/*.toml, one a framework.

`harmless`: reason -> names (`log_*`: all that begin so). `simpler`: name -> what is predicted in its place. `refused`:
name -> what to do. A value that is off (false, 0, none, nothing) is the same as no key.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct

__all__ = ["Known", "is_off", "known_keys"]


class Known(Struct, frozen=True):
    """The tables of a framework; `families` are beginnings of harmless names."""

    harmless: frozenset[str]
    families: tuple[str, ...]
    simpler: Mapping[str, str]
    refused: Mapping[str, str]

    def is_harmless(self, name: str) -> bool:
        """Whether a key changes neither time nor memory of a step."""
        return name in self.harmless or (name not in self.simpler and name not in self.refused
                                         and name.startswith(self.families))

    def names(self) -> tuple[str, ...]:
        """All that are there by name."""
        return (*self.harmless, *self.simpler, *self.refused)


@cache
def known_keys(*tables: str) -> Known:
    """The tables of these names together; of one key the first table's entry counts."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    harmless, simpler, refused = set[str](), dict[str, str](), dict[str, str]()
    families: list[str] = []
    for table in tables:
        data = toml.loads(files("astrarium.planner.launch").joinpath(f"keys/{table}.toml").read_text(encoding="utf-8"))
        before = harmless | simpler.keys() | refused.keys()
        names = [name for text in data["harmless"].values() for name in text.split()]
        families += [name[:-1] for name in names if name.endswith("*")]
        harmless |= {name for name in names if not name.endswith("*")} - before
        simpler |= {name: text for name, text in data["simpler"].items() if name not in before}
        refused |= {name: text for name, text in data["refused"].items() if name not in before}
    return Known(frozenset(harmless), tuple(families), simpler, refused)


def is_off(value: Any) -> bool:
    """Whether a value says that its key does nothing."""
    return value in (None, False, 0, "", "0", "0.0") or value in ([], {}) or \
        str(value).lower() in ("none", "null", "false", "[]", "{}")
