"""From double ns to integer ps, checked: the clock never wraps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from astrarium.arrays import F64, I64
from astrarium.errors import InputError

__all__ = ["LIMIT_PS", "to_ps", "truncated_ns"]


LIMIT_PS = 2**62
"""Longest single duration, ps (53 days); two of them still fit the clock."""


def _checked(ps: F64) -> I64:
    if ps.size and not bool(np.all((ps >= 0) & (ps <= LIMIT_PS))):
        worst = float(ps[~((ps >= 0) & (ps <= LIMIT_PS))].flat[0])
        raise InputError("compute", f"a node that takes {worst / 1e12:g} s is impossible",
                         expected=f"0 to {LIMIT_PS / 1e12:.0f} s")
    return ps.astype(np.int64)


def to_ps(ns: npt.ArrayLike) -> I64:
    """Double ns as ps, rounded half to even. Raises InputError beyond LIMIT_PS, below 0 or for no number."""
    return _checked(np.asarray(np.rint(np.asarray(ns, np.float64) * 1000.0)))


def truncated_ns(ns: npt.ArrayLike) -> I64:
    """Double ns cut to whole ns, as ps."""
    return _checked(np.asarray(np.trunc(np.asarray(ns, np.float64)) * 1000.0))
