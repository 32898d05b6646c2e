"""Libraries that only some agents need: imported when such an agent starts, with the pip line where one is absent."""

from __future__ import annotations

import importlib
from types import ModuleType

from astrarium.errors import InputError, install_line

__all__ = ["needed"]


def needed(agent: str, extra: str, *modules: str) -> ModuleType:
    """The first of `modules`, all imported. Raises InputError with the pip line where one is absent."""
    try:
        found = [importlib.import_module(module) for module in modules]
    except ImportError as error:
        raise InputError("agent", f"{agent} needs {error.name or 'a library'}, which is not installed here",
                         expected=install_line(extra)) from None
    return found[0]
