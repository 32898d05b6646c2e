"""Where the work comes from: traces, and later models with their parallelism."""

from astrarium.workload.config import Live, Trace, Workload
from astrarium.workload.jobs import Jobs

__all__ = ["Jobs", "Live", "Trace", "Workload"]
