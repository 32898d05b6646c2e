"""From a measured pass of inference on one GPU (a prefill, or a decode step) to the design that predicts it."""

from __future__ import annotations

from typing import Any

from astrarium import catalog, config
from astrarium.compute.kernels.power import CHIPS
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.validate.designs import Candidate, device_compute
from astrarium.validate.models import model_of
from astrarium.validate.rows import Row
from astrarium.validate.systems import network_of, system_of

__all__ = ["pass_of"]

ANY = "any"     # attention: the kernel that PyTorch takes by itself
BACKENDS = {"cudnn": "torch", "flash": "torch/2.11/flash"}


def pass_of(row: Row) -> Candidate:
    """The design of a pass of eager PyTorch in a CUDA graph, with one product for queries, keys and values and one for
    gate and up, and logits of the last position alone. Raises InputError for a phase or a length that is missing, and
    for a model or a device that the catalog lacks."""
    assumed, phase = list[str](), row.text("phase")
    length = {"decode": "context", "prefill": "tokens"}.get(phase)
    if length is None:
        raise InputError("phase", f"{phase[:60]!r} is not known", expected="decode or prefill")
    tokens = row.count(length)
    if tokens is None:
        raise InputError(length, "is not stated", expected=f"tokens of a sequence of {phase}")
    system = system_of(row)
    model = model_of(row, assumed)
    if row.text("positions"):
        model["positions"] = row.text("positions")
        assumed.append(f"positions: {model['positions']}, as in the program of {row.source}")
    work: dict[str, Any] = {"source": "inference", "model": model, "phase": phase, "operators": "eager",
                            "fused_weights": True, "batch": row.count("batch_size") or 1,
                            **({"context": tokens} if phase == "decode" else {"prompt": tokens})}
    device = catalog.device(system.device)
    compute = device_compute(system, device)
    kernel, own = row.text("attention") or ANY, row.text("attention") in ("", ANY)
    if compute.get("device") in CHIPS:      # a pass is measured many times in a row
        compute |= {"clock": "sustained", "framework": BACKENDS.get(kernel, "torch")}
        own = own or kernel in BACKENDS
    design = config.decode(Design, {
        "workload": work, "network": network_of(row, system, 1, assumed), "memory": dict(device.memory),
        "compute": compute, "collective": {"model": "measured"}})
    if not own:
        assumed.append(f"attention: PyTorch's choice, in place of {row.text('attention')}")
    return Candidate(design, "none", system.device, tuple(assumed), own)
