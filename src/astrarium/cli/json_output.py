"""What `--json` prints: one object, which names its format and the version that made it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from astrarium.version import stamp

__all__ = ["json_text", "print_json"]


def print_json(answer: str, found: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print an object after its stamp; of a list, the object has the `rows`.

    Args:
        answer: the command, such as `plan` or `trace show`.
        found: plain values with units in their keys (docs/reference/json.md).
    """
    print(json_text(answer, found), end="")


def json_text(answer: str, found: Mapping[str, Any] | Sequence[Any]) -> str:
    """What `print_json` prints."""
    plain = dict(found) if isinstance(found, Mapping) else {"rows": list(found)}
    return json.dumps(stamp(answer) | plain, indent=1) + "\n"
