"""`network.packets.transport`: how packets wait for each other, and what senders do about it."""

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
    """A transport of packets: what a plug-in registers as `transport.<name>`. Its fields are its knobs.

    `link_buffers`: links have buffers of their own (`network.packets.buffer`) for which packets wait, so that circles
    of them may deadlock.
    """

    variants: ClassVar[Variants | None] = Kind("transport")
    tag_key: ClassVar[str] = "name"
    shorthand: ClassVar[Shorthand | None] = Shorthand(lambda name: {"name": name},
                                                      "the name of a transport (`astrarium list transport`)")
    link_buffers: ClassVar[bool] = False

    def plan(self) -> TransportRules | None:
        """What the engine is told; None: credits. A transport's own."""
        raise PluginError(f"transport plug-in {self.tag}", "has no plan()")


class Credits(Transport, frozen=True):
    """A packet starts where the buffer at the link's end has room for it."""

    tag: ClassVar[str] = "credits"
    link_buffers: ClassVar[bool] = True

    def plan(self) -> None:
        """Nothing: `network.packets.buffer` says all."""
        return
