"""Design -> Plan: where traces, system, collectives and models meet.

`lower` is imported when first used: the drop-in command lowers ASTRA-sim's files and needs no design.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astrarium.lower.rule_books import lower

__all__ = ["lower"]


def __getattr__(name: str) -> Any:
    if name != "lower":
        raise AttributeError(f"module 'astrarium.lower' has no attribute {name!r}")
    from astrarium.lower.rule_books import lower as found

    globals()[name] = found
    return found
