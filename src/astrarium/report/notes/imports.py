"""What reading a design assumed or dropped, and what its back end does not see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astrarium.network.config import Network
    from astrarium.workload.inference.formats import Formats

__all__ = ["import_notes"]


def import_notes(design: Any) -> Iterator[str]:
    """The notes of every model, network and number format in a configuration."""
    for path, text in dict.fromkeys((*_notes(design, ""), *_formats(design), *_experts(design))):
        yield f"{path}: {text}" if path else text


def _notes(value: Any, path: str) -> Iterator[tuple[str, str]]:
    from astrarium.compute.measured import Measured
    from astrarium.config import Config
    from astrarium.config.spec import join, specs
    from astrarium.design import Design
    from astrarium.fabric.config import Fabric
    from astrarium.network.config import Network
    from astrarium.network.inactive import inactive
    from astrarium.network.planned import assumed
    from astrarium.network.unseen import unseen
    from astrarium.workload.jobs import Jobs
    from astrarium.workload.model.base import Model

    if isinstance(value, Fabric):
        from astrarium.fabric.built import fabric_notes

        yield from ((path, text) for text in fabric_notes(value))
    elif isinstance(value, Model):
        yield from ((path, text) for text in value.notes)
    elif isinstance(value, Config):
        if isinstance(value, Network):
            yield from ((f"{path}.changes[{place}].npu", f"read as system.changes, npu: {change.npu}; write it there")
                        for place, change in enumerate(value.changes) if change.npu is not None)
        if isinstance(value, Network):
            yield from ((path, text) for text in inactive(value, value.backend, value.packets))
        if isinstance(value, Network) and value.fabric is not None:
            yield from ((path, text) for text in assumed(value))
        if isinstance(value, Network) and value.backend == "packets" and value.packets.transport.tag == "roce":
            yield from ((join(path, "packets.transport"), text) for text in _roce(value))
        if isinstance(value, Design):
            jobs = len(value.workload.jobs) if isinstance(value.workload, Jobs) else 1
            yield from (("network.backend", text) for text in unseen(value.network, jobs))
        if isinstance(value, Measured):
            yield from ((path, text) for text in value.notes())
        for spec in specs(type(value)):
            yield from _notes(getattr(value, spec.name), join(path, spec.name))


def _roce(network: Network) -> Iterator[str]:
    from astrarium.network.roce_network import roce_notes

    return roce_notes(network)


def _formats(design: Any) -> Iterator[tuple[str, str]]:
    """What formats are the checkpoint's, and what kernels of quantised weights assume, where the compute model times
    kernels by their formats."""
    workload: Any = getattr(design, "workload", None)
    formats = getattr(workload, "formats", None)
    if formats is None:
        return
    from astrarium.compute.measured import Measured
    from astrarium.compute.timed import Predicted
    from astrarium.workload.inference.formats import Formats, assumed, resolved, taken

    if isinstance(formats, Formats):
        checkpoint = workload.model.checkpoint
        yield from (("workload.formats", text) for text in taken(formats, checkpoint))
        used = resolved(formats, checkpoint)
        if isinstance(design.compute, Predicted):
            yield from (("workload.formats", text) for text in assumed(used))
            if isinstance(design.compute, Measured):
                classes = _classes(workload.model, used)
                yield from (("compute", text) for text in design.compute.stand_ins(classes))


def _experts(design: Any) -> Iterator[tuple[str, str]]:
    """What inference assumes of experts that are on several ranks."""
    work: Any = getattr(design, "workload", None)
    moe = getattr(getattr(work, "model", None), "moe", None)
    if moe is None or work.tag not in ("inference", "disaggregated"):
        return
    from astrarium.workload.routing import Routing

    layouts = (work,) if work.tag == "inference" else (work.prefill, work.decode)
    if any(each.ep > 1 for each in layouts) and work.routing == Routing() and moe.imbalance == 1:
        yield "workload.routing", "all experts get equally many tokens (to change: skew, loads)"


def _classes(model: Any, formats: Formats) -> Iterator[tuple[str, str]]:
    """Classes of kernels of a model's layers, and the precisions of their rows."""
    from astrarium.compute.kernels.machine import WEIGHT_ONLY
    from astrarium.workload.inference.formats import numbers_of

    numbers = numbers_of(formats)
    yield "gemm", WEIGHT_ONLY.get((numbers.product, numbers.weights), numbers.product)
    if getattr(model, "moe", None) is not None:
        yield "experts", WEIGHT_ONLY.get((numbers.experts, numbers.expert_weights), numbers.experts)
    yield from ((family, numbers.cached) for family in
                (("mla",) if getattr(model, "mla", None) is not None else ("attention", "decode")))
