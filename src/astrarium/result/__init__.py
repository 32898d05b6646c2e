"""What a simulation says: times per rank, collectives, links, memory, the critical path."""

from __future__ import annotations

from astrarium.result.collectives import Collectives
from astrarium.result.export import tables, write_json, write_parquet
from astrarium.result.links import Dims, Links
from astrarium.result.memory import MemoryUse
from astrarium.result.messages import Comm, Messages
from astrarium.result.nodes import Nodes, Work
from astrarium.result.path import Path
from astrarium.result.ranks import Ranks
from astrarium.result.result import Result

__all__ = ["Collectives", "Comm", "Dims", "Links", "MemoryUse", "Messages", "Nodes", "Path", "Ranks", "Result", "Work",
           "tables", "write_json", "write_parquet"]
