"""From a measured training step to the design that predicts it, and what the row left open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from astrarium import catalog, config
from astrarium.compute.config import near
from astrarium.compute.kernels import load
from astrarium.design import Design
from astrarium.errors import InputError, nearest
from astrarium.stack import Stacks
from astrarium.units import Bandwidth, Bytes
from astrarium.validate.models import model_of
from astrarium.validate.room import least
from astrarium.validate.rows import Row
from astrarium.validate.systems import System, network_of, system_of

__all__ = ["NO_STACK", "Candidate", "candidates", "device_compute", "known_stack", "stack_of"]

ZERO: Mapping[str, int] = MappingProxyType({"": 0, "0": 0, "1": 1, "2": 2, "3": 3, "dist-opt": 1, "fsdp": 3,
                                            "hsdp": 3, "hsdp/fsdp": 3, "zero-3": 3, "zero-1": 1, "zero-2": 2})
RECOMPUTE: Mapping[str, tuple[str, bool]] = MappingProxyType({
    "": ("none", False), "none": ("none", False), "full": ("full", False), "selective": ("selective", False),
    "selective+seqpar": ("selective", True), "seqpar": ("none", True), "full+seqpar": ("full", True)})
FORMATS = ("bf16", "fp16", "fp8", "fp4")     # products; fp16 is as fast as bf16 on all devices here
STACKS: tuple[tuple[str, str], ...] = (
    (r"nanotron", "nanotron"), (r"nemo[^0-9]{0,3}2[34]\b", "nemo-24"),
    (r"nemo|dgxc|mlperf|nvidia", "nemo"), (r"fsdp|torchtitan", "fsdp"),
    (r"megascale", "megascale"), (r"korthikanti", "megatron-lm-3"), (r"megatron|vtrain|narayanan", "megatron-lm"))
NO_STACK = "none"
MOST_TRIED = 6
AGAIN = ("none", "selective", "full")       # what a row that does not state recomputation may have had, fastest first


class Candidate(Struct, frozen=True):
    """A design for a row. `assumed`: what the row does not state; `stated`: model, parallelism, batch and device
    are."""

    design: Design
    stack: str
    device: str
    assumed: tuple[str, ...]
    stated: bool


def stack_of(row: Row) -> str | None:
    """The software stack of a row: its column `stack`, or the one that its source (or case) names."""
    if row.text("stack"):
        return row.text("stack")
    if "megascale" in row.source.lower() and row.case.lower().startswith("megatron"):
        return "megatron-lm"
    words = row.source.lower()
    return next((stack for pattern, stack in STACKS if re.search(pattern, words)), None)


def known_stack(name: str) -> str:
    """The name of a stack, or `none`. Raises InputError for another name."""
    if name != NO_STACK and name not in Stacks():
        raise InputError("--stack", f"{name[:60]!r} is not known", expected=f"a stack of the catalog, or {NO_STACK}",
                         did_you_mean=nearest(name, Stacks().names()))
    return name


def candidates(row: Row) -> list[Candidate]:
    """The designs that a row may mean: one, or several where it does not state the micro-batch (the fastest that fits
    is meant). Raises InputError where the row states too little, or something that no model here covers."""
    assumed: list[str] = []
    system = system_of(row)
    stack = stack_of(row)
    if stack is None:
        stack = "megatron-lm"
        assumed.append(f"stack: {stack}")
    axes = _axes(row, assumed)
    batch, stated = _batch(row, axes, assumed)
    work = {"source": "transformer", "model": model_of(row, assumed), "global_batch": batch, **axes,
            **_training(row, stack, assumed)}
    network = network_of(row, system, row.count("n_gpus") or 1, assumed)
    found = list[Candidate]()
    for more, said in _open(row, work):
        kinds = [work["recompute"]] if row.text("recompute") else AGAIN
        tried = [_design({**work, **more, "recompute": kind}, network, system, stack) for kind in kinds]
        number = least(tried) if len(tried) > 1 else 0
        again = [] if row.text("recompute") else [f"recompute: {kinds[number]}, the least that fits"]
        found.append(Candidate(tried[number], stack, system.device, (*assumed, *again, *said), stated))
    return found


def _axes(row: Row, assumed: list[str]) -> dict[str, int]:
    npus = row.count("n_gpus")
    if npus is None:
        raise InputError("n_gpus", "is not stated", expected="how many GPUs ran")
    axes = {axis: row.count(axis) for axis in ("tp", "pp", "dp", "cp", "ep")}
    if axes["tp"] is None and axes["pp"] is None and axes["dp"] is None:
        raise InputError("tp", "no parallelism is stated", expected="tp, pp, dp")
    found = {axis: value or 1 for axis, value in axes.items()}
    others = found["tp"] * found["pp"] * found["cp"]
    if axes["dp"] is None:
        found["dp"] = max(1, npus // others)
        assumed.append(f"dp: {found['dp']}, what is left of {npus} GPUs")
    if others * found["dp"] != npus:
        raise InputError("n_gpus", f"tp * pp * dp * cp is {others * found['dp']}", expected=f"{npus}")
    return found


def _batch(row: Row, axes: Mapping[str, int], assumed: list[str]) -> tuple[int, bool]:
    if batch := row.count("gbs"):
        return batch, True
    batch = axes["dp"] * (row.count("mbs") or 1)
    assumed.append(f"batch: {batch} samples, {row.count('mbs') or 1} a replica")
    return batch, False


def _training(row: Row, stack: str, assumed: list[str]) -> dict[str, Any]:
    """Sequence, recomputation, ZeRO, formats, rank order."""
    recompute, zero = row.text("recompute").lower(), row.text("zero").lower()
    if recompute not in RECOMPUTE:
        raise InputError("recompute", f"{recompute[:60]!r} is not known", expected="one of " + ", ".join(RECOMPUTE))
    if zero not in ZERO:
        raise InputError("zero", f"{zero[:60]!r} is not known", expected="one of " + ", ".join(ZERO))
    stage = ZERO[zero]
    if stage == 2 and (row.count("pp") or 1) > 1:     # else gradients would be reduced once per micro-batch
        stage = 1
        assumed.append("zero: gradients of a pipeline are reduced once per step, as under zero 1")
    found: dict[str, Any] = {"recompute": RECOMPUTE[recompute][0], "zero": stage}
    if RECOMPUTE[recompute][1]:
        found["tp_sequence"] = True
    elif (row.count("tp") or 1) > 1:
        settings = catalog.load("stacks").get(stack, {}).get("workload", {})
        assumed.append(f"sequence parallelism: {'on' if settings.get('tp_sequence') else 'off'}, by the stack")
    formats = row.text("precision").lower() or "bf16"
    if formats not in FORMATS:
        raise InputError("precision", f"{formats[:60]!r} is not known", expected="one of " + ", ".join(FORMATS))
    if formats in ("fp8", "fp4"):
        found["precision"] = {"products": formats}
    if row.text("states"):      # everything in one format, without a copy of the weights for the optimizer
        one = row.text("states")
        found |= {"precision": {"weights": one, "activations": one, "gradients": one, "moments": one, "master": None},
                  "clip": False}
    if (held := row.count("held_MiB")) and stack.startswith("pytorch"):
        usual = Bytes(catalog.load("stacks")[stack]["workload"]["overhead"])
        found["overhead"] = f"{int(usual) + held * 2**20} B"
        assumed.append(f"memory: {held} MiB of the measuring program besides, as of all steps of its source")
    if not row.text("precision"):
        assumed.append("precision: bf16")
    if row.count("fused_qkv"):
        found["software"] = {"fused_qkv": True}
    if row.text("order"):
        found["order"] = row.text("order").lower()
    if row.count("seq"):
        found["seq"] = row.count("seq")
    else:
        assumed.append("seq: the model's")
    return found


def _open(row: Row, work: Mapping[str, Any]) -> list[tuple[dict[str, Any], list[str]]]:
    """What the row leaves open of the schedule: (settings, what is then assumed) of each possibility."""
    replica, said = work["global_batch"] // work["dp"], list[str]()
    vp, mbs = row.count("vp"), row.count("mbs")
    more: dict[str, Any] = {}
    if vp and vp > 1 and work["pp"] > 1:
        more = {"schedule": "interleaved", "virtual_stages": vp}
    elif vp is None and work["pp"] > 1:
        said.append("vp: 1")
    if mbs:
        return [({**more, "micro_batch": mbs}, said)]
    sizes = [size for size in (1 << power for power in range(MOST_TRIED)) if replica and replica % size == 0]
    return [({**more, "micro_batch": size}, [*said, f"micro-batch: {size}, the fastest that fits"])
            for size in sizes or [1]]


def _design(work: Mapping[str, Any], network: Mapping[str, Any], system: System, stack: str) -> Design:
    device = catalog.device(system.device)
    plain = {**({} if stack == NO_STACK else {"stack": stack}), "workload": work, "network": network,
             "compute": device_compute(system, device), "memory": dict(device.memory),
             "collective": {"model": "measured"}}
    return config.decode(Design, plain)


def device_compute(system: System, device: catalog.Device) -> dict[str, Any]:
    """Measured kernels of the device; of one whose memory differs from theirs (A100 with 40 GB), or that has none, its
    data sheet and what measured devices share; without that, the roofline."""
    name = system.kernels
    if name and near(load(name).machine.bandwidth, float(Bandwidth(device.memory["bandwidth"]))):
        return {"model": "measured", "device": name}
    if "units" in device.row:
        narrow = {f"{each}_peak": rate for each, rate in device.row["peaks"].items() if each in ("fp8", "fp4", "int8")}
        return {"model": "analytic", "units": device.row["units"], **device.compute, **narrow}
    return {"model": "roofline", **device.compute}
