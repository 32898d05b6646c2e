"""Head room: memory that a plan leaves free beside the tensors of a layout, for the allocator."""

from __future__ import annotations

import math
import re

from msgspec import Struct

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


NO_RESERVE = Reserve()


def reserve_of(given: str | float | None, stack: str | None) -> Reserve:
    """What the caller says (`5 %` of what the tensors need, `2 GB`, or 0); left out, that of the stack. Raises
    InputError."""
    if given is None:
        return _usual(stack)
    text = str(given).strip()
    if text == "0":
        return Reserve(text="no memory is left free for the allocator")
    expected = "a share such as '5 %', bytes such as '2 GB', or 0"
    if found := SHARE.fullmatch(text):
        return Reserve(float(found[1]) / 100, text=f"{text} of what a layout needs is left free in memory")
    try:
        size = float(Bytes(text))
    except InputError as error:
        raise InputError("reserve", f"{text[:60]!r} {error.message}" if text not in error.message else error.message,
                         expected=expected) from None
    if not math.isfinite(size):
        raise InputError("reserve", f"{text[:60]!r}", expected=expected)
    return Reserve(bytes=size, text=f"{format_bytes(size)} of every NPU is left free")


def _usual(stack: str | None) -> Reserve:
    rows = catalog.load("stacks")
    name = stack if stack is not None and "reserve" in rows.get(stack, {}) else USUAL
    share = float(rows[name]["reserve"].rstrip("% ")) / 100
    said = "" if name == stack else f"; {f'stack {stack}' if stack else 'no stack'} has no rows of it"
    return Reserve(share, text=f"{100 * share:g} % of what a layout needs is left free for the allocator (measured "
                   f"with {name}{said}; to change: --reserve)")
