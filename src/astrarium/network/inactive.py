"""Parts of a network section that its back end does not take. They stay in the design for the back ends that do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from astrarium.config import Config
from astrarium.config.base import is_default
from astrarium.config.spec import specs
from astrarium.engine.media import find_medium
from astrarium.network.packets import Packets

__all__ = ["idle_fields", "inactive"]

TAKEN: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "library": ("library",), "switching": ("contention", "packets"), "packets": ("packets",), "ns3": ("ns3",)})
"""Field -> the back ends that take it."""
WAYS = ("ecmp", "routes")       # of a fabric


def idle_fields(name: str) -> list[str]:
    """The fields of a network section that the back end of this name does not take."""
    found = [field for field, takers in TAKEN.items() if name not in takers]
    found += ["options"] * (find_medium(name) is not None or name == "ns3")
    return [*found, *WAYS * (name == "closed_form")]


def inactive(network: Config, name: str, packets: Packets) -> Iterator[str]:
    """Sentences about fields of a network section that a design sets and the back end of this name, or the transport of
    its section `packets`, does not take."""
    idle = idle_fields(name)
    told = [spec.name for spec in specs(type(network))
            if spec.name in idle and not is_default(getattr(network, spec.name), spec)]
    if told:
        yield f"inactive with backend: {name}: {', '.join(told)}"
    if name == "packets" and packets.buffer and not packets.transport.link_buffers:
        yield f"inactive with transport: {packets.transport.tag}: packets.buffer, the buffer of each link with credits"
