"""What a design is, in a line: workload, its layout, and the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from astrarium import catalog
from astrarium.config import decode
from astrarium.design import Design, npu_types
from astrarium.units import Bandwidth, Bytes, FlopRate, format_bytes
from astrarium.workload.model.base import Model

__all__ = ["about", "device_name", "machine_words", "workload_words"]

AXES = ("tp", "sp", "cp", "pp", "dp", "ep", "zero")     # of a layout, as their fields are called


def about(design: Design) -> str:
    """`gpt3-175b, tp 8, pp 8 on 64 NPUs of 312 TFLOP/s (switch 8 x switch 8)`."""
    return f"{workload_words(design.workload)} on {machine_words(design)}"


def workload_words(work: Any) -> str:
    """The model and its layout, or what else runs."""
    if work.tag == "disaggregated":
        return f"{_name(work.model)}, prefill {_layout(work.prefill)}, decode {_layout(work.decode)}"
    if isinstance(getattr(work, "model", None), Model):
        return f"{_name(work.model)}, {_layout(work)}"
    if work.tag == "collective":
        return f"{work.op} of {format_bytes(work.payload)}"
    if work.tag == "jobs":
        return f"{len(work.jobs)} jobs"
    return str({"trace": "traces", "micro": getattr(work, "pattern", "")}.get(work.tag, work.tag))


def device_name(compute: Any, memory: Any) -> str:
    """The device that a compute model names; without a name the catalog's row with this peak, memory and, if the model
    has units, these units; empty if there is none."""
    if getattr(compute, "device", None) is not None:
        return str(compute.device)
    peak, units = getattr(compute, "peak", None), getattr(compute, "units", None)
    if peak is None or memory.capacity is None or memory.bandwidth is None:
        return ""
    own = [float(peak), float(memory.capacity), float(memory.bandwidth)]
    found = [name for name, row in catalog.load("devices").items() if units in (None, row.get("units")) and own == [
        float(FlopRate(row["peak"])), float(Bytes(row["capacity"])), float(Bandwidth(row["bandwidth"]))]]
    return found[0] if len(found) == 1 else ""


def machine_words(design: Design) -> str:
    """NPUs, the device or the peak of each, and the network."""
    network = design.network
    both = npu_types(design)[1]
    types = [compute for compute, _ in both]
    devices = list(dict.fromkeys(device_name(*each) for each in both))
    peaks = list(dict.fromkeys(str(getattr(each, "peak", None) or "") for each in types))
    npus = f"{network.npus:,} NPUs" if network.npus != 1 else "1 NPU"
    if all(devices):
        npus = f"{network.npus:,} x {' and '.join(devices)}"
    elif all(peaks):
        npus += f" of {' and '.join(peaks)}"
    if network.fabric is not None:
        return f"{npus} ({network.fabric.title})"
    return f"{npus} ({' x '.join(f'{dim.tag} {dim.npus:,}' for dim in network.flat)})"


def _layout(work: Any) -> str:
    """Degrees of parallelism above 1; `tp 8 sp`: with Megatron's sequence parallelism."""
    said = [f"{axis} {degree:,}" + (" sp" if axis == "tp" and getattr(work, "tp_sequence", False) else "")
            for axis in AXES if (degree := int(getattr(work, axis, 0))) > (axis != "zero")]
    return ", ".join(said) or "1 rank"


def _name(model: Model) -> str:
    """The name of the catalog's row that is this model, or its family and size."""
    layers, width = (getattr(model, name, None) for name in ("layers", "d_model"))
    for name, row in catalog.load("models").items():
        plain: Mapping[str, Any] = row["model"]
        if plain.get("family") == model.tag and (plain.get("layers"), plain.get("d_model")) == (layers, width) and \
                decode(Model, plain) == model:
            return name
    return f"{model.tag} of {layers} layers" if layers else model.tag
