"""The `workload` section: where the work comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from astrarium.config import Config, Knob
from astrarium.config.spec import Problem, Variants
from astrarium.errors import PluginError
from astrarium.registry import Kind

if TYPE_CHECKING:
    from astrarium.engine.plugins.desk import Desk
    from astrarium.engine.plugins.work import WorkSource

__all__ = ["Live", "Trace", "Workload"]


class Workload(Config, frozen=True):
    """Where the work of every rank comes from."""

    variants: ClassVar[Variants | None] = Kind("workload")
    tag_key: ClassVar[str] = "source"
    former: ClassVar[Mapping[str, str]] = MappingProxyType({"stage": "transformer"})


class Trace(Workload, frozen=True):
    """Chakra execution traces, one file per rank."""

    tag: ClassVar[str] = "trace"
    path: Annotated[str, Knob("Trace files: a pattern with *, ? or [...] for the rank (`llama.*.et`), or the prefix "
                              "of `prefix.RANK.et`.", file=True)]
    groups: Annotated[str | None, Knob("JSON file that lists each group's ranks; left out: the traces' own groups.",
                                       file=True)] = None
    dependencies: Annotated[Literal["data+ctrl", "data"],
                            Knob("Which dependencies a node waits for.")] = "data+ctrl"
    rank: Annotated[int | None, Knob("Run this rank's trace only, on every NPU (equal ranks); left out: each rank "
                                     "runs its own.", ge=0, lt=2**31)] = None
    starts: Annotated[Literal["recorded", "together"],
                      Knob("When the ranks of profiled traces begin: as `recorded`, clocks compared, or `together`. "
                           "ASTRA-sim's rules start all together.")] = "recorded"


def _feeds(live: Live) -> Iterator[Problem]:
    if type(live).feed is Live.feed or not callable(live.feed):
        yield Problem("", f"the workload plug-in {live.tag!r} (class {type(live).__name__}) has no feed",
                      "a method feed(self, desk) that returns the source of its work")


class Live(Workload, frozen=True):
    """A workload that decides as it runs: what a plug-in registers as `workload.<name>`. Its fields are its knobs."""

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_feeds,)

    def feed(self, desk: Desk) -> WorkSource:
        """The source of one run on a design; its groups and collectives are asked of `desk` here. A plug-in's own."""
        raise PluginError(f"workload plug-in {self.tag}", f"has no feed for the work of {desk.ranks} ranks")
