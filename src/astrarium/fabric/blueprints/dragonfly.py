"""Dragonfly (Kim, Dally, Scott, Abts, ISCA 2008): groups of routers, all joined, one link between every two groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar

from astrarium.config import Knob, Problem
from astrarium.fabric.blueprints.hosts import host_of, switch_of
from astrarium.fabric.config import Fabric
from astrarium.fabric.make import between, document, instance, link
from astrarium.fabric.schema import Document, Edge

__all__ = ["Dragonfly"]


def _fits(fly: Dragonfly) -> Iterable[Problem]:
    most = fly.routers * fly.global_links + 1
    if fly.groups is not None and not 1 <= fly.groups <= most:
        yield Problem("groups", f"{fly.groups} cannot all be joined by {fly.routers} x {fly.global_links} links each",
                      f"1 to {most}")


class Dragonfly(Fabric, frozen=True, kw_only=True):
    """Routers with XPUs, links to all routers of their group (`local`), and links to other groups (`global`).

    Link k of group g, in the order of routers and their ports, goes to group k, or k + 1 from g on. XPUs are on links
    `access`. They have no numbers of their own.
    """

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_fits,)
    tag: ClassVar[str] = "dragonfly"
    free: ClassVar[tuple[str, ...]] = ("inside",)
    routers: Annotated[int, Knob("Routers of a group (a).", ge=1)]
    xpus: Annotated[int, Knob("XPUs of a router (p).", ge=1)]
    global_links: Annotated[int, Knob("Links of a router to other groups (h).", ge=1)]
    groups: Annotated[int | None, Knob("Groups; left out: as many as can be joined, routers x global_links + 1.",
                                       ge=1)] = None

    def document(self) -> Document:
        """The infrastructure."""
        a, p, h = self.routers, self.xpus, self.global_links
        groups = a * h + 1 if self.groups is None else self.groups
        names = ["access"] + ["local"] * (a > 1) + ["global"] * (groups > 1)
        edges = [between(f"host[{router * p}:{(router + 1) * p}]", "xpu", f"router[{router}]", f"port[0:{p}]", "access")
                 for router in range(groups * a)]
        return document(self.tag, [host_of("host", 1), switch_of(p + a - 1 + h, "router")],
                        [link(name) for name in names],
                        [instance("host", groups * a * p), instance("router", groups * a)],
                        [*edges, *self._local(groups), *self._global(groups)],
                        dict.fromkeys(names, "scale_out"))

    def _local(self, groups: int) -> Iterator[Edge]:
        """Port p + j of a router goes to router j, or j + 1 from its own number on, of its group."""
        a, p = self.routers, self.xpus
        for group in range(groups):
            for one in range(a):
                for two in range(one + 1, a):
                    yield between(f"router[{group * a + one}]", f"port[{p + two - 1}]", f"router[{group * a + two}]",
                                  f"port[{p + one}]", "local")

    def _global(self, groups: int) -> Iterator[Edge]:
        a, p, h = self.routers, self.xpus, self.global_links

        def end(group: int, place: int) -> tuple[str, str]:
            return f"router[{group * a + place // h}]", f"port[{p + a - 1 + place % h}]"
        for one in range(groups):
            for two in range(one + 1, groups):
                yield between(*end(one, two - 1), *end(two, one), "global")
