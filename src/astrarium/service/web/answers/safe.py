"""What a design from a page may not name: programs and libraries. Files are the guard's matter (`service.guard`)."""

from __future__ import annotations

from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.registry import built_ins

__all__ = ["refuse_code"]

KINDS = {"network.backend": "backend", "memory.remote.kind": "remote", "collective.scheduling": "scheduling",
         "collective.choice": "choice"}


def refuse_code(design: Design) -> None:
    """Raise InputError for a design that would load a library, start a program, or run a plug-in."""
    if design.network.backend == "library" or design.network.library is not None:
        raise InputError("network.library", "libraries are not loaded here", expected="a back end of this package")
    if design.network.backend == "ns3":
        raise InputError("network.backend", "ns-3 is a program, and none is started here",
                         expected="closed_form, contention or packets; `astrarium run` runs ns-3")
    for path, kind in KINDS.items():
        value: object = design
        for name in path.split("."):
            value = getattr(value, name)
        if built_ins(kind) and isinstance(value, str) and value not in built_ins(kind):
            raise InputError(path, f"{value[:60]!r} is a plug-in, and none is run here",
                             expected="one of " + ", ".join(built_ins(kind)))
