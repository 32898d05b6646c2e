"""Head room: memory that a plan leaves free for the allocator."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from astrarium import catalog
from astrarium.errors import InputError
from astrarium.units import Bytes, format_bytes

__all__ = ["NO_RESERVE", "Reserve", "reserve_of"]

USUAL = "megatron-core"     # the stack whose rows count for those without any
SHARE = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+) ?%")


class Reserve(Struct, frozen=True):
    """`share` of what the tensors need, and `bytes` of every NPU; `text`: a sentence for the answer."""

    share: float = 0.0
    bytes: float = 0.0
    text: str = ""

    def room(self, capacity: float) -> float:
        """Bytes that tensors may need on an NPU with so much memory."""
        return max(0.0, capacity - self.bytes) / (1.0 + self.share)

    @property
    def words(self) -> str:
        """How much, for a person."""
        return f"{format_bytes(self.bytes)} of every NPU" if self.bytes else \
            f"{100 * self.share:.3g} % of what a layout needs"


NO_RESERVE = Reserve()


def reserve_of(given: str | float | None, stack: str | None) -> Reserve:
    """What the caller says (`5 %` of what the tensors need, `2 GB`, or 0); left out, that of the stack. Raises
    InputError."""
    if given is not None:
        found = _parsed("reserve", str(given).strip())
        return replace(found, text=f"{found.words} is left free in memory (--reserve)")
    rows = catalog.load("stacks")
    name = stack if stack is not None and "reserve" in rows.get(stack, {}) else USUAL
    said = "" if name == stack else f"; stack {stack} has no rows of it" if stack else ", as there is no stack"
    found = _parsed(f"stack {name}: reserve", str(rows[name]["reserve"]))
    return replace(found, text=f"{found.words} is left free for the allocator (measured with {name}{said}; to change: "
                   "--reserve)")


def _parsed(path: str, text: str) -> Reserve:
    if text == "0":
        return NO_RESERVE
    if share := SHARE.fullmatch(text):
        return Reserve(float(share[1]) / 100)
    try:
        return Reserve(bytes=float(Bytes(text)))
    except InputError as error:
        raise InputError(path, f"{text[:60]!r} is neither a share nor a size ({error.message})",
                         expected="a share such as '5 %', bytes such as '2 GB', or 0") from None
