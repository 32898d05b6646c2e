"""Modules that are no part of the package: of tools/, of examples, of other tests."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def tool(name: str) -> Any:
    """tools/<name>.py as a module; it may import its neighbours."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def module_of(path: Path, name: str) -> Any:
    """One file as a module of this name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)      # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
