"""Collective algorithms as data, and how they are composed over dims.

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.lazy import lazy

if TYPE_CHECKING:
    from astrarium.collective.algorithms import Algorithm, Options, build, has_op
    from astrarium.collective.algorithms.algorithm import Bound, Case, Counts
    from astrarium.collective.exam import Proof, check_bound, examine
    from astrarium.collective.messages import Messages, assemble

__all__ = ["Algorithm", "Bound", "Case", "Counts", "Messages", "Options", "Proof", "assemble", "build", "check_bound",
           "examine", "has_op"]
__getattr__ = lazy(__name__)
