"""`network.packets.transport`: the rules by which packets wait and senders react."""

from __future__ import annotations

from typing import ClassVar

from astrarium.config import Config
from astrarium.config.named import Shorthand
from astrarium.config.spec import Variants
from astrarium.engine.plan import TransportRules
from astrarium.errors import PluginError
from astrarium.registry import Kind

__all__ = ["Credits", "Transport"]


class Transport(Config, frozen=True):
    """A transport of packets. A plug-in registers it as `transport.<name>`; its fields are its knobs.

    `link_buffers`: each link has a buffer (`network.packets.buffer`), and packets wait for room in it. `pauses`: the
    end of a link may pause it (PFC). Either way cycles of links may deadlock, and `network.packets.deadlock` holds.
    """

    variants: ClassVar[Variants | None] = Kind("transport")
    tag_key: ClassVar[str] = "name"
    shorthand: ClassVar[Shorthand | None] = Shorthand(lambda name: {"name": name},
                                                      "the name of a transport (`astrarium list transport`)")
    link_buffers: ClassVar[bool] = False
    pauses: ClassVar[bool] = False

    def plan(self) -> TransportRules | None:
        """The rules for the engine; None: credits. Every transport defines it."""
        raise PluginError(f"transport plug-in {self.tag}", "has no plan()")


class Credits(Transport, frozen=True):
    """A packet starts when the buffer at the link's end has room for it."""

    tag: ClassVar[str] = "credits"
    link_buffers: ClassVar[bool] = True

    def plan(self) -> None:
        """Nothing: `network.packets.buffer` says all."""
        return
