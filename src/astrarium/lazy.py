"""Names of a package that are imported when first used (PEP 562).

A package says `__getattr__ = lazy(__name__)`. Its table of names is the block under `if TYPE_CHECKING:`, which type
checkers read as imports and `lazy` reads as text, so that every name is written in one place.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["lazy"]


def lazy(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package, which imports a name and keeps it in the package.

    Args:
        package: its full name.

    Raises:
        AttributeError: from the returned function, for a name that the block does not import.
    """
    modules: dict[str, str] = {}

    def find(name: str) -> Any:
        if not modules:
            modules.update(_imports(package))
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return find


def _imports(package: str) -> dict[str, str]:
    """Name -> module, of the imports under `if TYPE_CHECKING:` in a package's source."""
    import re

    spec = sys.modules[package].__spec__
    assert spec is not None
    source: str = spec.loader.get_source(package)      # type: ignore[union-attr]
    block = source.partition("\nif TYPE_CHECKING:\n")[2].partition("\n\n")[0]
    lines = re.findall(r"^    from ([\w.]+) import (\([^)]*\)|.*)$", block, re.MULTILINE)
    return {name: module for module, names in lines for name in re.findall(r"\w+", names)}
