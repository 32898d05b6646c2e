"""Transforms of traces: cut, merge, rename, strip, scale, coalesce, roofline, retarget. Files in, files out."""

from __future__ import annotations

from astrarium.trace.transform.coalesce import Coalesce
from astrarium.trace.transform.cut import CutRanks, CutSteps, Drop
from astrarium.trace.transform.files import Job, WrittenJob, write_job
from astrarium.trace.transform.retarget import GrowDp, GrowTp
from astrarium.trace.transform.steps import STEPS, load_job, parse_step, transform
from astrarium.trace.transform.values import Rename, Roofline, ScaleDurations, ScaleOps, ScaleSizes, Strip

__all__ = ["STEPS", "Coalesce", "CutRanks", "CutSteps", "Drop", "GrowDp", "GrowTp", "Job", "Rename", "Roofline",
           "ScaleDurations", "ScaleOps", "ScaleSizes", "Strip", "WrittenJob", "load_job", "parse_step", "transform",
           "write_job"]
