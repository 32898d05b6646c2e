"""What no simulation can fall below."""

from astrarium.search.floors.heads import Head, OneHead, WorkHeads, heads_of
from astrarium.search.floors.objective import SAFE, objective_floor

__all__ = ["SAFE", "Head", "OneHead", "WorkHeads", "heads_of", "objective_floor"]
