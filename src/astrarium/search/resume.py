"""Whether a study file may be continued: only with the plan and the inputs of its trials."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from astrarium.errors import InputError
from astrarium.search.inputs import Inputs, differing
from astrarium.search.store import Store

__all__ = ["INPUTS", "refuse_others", "resume"]

INPUTS = "inputs"       # the key of the record in a study file
SHOWN = 60              # characters of a value in a message


def resume(store: Store, described: Mapping[str, str], inputs: Inputs) -> None:
    """Describe a new study file; check that one with trials is of the same plan and inputs. Raises InputError naming
    what differs."""
    known = store.meta()
    if not known or not (store.count or store.given):       # nothing would be mixed
        store.describe({**described, INPUTS: msgspec.json.encode(inputs).decode()})
        return
    new = f"a new study, without these trials: --study {_free(store.path)}"
    if INPUTS not in known:
        raise InputError(store.path, "was made by an Astrarium that recorded neither versions nor files, so that its "
                         "trials may be of other inputs", expected=new)
    for key, value in described.items():
        if known.get(key) != value:
            which = "other" if key.endswith("s") else "another"
            raise InputError(store.path, f"holds a study with {which} {key}{_where(known.get(key, ''), value)}",
                             expected=f"the same command, or {new}")
    refuse_others(store.path, msgspec.json.decode(known[INPUTS]), inputs, new)


def refuse_others(path: str, known: Inputs, now: Inputs, otherwise: str) -> None:
    """Raise InputError where the trials in a study file are of inputs other than `now`."""
    if said := differing(known, now):
        raise InputError(path, f"holds trials of other inputs: {said}", expected=f"these as they were, or {otherwise}")


def _free(path: str) -> str:
    """A name beside a study's that no file has."""
    stem, end = os.path.splitext(path)
    return next(name for number in itertools.count(2) if not os.path.exists(name := f"{stem}.{number}{end}"))


def _where(known: str, now: str) -> str:
    """The first place at which two texts of JSON differ, with both values."""
    try:
        place, before, after = _first(msgspec.json.decode(known), msgspec.json.decode(now), "")
    except msgspec.DecodeError:
        return ""
    except StopIteration:
        return " (the same in another order)"
    named = f"{place}: " if place and not place.startswith("[") else ""
    return f" ({named}{_short(before)} there, {_short(after)} here)"


def _first(one: Any, other: Any, place: str) -> tuple[str, Any, Any]:
    if isinstance(one, dict) and isinstance(other, dict):
        key = next(key for key in (*one, *other) if one.get(key) != other.get(key) or (key in one) != (key in other))
        return _first(one.get(key), other.get(key), f"{place}.{key}" if place else str(key))
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        number = next(number for number in range(len(one)) if one[number] != other[number])
        return _first(one[number], other[number], f"{place}[{number}]")
    return place, one, other


def _short(value: Any) -> str:
    if value in (None, [], {}):
        return "none"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN else text[:SHOWN - 1] + "…"
