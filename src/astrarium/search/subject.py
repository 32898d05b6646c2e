"""What a search evaluates: designs that are simulated, or serving designs that answer a stream of requests; and the
files of both. No other part of a search tells them apart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec import Struct

from astrarium.config import parse_yaml, replace
from astrarium.config.yamlfile import read_text
from astrarium.cost import FIGURES, Figure
from astrarium.cost.interval import Interval, interval_of
from astrarium.design import Design, dump_design, load_design
from astrarium.engine import Record
from astrarium.lower.kept import Kept
from astrarium.search.goal import NAMED
from astrarium.simulate import prepare

__all__ = ["Run", "Subject", "dump_base", "kind_of", "load_base", "subject_of"]

Run = Callable[..., Any]
"""A prepared run. One of a simulation takes the longest makespan (ns) as an argument: see `simulate.Run`."""


class Subject(Struct, frozen=True):
    """`figures` that goals may name; `named`: short names of objectives in papers; `usual`: the objective of a goal
    that names none (empty: it has to). `prepare(design, fold, record, kept)` gives the run of a design; figures measure
    its outcome. `interval`: how far measured values of figures with `of_time` lie from those of a design; None: it has
    none."""

    figures: Mapping[str, Figure]
    named: Collection[str]
    usual: str
    prepare: Callable[[Any, str | None, Record, Kept], Run]
    interval: Callable[[Design], Interval | None]


def _simulated(design: Design, fold: str | None, record: Record, kept: Kept) -> Run:
    return prepare(design, fold=fold, record=record, kept=kept)


def _served(design: Any, fold: str | None, _: Record, __: Kept) -> Run:
    """Each design has its own step times: those of tables depend, within their error, on what was asked before."""
    from astrarium.serving import serve

    chosen = design if fold is None else replace(design, "fold", fold)
    return lambda: serve(chosen, design.requests, design.policy, design.buckets)


SIMULATED = Subject(FIGURES, tuple(NAMED), "makespan", _simulated, interval_of)


def subject_of(base: Design | None) -> Subject:
    """The subject of a space with this base."""
    if base is None or type(base) is Design:
        return SIMULATED
    from astrarium.serving.figures import SERVED
    from astrarium.serving.interval import tpot_interval

    return Subject(SERVED, (), "", _served, tpot_interval)


def kind_of(plain: object) -> type[Design]:
    """The class of a design's plain data: one that has requests is a serving design."""
    if not isinstance(plain, Mapping) or "requests" not in plain:
        return Design
    from astrarium.serving.design import ServingDesign

    return ServingDesign


def load_base(path: str | os.PathLike[str]) -> Design:
    """Read a design file, or a serving file with the design that it names. Raises InputError."""
    name = os.fspath(path)
    if kind_of(parse_yaml(read_text(name), name).data) is Design:
        return load_design(name)
    from astrarium.serving.design import load_serving_design

    return load_serving_design(name)


def dump_base(design: Design, path: str) -> None:
    """Write a design file; of a serving design a serving file, and its design beside it."""
    if type(design) is Design:
        dump_design(design, path)
        return
    from astrarium.serving.design import ServingDesign, dump_serving

    assert isinstance(design, ServingDesign)
    dump_serving(design, path)
