"""The knobs of a design: fields that a slider or a list can turn, with the values that it offers."""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from astrarium.config import Config
from astrarium.config.coerce import members
from astrarium.config.spec import FieldSpec, join, specs
from astrarium.design import Design
from astrarium.registry import built_ins
from astrarium.units import Quantity
from astrarium.workload.transformer import Transformer

__all__ = ["Shown", "knobs_in", "knobs_of", "usual"]

FINE = [2 ** (step / 4) for step in range(-16, 17)]     # times the present value: a sixteenth to sixteen times
AXES = ("dp", "tp", "pp", "cp", "sp", "ep", "npus", "virtual_stages", "micro_batch")
USUAL = ("workload.tp", "workload.pp", "workload.dp", "workload.cp", "workload.ep", "workload.micro_batch",
         "workload.global_batch", "workload.seq", "workload.zero", "workload.recompute", "workload.schedule",
         "workload.virtual_stages", "compute.peak", "memory.capacity", "memory.bandwidth", "requests.rate",
         "requests.users", "requests.prompt", "requests.output", "policy.max_batch", "policy.max_tokens",
         "policy.schedule", "policy.memory_share")
OF_DIM = ("npus", "bandwidth", "bandwidth_per_npu", "latency")
KEPT = ("compat", "stack", "fold")        # of the design itself; other values are other answers to the same question


class Shown(Struct, frozen=True):
    """One knob: `values` are texts, of which `at` is the present one; `kind`: range, list, text or follows."""

    path: str
    section: str
    help: str
    value: str
    kind: str
    values: tuple[str, ...] = ()
    at: int = 0


@functools.lru_cache(64)
def knobs_of(design: Design) -> tuple[Shown, ...]:
    """All knobs, in the order of the design's fields. The data-parallel axis of a training step follows the others."""
    follows = isinstance(design.workload, Transformer)
    return tuple(replace(knob, kind="follows") if follows and knob.path == "workload.dp" else knob
                 for knob in knobs_in(design))


@functools.lru_cache(64)
def knobs_in(config: Config) -> tuple[Shown, ...]:
    """All knobs of a configuration, in the order of its fields."""
    return tuple(_inside(config, "", ""))


def usual(knob: Shown) -> bool:
    """Whether people turn it first."""
    last = knob.path.rpartition(".")[2]
    return knob.path in USUAL or (knob.path.startswith("network.dims[") and last in OF_DIM)


def _inside(config: Config, path: str, section: str) -> Iterator[Shown]:
    for spec in specs(type(config)):
        here, value = join(path, spec.name), getattr(config, spec.name)
        if spec.knob.file or (not path and spec.name in KEPT):
            continue
        if isinstance(value, Config):
            yield from _inside(value, here, section or spec.name)
        elif isinstance(value, tuple):
            for place, each in enumerate(value[:16]):
                if isinstance(each, Config):
                    yield from _inside(each, f"{here}[{place}]", section or spec.name)
        else:
            found = _knob(spec, here, value, section or "design")
            if found is not None:
                yield found


def _knob(spec: FieldSpec, path: str, value: object, section: str) -> Shown | None:
    """The knob of one field; None for text, and for a number that is not given."""
    options = members(spec.type)
    literal = next((each for each in options if typing.get_origin(each) is typing.Literal), None)
    if isinstance(value, bool) or (value is None and bool in options):
        return _listed(path, section, spec, value, ["true", "false", *(["null"] if type(None) in options else [])])
    if literal is not None:
        names = [str(each) for each in typing.get_args(literal)]
        return _listed(path, section, spec, value, names + (["null"] if type(None) in options else []))
    if isinstance(value, str):
        names = list(_built_in(spec))
        return _listed(path, section, spec, value, names) if value in names else None
    if isinstance(value, Quantity):
        values = _sizes(str(value))
    elif isinstance(value, int):
        values = _counts(spec, value)
    elif isinstance(value, float):
        values = _numbers(value)
    else:
        return None
    text = str(value) if isinstance(value, (Quantity, int)) else f"{value:.12g}"
    if text not in values:
        return Shown(path, section, spec.knob.help, text, "text")
    return Shown(path, section, spec.knob.help, text, "range", tuple(values), values.index(text))


def _built_in(spec: FieldSpec) -> Sequence[str]:
    """Names that a field takes, without plug-ins."""
    choices = spec.knob.choices
    if isinstance(choices, tuple):
        return choices
    kind = getattr(choices, "kind", "")
    return tuple(built_ins(kind)) if kind else ()


def _listed(path: str, section: str, spec: FieldSpec, value: object, names: list[str]) -> Shown:
    text = {True: "true", False: "false", None: "null"}.get(value, str(value)) if isinstance(
        value, (bool, type(None))) else str(value)
    names = names if text in names else [text, *names]
    return Shown(path, section, spec.knob.help, text, "list", tuple(names), names.index(text))


def _sizes(text: str) -> list[str]:
    """Quantities from a sixteenth to sixteen times of one, in its unit."""
    number, _, unit = text.partition(" ")
    try:
        base = float(number)
    except ValueError:
        return []
    if not base:
        return []
    return list(dict.fromkeys(text if factor == 1 else f"{_three(base * factor)} {unit}" for factor in FINE))


def _counts(spec: FieldSpec, value: int) -> list[str]:
    """Whole numbers: all of a short range, powers of two of an axis, else from a sixteenth to eight times of one."""
    least, below = int(spec.knob.ge or 0), spec.knob.lt
    if below is not None and below <= 16:
        return [str(each) for each in range(least, int(below))]
    if spec.name in AXES:
        found = {1 << power for power in range(11)} | {value}
    elif value <= 8:
        found = set(range(least, 9))
    else:
        found = {max(least, round(value * 2.0 ** power)) for power in range(-4, 4)} | {value}
        found |= {value // 4 * part for part in (3, 5, 6)} if value % 4 == 0 else set()
    return [str(each) for each in sorted(found)]


def _numbers(value: float) -> list[str]:
    if 0 <= value <= 1:
        found = {round(step / 20, 2) for step in range(1, 21)} | {value}
        return [f"{each:.12g}" for each in sorted(found)]
    return list(dict.fromkeys(f"{value:.12g}" if factor == 1 else _three(value * factor) for factor in FINE))


def _three(number: float) -> str:
    """Three digits, without an exponent where that is short."""
    text = f"{number:.3g}"
    return text if "e" not in text else f"{float(text):.12g}"
