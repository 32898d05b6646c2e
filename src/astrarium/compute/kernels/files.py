"""Fitted device models as files: npz of plain arrays and one JSON header, read without pickle."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec.structs import asdict, replace

from astrarium.compute.kernels.forest import Forest
from astrarium.compute.kernels.machine import Machine
from astrarium.compute.kernels.model import DeviceModel, FamilyModel
from astrarium.compute.kernels.power import TYPICAL
from astrarium.compute.kernels.rowwise import Rowwise
from astrarium.errors import InputError, nearest

__all__ = ["from_sheet", "generic", "load", "named", "names", "read", "with_torch", "write"]

FORMAT = 1
GENERIC = "generic.npz"
LIKE: Mapping[str, str] = MappingProxyType({"h200_sxm": "h100_sxm"})
"""Device -> whose rows of PyTorch it takes: of a chip with its multiprocessors and clocks, and another memory."""
OTHER_NAMES: Mapping[str, str] = MappingProxyType({
    "a100_sxm_40gb": "a100_sxm", "a100_sxm_80gb": "a100_sxm", "b200": "b200_sxm", "b300": "b300_sxm",
    "rtx_pro_6000": "rtx_pro_6000_server"})
"""Rows of the catalog whose measured kernels have the name of their tables."""


def _folder() -> Any:
    return files("astrarium.catalog").joinpath("kernels")


def names() -> tuple[str, ...]:
    """Devices whose fitted model is shipped."""
    return tuple(sorted(entry.name[:-4] for entry in _folder().iterdir()
                        if entry.name.endswith(".npz") and entry.name != GENERIC))


@functools.cache
def generic() -> DeviceModel:
    """The model fitted on the devices of all tables together; its machine is H100's."""
    with as_file(_folder().joinpath(GENERIC)) as path:
        return read(path)


def from_sheet(machine: Machine, part: float = TYPICAL) -> DeviceModel:
    """A device without a table: its data sheet, of whose peaks its power leaves `part` (`power.sustained`), and the
    efficiency that the measured devices have in common."""
    shared = generic()
    parts = {key: replace(each, casts={name: machine.streaming_like(replace(shared.machine, stream=curve)).stream
                                       for name, curve in each.casts.items()}) for key, each in shared.parts.items()}
    return replace(shared, machine=machine.streaming_like(shared.machine), parts=MappingProxyType(parts),
                   sustained=part)


def named(device: str) -> str | None:
    """The name of a device's shipped model, by that name or the catalog's; None: there is none."""
    name = OTHER_NAMES.get(device, device)
    return name if name in names() else None


@functools.cache
def load(device: str) -> DeviceModel:
    """The shipped model of a device, by its own name or the catalog's; a file is read once per process. Raises
    InputError with the nearest match."""
    name, known = named(device), names()
    if name is None:
        raise InputError("compute.device", f"{device[:60]!r} has no measured model",
                         expected="one of " + ", ".join(known), did_you_mean=nearest(device, known))
    with as_file(_folder().joinpath(f"{name}.npz")) as path:
        model = read(path)
    return with_torch(model, LIKE.get(model.machine.name, ""))


def with_torch(model: DeviceModel, other: str = "") -> DeviceModel:
    """A device's model with what PyTorch's rows say of it, or of an `other` device that it is like."""
    name = model.machine.name
    source = _folder().joinpath("torch", f"{other or name}.npz")
    if not source.is_file():
        return model
    with as_file(source) as path:
        torch = read(path)
    parts = {key: replace(part, device=other) for key, part in torch.parts.items()}
    curves = {op: replace(torch.machine, stream=curve) for op, curve in torch.streams.items()}
    slower = torch.machine.bandwidth / model.machine.bandwidth
    return replace(model, parts=MappingProxyType({**model.parts, **parts}),
                   version=f"{model.version}; {torch.version}", streams=MappingProxyType(
                       {op: model.machine.streaming_like(curve).stream for op, curve in curves.items()}),
                   rowwise={op: each._replace(beyond=each.beyond * slower) for op, each in torch.rowwise.items()},
                   seen=frozenset() if other else torch.seen)


def read(path: Path) -> DeviceModel:
    """The model of a file that `write` made. Raises InputError where it is none."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays: Mapping[str, Any] = {name: stored[name] for name in stored.files}
        header = json.loads(bytes(arrays["header"]).decode())
    except (OSError, ValueError, KeyError) as error:
        raise InputError(str(path), f"is no kernel model: {error}") from None
    if header.get("format") != FORMAT:
        raise InputError(str(path), f"has format {header.get('format')!r}", expected=str(FORMAT))
    parts = {}
    for name, part in header["parts"].items():
        forest = Forest(arrays[f"{name}/feature"], arrays[f"{name}/threshold"],
                        arrays[f"{name}/leaf"], part["bias"])
        parts[name] = FamilyModel(forest, tuple(part["variants"]), part["default"], part["rows"],
                                  MappingProxyType(part["error"]),
                                  {name: tuple(each) for name, each in part.get("caches", {}).items()},
                                  part.get("counts", {}),
                                  {name: tuple(map(tuple, each)) for name, each in part.get("sites", {}).items()},
                                  {name: tuple(map(tuple, each)) for name, each in part.get("casts", {}).items()})
    return DeviceModel(Machine(**header["machine"]), MappingProxyType(parts), header["version"], header["notice"],
                       streams={op: tuple(map(tuple, curve)) for op, curve in header.get("streams", {}).items()},
                       rowwise={op: Rowwise(*each) for op, each in header.get("rowwise", {}).items()},
                       seen=frozenset(arrays["seen"].tolist() if "seen" in arrays else ()))


def write(model: DeviceModel, path: Path) -> None:
    """Write a model; equal models make equal bytes."""
    header: dict[str, Any] = {"format": FORMAT, "version": model.version, "notice": model.notice,
                              "machine": asdict(model.machine), "parts": {}, "streams": dict(model.streams),
                              **({"rowwise": dict(model.rowwise)} if model.rowwise else {})}
    arrays: dict[str, Any] = {}
    for name, part in model.parts.items():
        header["parts"][name] = {"bias": part.forest.bias, "variants": part.variants, "default": part.default,
                                 "rows": part.rows, "error": dict(part.error), "caches": dict(part.caches),
                                 "counts": dict(part.counts), "sites": dict(part.sites), "casts": dict(part.casts)}
        arrays[f"{name}/feature"] = part.forest.feature
        arrays[f"{name}/threshold"] = part.forest.threshold
        arrays[f"{name}/leaf"] = part.forest.leaf
    if model.seen:
        arrays["seen"] = np.array(sorted(model.seen), np.uint32)
    arrays["header"] = np.frombuffer(json.dumps(header, sort_keys=True).encode(), np.uint8)
    np.savez_compressed(path, **arrays)
