"""PyTorch, which is an extra: imported where it is used, with the line that installs it where it is absent."""

from __future__ import annotations

import importlib
from typing import Any

from astrarium.errors import InputError, install_line

__all__ = ["torch_module"]


def torch_module(name: str = "torch") -> Any:
    """The module `name` of PyTorch. Raises InputError with the pip line where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(name, f"cannot be imported ({error})",
                         expected=f"PyTorch: {install_line('torch')}") from None
