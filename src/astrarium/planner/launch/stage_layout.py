"""Megatron core's `pipeline_model_parallel_layout`: the layers of every part of a pipeline, read and written.

Symbols (NVIDIA/Megatron-LM, docs/user-guide/features/pipeline_parallel_layout.md): E embedding, t layer, m module of
multi-token prediction, L loss; `|` between parts; `x*3` and `(xy)*3` repeat; commas mean nothing. Part k runs on stage
k modulo pp.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

__all__ = ["LayoutError", "counts_of", "layout_text"]

LONGEST = 4096      # characters, also of the repeated text
_SYMBOLS = re.compile(r"[EtmL|*()0-9]*")
_GROUPS = re.compile(r"\(([^()]*)\)\*([0-9]{1,3})")
_SINGLE = re.compile(r"([EtmL|])\*([0-9]{1,3})")


class LayoutError(ValueError):
    """A text that is not a layout, or one that cannot be predicted; the message says what is wrong."""


def counts_of(text: str) -> tuple[list[int], bool]:
    """(layers of every part, whether modules of multi-token prediction are in the last part, as designs have them).
    Raises LayoutError."""
    plain = re.sub(r"[\s,'\"]", "", text)
    if len(plain) > LONGEST or not _SYMBOLS.fullmatch(plain):
        raise LayoutError("has other symbols than E, t, m, L, |, *, brackets and numbers")
    parts = _repeated(_repeated(plain, _GROUPS), _SINGLE).split("|")
    whole = "".join(parts)
    if not re.fullmatch("Et*m*L", whole) or "E" not in parts[0] or "L" not in parts[-1]:
        raise LayoutError("does not begin with the embedding (E) and end with the loss (L)")
    return [part.count("t") for part in parts], whole.count("m") == parts[-1].count("m")


def _repeated(text: str, pattern: re.Pattern[str]) -> str:
    """The text with its repetitions written out."""
    if len(text) + sum(len(match[1]) * int(match[2]) for match in pattern.finditer(text)) > LONGEST:
        raise LayoutError(f"has more than {LONGEST:,} symbols")
    found = pattern.sub(lambda match: match[1] * int(match[2]), text)
    if "*" in found and pattern is _SINGLE:
        raise LayoutError("has a * without a symbol before it or a number behind it")
    return found


def layout_text(counts: Sequence[int], mtp: int = 0) -> str:
    """The layout of parts with these numbers of layers: `Et*3|(t*4|)*13t*3|t*3L`."""
    inner = [f"t*{count}" if count > 1 else "t" * count for count in counts]
    first, last = f"E{inner[0]}|", f"{inner[-1]}{'m' * mtp}L"
    runs = [(text, len(list(run))) for text, run in groupby(inner[1:-1])]
    return first + "".join(f"({text}|)*{many}" if many > 1 else f"{text}|" for text, many in runs) + last
