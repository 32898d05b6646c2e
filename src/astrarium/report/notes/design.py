"""What a design takes no time for, and what its stack was not made for, in words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from astrarium import catalog
from astrarium.collective.config import OPERATIONS
from astrarium.design import Design
from astrarium.stack import layouts_of

__all__ = ["design_notes"]

_PROTOCOL = re.compile(rb"<algo\b[^>]*\bproto=[\"'](\w{1,12})")


def design_notes(design: Design) -> Iterator[str]:
    """Protocols of custom collectives, recomputation without effect, a host without time, and uses of a stack beside
    its own: training on an engine that serves, inference with factors of training, a layout that it does not have."""
    yield from _protocols(design)
    yield from _recompute(design.workload)
    name, work = design.stack, design.workload
    if name is None and not hasattr(work, "operators"):
        return      # before modules that other workloads do without
    from astrarium.workload.inference.config import Inference
    from astrarium.workload.inference.disaggregated import Disaggregated
    from astrarium.workload.transformer import Transformer

    if isinstance(work, Inference | Disaggregated) and work.operators != "fused" and not work.host_launch:
        yield "workload.host_launch is 0 ns: the host takes no time, as in CUDA graphs"
    if name is None:
        return
    serves = "policy" in catalog.load("stacks")[name]
    if isinstance(work, Inference | Disaggregated):
        if not serves and work.operators == "fused":
            yield f"stack {name} trains: what it says of kernels is of training steps"
        return
    if not isinstance(work, Transformer):
        return
    if serves:
        yield f"stack {name} serves, and does not train: only what it says of kernels and collectives counts"
    for part, values in layouts_of(name).items():
        if (stated := getattr(work, part)) not in values:
            yield f"workload.{part} is {stated}; stack {name} has {' or '.join(map(str, values))}"


def _recompute(work: object) -> Iterator[str]:
    """Selective recomputation that changes no block."""
    if getattr(work, "recompute", None) != "selective":
        return
    from astrarium.workload.training import recompute_of  # rarely needed
    from astrarium.workload.transformer import Transformer

    if isinstance(work, Transformer) and recompute_of(work) == "none":
        yield ("workload.recompute: selective has no effect: no block keeps what it could compute again (flash "
               "attention is one kernel; attention: unfused keeps what is between its operators, and "
               "recompute_modules names other parts)")


def _protocols(design: Design) -> Iterator[str]:
    """Protocols of MSCCL files, which no medium models (NCCL's src/device/prims_ll.h: 4 of 8 bytes are a flag;
    prims_ll128.h: 8 of 128)."""
    sends = {"LL": "2 bytes for 1", "LL128": "16 bytes for 15"}
    for path in dict.fromkeys(getattr(design.collective.custom, name) for name in OPERATIONS):
        if path is None or not path.endswith(".xml") or not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            found = _PROTOCOL.search(file.read(1 << 16))
        protocol = "" if found is None else found[1].decode()
        if protocol in sends:
            yield (f"{os.path.basename(path)} says proto {protocol}, which has no effect here: messages have the "
                   f"network's bandwidth and latency, and their own bytes ({protocol} sends {sends[protocol]})")
