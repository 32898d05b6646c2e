"""Fitted device models as files: npz of plain arrays and one JSON header, read without pickle."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.resources import as_file, files
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from astrarium.compute.kernels.forest import Forest
from astrarium.compute.kernels.machine import Machine
from astrarium.compute.kernels.model import DeviceModel, Part
from astrarium.errors import InputError, nearest

__all__ = ["load", "names", "read", "write"]

FORMAT = 1


def _folder() -> Any:
    return files("astrarium.catalog").joinpath("kernels")


def names() -> tuple[str, ...]:
    """Devices whose fitted model is shipped."""
    return tuple(sorted(entry.name[:-4] for entry in _folder().iterdir() if entry.name.endswith(".npz")))


@functools.cache
def load(device: str) -> DeviceModel:
    """The shipped model of a device; a file is read once per process. Raises InputError with the nearest match."""
    known = names()
    if device not in known:
        raise InputError("compute.device", f"{device[:60]!r} has no measured model",
                         expected="one of " + ", ".join(known), did_you_mean=nearest(device, known))
    with as_file(_folder().joinpath(f"{device}.npz")) as path:
        return read(path)


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
        parts[name] = Part(forest, tuple(part["variants"]), part["default"], part["rows"],
                           MappingProxyType(part["error"]))
    return DeviceModel(Machine(**header["machine"]), MappingProxyType(parts), header["version"], header["notice"])


def write(model: DeviceModel, path: Path) -> None:
    """Write a model; equal models make equal bytes."""
    header: dict[str, Any] = {"format": FORMAT, "version": model.version, "notice": model.notice,
                              "machine": asdict(model.machine), "parts": {}}
    arrays: dict[str, Any] = {}
    for name, part in model.parts.items():
        header["parts"][name] = {"bias": part.forest.bias, "variants": part.variants, "default": part.default,
                                 "rows": part.rows, "error": dict(part.error)}
        arrays[f"{name}/feature"] = part.forest.feature
        arrays[f"{name}/threshold"] = part.forest.threshold
        arrays[f"{name}/leaf"] = part.forest.leaf
    arrays["header"] = np.frombuffer(json.dumps(header, sort_keys=True).encode(), np.uint8)
    np.savez_compressed(path, **arrays)
