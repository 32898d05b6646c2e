"""The operations of a service. Each is a function `(request, context)` that returns an `Answer`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["OPERATIONS"]

_HERE = "astrarium.service.operations"

OPERATIONS: Mapping[str, str] = MappingProxyType({
    "catalog": f"{_HERE}.catalog:catalog",
    "files": f"{_HERE}.files:files",
    "show": f"{_HERE}.files:show",
    "save": f"{_HERE}.files:save",
    "check": f"{_HERE}.check:check",
    "run": f"{_HERE}.run:run",
    "plan": f"{_HERE}.plan:plan",
    "serve": f"{_HERE}.serve:serve",
    "validate": f"{_HERE}.validate:validate",
    "calibrate": f"{_HERE}.calibrate:calibrate",
    "trace": f"{_HERE}.trace:trace",
    "explain": f"{_HERE}.explain:explain",
    "search_start": f"{_HERE}.study:start",
    "search_step": f"{_HERE}.study:step",
    "search_agent": f"{_HERE}.agent:search",
    "search_report": f"{_HERE}.report:report",
})
"""Name -> "module:function"."""
