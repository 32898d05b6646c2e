"""Software stacks: settings of a catalog row that apply where a design says nothing.

    stack: megatron-lm
    workload: {source: transformer, model: megatron-22b, tp: 8, global_batch: 4}

A row holds, per section, fields of its class; `several_hosts` holds those that apply only where the network has more
than one dim, `devices` and `models` those of devices and of models by name (with `compute_model`: under this compute
model alone). What the design states itself stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from astrarium import catalog
from astrarium.config.base import Config, is_default
from astrarium.config.named import LIKE, merged
from astrarium.config.spec import specs

__all__ = ["SECTIONS", "Stacks", "layouts_of", "placed", "settings_of", "settled", "short_factor", "with_settings"]

MEASURED = "measured"
SECTIONS = ("workload", "compute", "collective", "system")
Plain = Mapping[str, Any]


class Stacks:
    """The legal names: rows of the catalog."""

    def names(self) -> tuple[str, ...]:
        return tuple(catalog.load("stacks"))

    def __contains__(self, name: object) -> bool:
        return name in catalog.load("stacks")


def settings_of(name: str, several_hosts: bool, device: str | None = None, model: str | None = None,
                compute: str = MEASURED) -> Plain:
    """Section -> settings of a stack, for a device and a model of these names, and a compute model. Raises KeyError for
    a stack that is none."""
    row = catalog.load("stacks")[name]
    found: dict[str, Plain] = {section: row.get(section, {}) for section in SECTIONS}
    own = [each for kind, given in (("devices", device), ("models", model)) for each in row.get(kind, ())
           if given in each["names"] and each.get("compute_model", compute) == compute]
    for table in ([row.get("several_hosts", {})] if several_hosts else []) + own:
        for section in SECTIONS:
            found[section] = merged(found[section], table.get(section, {}))
    return found


def with_settings(plain: Plain, classes: Mapping[str, Any]) -> Plain:
    """A design's plain data with the settings of its `stack` under what it says; `classes`: section -> (config class of
    its plain data, or None where that cannot be told). A name that is no stack changes nothing here."""
    name = plain.get("stack")
    if not isinstance(name, str) or name not in Stacks():
        return plain
    found = dict(plain)
    settings_for = settings_of(name, _several(plain.get("network")), _named(plain.get("compute"), "device"),
                               _named(plain.get("workload"), "model"), _compute_model(plain.get("compute")))
    for section, settings in settings_for.items():
        given = plain.get(section, {})
        kind = classes[section](given)
        if kind is None or not settings:
            continue
        unknown = any(not _places(key, kind) for key in settings)
        if "policy" in catalog.load("stacks")[name] and section == "workload" and unknown:
            continue        # fields of inference; training has other ones by some of their names
        found[section] = _under(placed(settings, kind), given)
    return found


def placed(settings: Plain, kind: Any) -> Plain:
    """The settings of a section that a class has, each where it has it."""
    found: Plain = {}
    for key, value in settings.items():
        for place in _places(key, kind):
            found = merged(found, {place: {key: value}} if place else {key: value})
    return found


def _places(key: str, kind: Any) -> list[str]:
    """Where a class has a field: its own (""), else sections of its own by their names (pools of disaggregation)."""
    fields = specs(kind)
    if any(spec.name == key for spec in fields):
        return [""]
    return [spec.name for spec in fields if isinstance(spec.type, type) and issubclass(spec.type, Config)
            and any(each.name == key for each in specs(spec.type))]


def settled(name: str, sections: Mapping[str, Config]) -> bool:
    """Whether a setting of a stack, of those that these sections have, differs from the section's default: a design
    whose settings were never applied has none that does."""
    own = {section: settings for section, settings in settings_of(name, False).items() if settings}
    said = [(sections[section], spec) for section, settings in own.items() for spec in specs(type(sections[section]))
            if spec.name in settings]
    return not said or any(not is_default(getattr(config, spec.name), spec) for config, spec in said)


def layouts_of(name: str | None) -> Mapping[str, Sequence[Any]]:
    """Part of a layout -> the values that a stack has, where it has not all: stages of ZeRO, and those of its column
    `layout`."""
    row = catalog.load("stacks").get(name or "", {})
    return {**{part: values for part, values in row.get("runs", {}).items() if part == "zero"}, **row.get("layout", {})}


def short_factor(name: str) -> float:
    """The factor on products of a stack that was fitted at the clock of short runs; 1: it has none, or sets clocks."""
    row = catalog.load("stacks")[name]
    if any("clock" in each.get("compute", {}) for each in (row, *row.get("devices", ()))):
        return 1.0
    return float(row.get("compute", {}).get("in_situ", {}).get("gemm", 1.0))


def _several(network: Any) -> bool:
    return isinstance(network, Mapping) and len(network.get("dims") or ()) > 1


def _named(section: Any, key: str) -> str | None:
    """The device that a design's compute names, or the model that its workload names."""
    found = (section.get(key) or section.get(LIKE)) if isinstance(section, Mapping) else section
    if isinstance(found, Mapping):
        found = found.get(LIKE)
    return found if isinstance(found, str) else None


def _compute_model(section: Any) -> str:
    """The model that a design's compute states; a device has its measured kernels."""
    stated = section.get("model") if isinstance(section, Mapping) else None
    return stated if isinstance(stated, str) else MEASURED


def _under(settings: Plain, given: Any) -> Any:
    """`given` (a mapping, or the name of a section) with `settings` where it says nothing."""
    if isinstance(given, str):
        return {LIKE: given, **settings}
    return merged(settings, given)
