"""Proven optima, from which the report measures distances: values, or files of `astrarium report --certificate`."""

from __future__ import annotations

import gzip
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from spaces import REWARDS, Setup, objective, space

from astrarium import InputError
from astrarium.search.certificate import FORMAT
from astrarium.search.goal import NAMED
from astrarium.search.space import space_plain
from astrarium.search.studyfile import jsonable

PROVED = Path(__file__).parent / "full.optimum.json"
SAME = ("base", "choices", "derived", "variables")      # of the spaces; `where` may leave out what cannot be priced


def read_optima(given: Sequence[str], preset: str) -> Mapping[str, float]:
    """Reward -> the optimum's objective. Raises InputError for what is no optimum of the full stack of System 2."""
    found: dict[str, float] = {}
    for text in given:
        name, mark, value = text.partition("=")
        reward, optimum = (name, _number(text, value)) if mark and name in REWARDS else _certified(text, preset)
        found[reward] = optimum
    return found


def _number(text: str, value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not (math.isfinite(found) and found > 0):
        raise InputError("--optimum", repr(text), expected="a number above 0 after the =")
    return found


def _certified(path: str, preset: str) -> tuple[str, float]:
    try:
        data = Path(path).read_bytes()
        plain = msgspec.json.decode(gzip.decompress(data) if path.endswith(".gz") else data)
        if plain["format"] != FORMAT:
            raise KeyError("format")
        value, measure, theirs = float(plain["best"][-1]), plain["objective"], plain["space"]
    except (OSError, EOFError, KeyError, TypeError, IndexError, ValueError, msgspec.DecodeError) as error:
        raise InputError("--optimum", f"{path} is no certificate ({error})", expected=
                         "a file of astrarium report --certificate, or " + " or ".join(f"{name}=VALUE" for name in
                                                                                       REWARDS)) from None
    for reward in REWARDS:
        setup = Setup("full", reward, preset=preset)
        (meant,) = objective(setup).values()
        if NAMED.get(meant, meant) == measure:
            ours = jsonable(space_plain(space(setup)))
            other = next((key for key in SAME if ours.get(key) != theirs.get(key)), None)
            if other is not None:
                raise InputError("--optimum", f"{path} is about a space with another {other}",
                                 expected="the full stack of System 2 (spaces/full.yaml)")
            return reward, value
    raise InputError("--optimum", f"{path} is about {measure}", expected=" or ".join(REWARDS))
