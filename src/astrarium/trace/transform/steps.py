"""Steps by name: one line per kind of step, and a chain of them from files to files."""

from __future__ import annotations

import importlib
import os
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from msgspec import Struct

from astrarium.config import Config, ConfigError, assignment, decode
from astrarium.config.spec import specs
from astrarium.errors import InputError, nearest
from astrarium.trace.groups import Groups, read_groups
from astrarium.trace.read import read_traces
from astrarium.trace.transform.files import Files, Job
from astrarium.trace.transform.merge import Along, merge

__all__ = ["STEPS", "StepKind", "apply", "load_job", "parse_step", "transform"]


class StepKind(Struct, frozen=True):
    """Where the settings and the function are (module, class, function), and one sentence."""

    module: str
    settings: str
    function: str
    sentence: str


_HERE = "astrarium.trace.transform"
STEPS: Mapping[str, StepKind] = MappingProxyType({
    "cut_ranks": StepKind(f"{_HERE}.cut", "CutRanks", "cut_ranks", "Some ranks, with the communication among them."),
    "cut_steps": StepKind(f"{_HERE}.cut", "CutSteps", "cut_steps", "Some steps of training of a profiled trace."),
    "drop": StepKind(f"{_HERE}.cut", "Drop", "drop", "Leave nodes out; orders through them stay."),
    "rename": StepKind(f"{_HERE}.values", "Rename", "rename", "Other names."),
    "strip": StepKind(f"{_HERE}.values", "Strip", "strip", "Take attributes away, and inputs and outputs."),
    "scale_durations": StepKind(f"{_HERE}.values", "ScaleDurations", "scale_durations", "Durations times a factor."),
    "scale_sizes": StepKind(f"{_HERE}.values", "ScaleSizes", "scale_sizes", "Bytes times a factor."),
    "scale_ops": StepKind(f"{_HERE}.values", "ScaleOps", "scale_ops", "Flop times a factor."),
    "coalesce": StepKind(f"{_HERE}.coalesce", "Coalesce", "coalesce", "Runs of tiny nodes become one."),
    "roofline": StepKind(f"{_HERE}.values", "Roofline", "roofline", "Measured kernels become flop and bytes."),
    "grow_dp": StepKind(f"{_HERE}.retarget", "GrowDp", "grow_dp", "More data-parallel replicas."),
    "grow_tp": StepKind(f"{_HERE}.retarget", "GrowTp", "grow_tp", "More ranks divide every layer."),
})
"""Name of a step -> what makes it."""

_SEPARATOR = ":"


def parse_step(text: str) -> Config:
    """`name` or `name:key=value,key=value` as settings; lists as [a, b]. InputError names what is unknown."""
    name, _, rest = text.partition(_SEPARATOR)
    name = name.strip().replace("-", "_")
    if name not in STEPS:
        raise InputError("--step", f"{name[:40]!r}", expected="one of " + ", ".join(STEPS),
                         did_you_mean=nearest(name, STEPS))
    settings = settings_of(name)
    takes = {spec.name: spec.type for spec in specs(settings)}
    found: dict[str, object] = {}
    for part in _parts(rest):
        key, _, value = part.partition("=")
        found[key.strip()] = _value(takes.get(key.strip()), part, value)
    try:
        return decode(settings, found)
    except ConfigError as error:
        raise ConfigError([problem.under(name) for problem in error.problems]) from None


def _value(kind: Any, part: str, text: str) -> object:
    """Text and lists of text unchanged (a pattern such as *gemm* is not YAML), all else as YAML."""
    if typing.get_origin(kind) is Sequence and typing.get_args(kind) == (str,):
        return [each.strip() for each in text.strip().removeprefix("[").removesuffix("]").split(",") if each.strip()]
    if kind is str or str in typing.get_args(kind):
        return text
    return assignment(part)[1]


def settings_of(name: str) -> type[Config]:
    """The settings class of a step."""
    return cast("type[Config]", getattr(importlib.import_module(STEPS[name].module), STEPS[name].settings))


def _parts(text: str) -> list[str]:
    """Cut at commas outside brackets that begin a further `key=`."""
    parts: list[str] = []
    for piece in filter(None, text.split(",")):
        inside = parts and parts[-1].count("[") > parts[-1].count("]")
        if parts and (inside or "=" not in piece):
            parts[-1] += "," + piece
        else:
            parts.append(piece)
    return parts


def apply(job: Job, steps: Iterable[Config]) -> Job:
    """The job after one step after the other."""
    by_class = {kind.settings: kind for kind in STEPS.values()}
    for step in steps:
        kind = by_class[type(step).__name__]
        made: Callable[[Job, Config], Job] = getattr(importlib.import_module(kind.module), kind.function)
        job = made(job, step)
    return job


def load_job(workload: str | os.PathLike[str], groups: str | os.PathLike[str] | None = None) -> Job:
    """Traces of a prefix, or of one file, with the groups of `groups` or of PREFIX.groups.json where that is there."""
    where = os.fspath(workload)
    traces = read_traces(where)
    beside = where.removesuffix(".*.et") + ".groups.json"
    found: Groups = {}
    if groups is not None or os.path.isfile(beside):
        found = read_groups(groups if groups is not None else beside)
    return Job(Files(traces.ranks, traces.file_bytes), found, traces)


def transform(inputs: Sequence[Job], steps: Iterable[Config | str] = (), *, along: Along = "ranks") -> Job:
    """Merges `inputs` where there are several, then takes the steps in order.

    >>> from astrarium.trace.transform import load_job, transform, write_job
    >>> write_job(transform([load_job("w")], ["cut_ranks:ranks=0-3", "scale_durations:by=0.5,kind=gpu"]), "out")
    """
    return apply(merge(inputs, along), (parse_step(step) if isinstance(step, str) else step for step in steps))
