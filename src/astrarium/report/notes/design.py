"""What a design takes no time for, and what its stack was not made for, in words."""

from __future__ import annotations

from collections.abc import Iterator

from astrarium import catalog
from astrarium.design import Design
from astrarium.stack import layouts_of

__all__ = ["design_notes"]


def design_notes(design: Design) -> Iterator[str]:
    """A host without time, and uses of a stack beside its own: training on an engine that serves, inference with
    factors of training, a layout that it does not have."""
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
