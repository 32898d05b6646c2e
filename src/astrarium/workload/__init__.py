"""Where the work comes from: traces, models with their parallelism, and the memory that they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.lazy import lazy
from astrarium.workload.config import Live, Trace, Workload
from astrarium.workload.jobs import Jobs

if TYPE_CHECKING:
    from astrarium.workload.footprint import Footprint, training_footprint
    from astrarium.workload.inference.footprint import StageFootprint, inference_footprint, max_batch
    from astrarium.workload.model.base import Model
    from astrarium.workload.model.hugging_face import read_config
    from astrarium.workload.model.parameters import parameters

__all__ = [
    "Footprint",
    "Jobs",
    "Live",
    "Model",
    "StageFootprint",
    "Trace",
    "Workload",
    "inference_footprint",
    "max_batch",
    "parameters",
    "read_config",
    "training_footprint",
]
__getattr__ = lazy(__name__)
