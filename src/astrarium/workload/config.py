"""The `workload` section: where the work comes from."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from astrarium.config import Config, Knob
from astrarium.config.spec import Variants
from astrarium.registry import Kind

__all__ = ["Trace", "Workload"]


class Workload(Config, frozen=True):
    """Where the work of every rank comes from."""

    variants: ClassVar[Variants | None] = Kind("workload")
    tag_key: ClassVar[str] = "source"


class Trace(Workload, frozen=True):
    """Chakra execution traces, one file per rank."""

    tag: ClassVar[str] = "trace"
    path: Annotated[str, Knob("Trace files: a pattern in which * stands for the rank (`llama.*.et`), or the prefix "
                              "of `prefix.RANK.et`.", file=True)]
    groups: Annotated[str | None, Knob("JSON file that lists each group's ranks; left out: the traces' own groups.",
                                       file=True)] = None
    dependencies: Annotated[Literal["data+ctrl", "data"],
                            Knob("Which dependencies a node waits for.")] = "data+ctrl"
