"""Where the work comes from: traces, and later models with their parallelism."""

from astrarium.workload.config import Live

__all__ = ["Live"]
