"""What a path on the command line is."""

from __future__ import annotations

import os

__all__ = ["is_design"]


def is_design(path: str) -> bool:
    """Whether `path` names a YAML file (a design or a network) rather than traces."""
    return os.path.splitext(path)[1].lower() in (".yaml", ".yml")
