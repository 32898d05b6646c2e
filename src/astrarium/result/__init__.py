"""What a simulation says: times per rank, collectives, links, memory, the critical path.

Exports are imported when first used: a run that prints a table needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.lazy import lazy
from astrarium.result.collectives import Collectives
from astrarium.result.jobs import JobRanks, JobResult
from astrarium.result.links import Dims, Links
from astrarium.result.memory import MemoryUse
from astrarium.result.messages import Comm, Messages
from astrarium.result.nodes import Nodes, Work
from astrarium.result.path import Path
from astrarium.result.ranks import Ranks
from astrarium.result.result import Result

if TYPE_CHECKING:
    from astrarium.result.export import tables, write_json, write_parquet
    from astrarium.result.stored import Stored

__all__ = ["Collectives", "Comm", "Dims", "JobRanks", "JobResult", "Links", "MemoryUse", "Messages", "Nodes", "Path",
           "Ranks", "Result", "Stored", "Work", "tables", "write_json", "write_parquet"]
__getattr__ = lazy(__name__)
