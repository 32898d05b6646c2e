"""What a page is about, for its header: model, layout, device, network, stack, and the design to download."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from astrarium import catalog
from astrarium.report.tables.about import device_name
from astrarium.units import format_bytes, format_flop_rate, format_rate
from astrarium.workload.transformer import Transformer

if TYPE_CHECKING:
    from astrarium.design import Design
    from astrarium.network.config import Network

__all__ = ["About", "about", "about_all", "about_base", "download", "subject"]

AXES = ("tp", "sp", "cp", "ep", "pp", "dp")


class About(Struct, frozen=True):
    """What the header of a page shows below its title.

    Args:
        facts: name -> text, such as `model` and `network`.
        files: name of a file -> its text, each to download.
    """

    facts: Mapping[str, str] = MappingProxyType({})
    files: Mapping[str, str] = MappingProxyType({})


def about(design: Design, name: str = "design.yaml", **more: str) -> About:
    """The facts of a design, then `more` of them, and the design as a file of this name."""
    return About({**dict(_facts(design)), **more}, download(design, name))


def download(design: Design, name: str = "design.yaml") -> dict[str, str]:
    """The design as the text of a file; it reads back equal."""
    from astrarium.config import dumps

    return {name: dumps(design)}


def about_all(designs: Mapping[str, Design], files: Mapping[str, str] = MappingProxyType({})) -> About:
    """The facts that several designs (by name) have in common, and each as a file to download, after other `files`."""
    every = [dict(_facts(design)) for design in designs.values()]
    common = {name: text for name, text in (every[0] if every else {}).items()
              if all(each.get(name) == text for each in every)}
    return About(common, {**files, **{name: text for stem, design in designs.items()
                                      for name, text in download(design, f"{stem}.yaml").items()}})


def about_base(base: Any, name: str, **more: str) -> About:
    """Of what a search started from: a design, a serving design, or nothing that a file can hold."""
    from astrarium.design import Design

    return about(base, name, **more) if isinstance(base, Design) else About(more)


def subject(base: Any) -> str:
    """Model, count and device of a design for a title, such as `llama3-8b on 16 x h100_sxm`; empty for any other base
    (a serving file, or none)."""
    from astrarium.design import Design

    if not isinstance(base, Design):
        return ""
    facts = dict(_facts(base))
    return f"{facts.get('model') or facts['workload']} on {facts['device'].partition(', ')[0]}"


def _facts(design: Design) -> Iterator[tuple[str, str]]:
    work = design.workload
    model = getattr(work, "model", None)
    yield ("model", _model(model)) if model is not None else ("workload", _work(work))
    layout = [f"{axis} {getattr(work, axis)}" for axis in AXES if getattr(work, axis, 1) not in (1, None)]
    if isinstance(work, Transformer):
        layout += [f"mb {work.micro_batch}", *([f"zero {work.zero}"] if work.zero else [])]
    if hasattr(work, "tp"):
        yield "layout", ", ".join(layout) or "one NPU"
    yield "device", _device(design)
    yield "network", network_words(design.network)
    yield "stack", design.stack or "none"


def _model(model: Any) -> str:
    """Name of the catalog, or family and size."""
    from astrarium.config import to_plain

    plain = to_plain(model)
    named = next((name for name, row in catalog.load("models").items() if dict(row["model"]) == plain), None)
    if named is not None:
        return named
    sizes = [f"{getattr(model, field):,} {words}" for field, words in (("layers", "layers"), ("d_model", "wide"))
             if isinstance(getattr(model, field, None), int)]
    return ", ".join([str(model.tag), *sizes])


def _work(work: Any) -> str:
    """Source of a workload without a model, and what identifies it."""
    parts = [str(getattr(work, field)) for field in ("op", "payload", "path") if getattr(work, field, None) is not None]
    return " ".join([str(work.tag), *parts])


def _device(design: Design) -> str:
    compute, memory = design.compute, design.memory
    parts = [device_name(compute, memory) or f"{compute.tag} model"]
    peak = getattr(compute, "peak", None)
    parts += [] if peak is None else [format_flop_rate(float(peak))]
    parts += [] if memory.capacity is None else [format_bytes(float(memory.capacity))]
    parts += [] if memory.bandwidth is None else [format_rate(float(memory.bandwidth))]
    kinds = f"; {len(design.npu_types)} more types of NPU" if design.npu_types else ""
    return f"{design.network.npus:,} x {', '.join(parts)}{kinds}"


def network_words(network: Network) -> str:
    """Dims, innermost first, with the sum over the links of an NPU in each; and the network model."""
    if network.fabric is not None:
        return f"a fabric of {network.npus:,} NPUs; {network.backend}"
    dims = [f"{dim.tag} of {dim.npus:,} at {format_rate(dim.npu_bandwidth)} per NPU" for dim in network.flat]
    return f"{' x '.join(dims)}; {network.backend}"
