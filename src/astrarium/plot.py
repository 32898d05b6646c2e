"""Pictures of answers: `plot.NAME(answer)` gives a `Plot`, which notebooks show and `save` writes.

    import astrarium as ar

    result = ar.simulate(design)
    ar.plot.breakdown(result).save("breakdown.svg")
    ar.plot.pipeline(result, design).save("pipeline.png")      # extra: pages

A plot is plain data: a title, a sentence that says what one sees, and marks in base units (ns, bytes, bytes/ns, US
dollars, shares of 1). `svg` draws it as text without any extra, `vega` as a Vega-Lite specification. A function refuses
an answer that lacks its data, and says what to record. Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astrarium.lazy import lazy

if TYPE_CHECKING:
    from astrarium.report.plot.find import Drawing
    from astrarium.report.plot.plot import Axis, Column, Layer, Plot
    from astrarium.report.plot.plots.breakdown import breakdown
    from astrarium.report.plot.plots.busbw import busbw
    from astrarium.report.plot.plots.calibration import calibrated_times
    from astrarium.report.plot.plots.critical_path import critical_path
    from astrarium.report.plot.plots.links import links, traffic
    from astrarium.report.plot.plots.memory import footprint, memory
    from astrarium.report.plot.plots.pipeline import pipeline
    from astrarium.report.plot.plots.plan import intervals, loads
    from astrarium.report.plot.plots.queues import link_queues
    from astrarium.report.plot.plots.roofline import roofline
    from astrarium.report.plot.plots.serving import kv_cache, latency, queue, requests
    from astrarium.report.plot.plots.study import convergence, coordinates, importance, pareto, sobol, tornado
    from astrarium.report.plot.plots.trace import operations, overlap
    from astrarium.report.plot.plots.validation import errors, measured
    from astrarium.report.plot.plots.waterfall import waterfall
    from astrarium.report.plot.svg import svg
    from astrarium.report.plot.vega import vega

__all__ = ["Axis", "Column", "Drawing", "Layer", "Plot", "breakdown", "busbw", "calibrated_times", "convergence",
           "coordinates", "critical_path", "errors", "footprint", "importance", "intervals", "kv_cache", "latency",
           "link_queues", "links", "loads", "measured", "memory", "operations", "overlap", "pareto", "pipeline",
           "queue", "requests", "roofline", "sobol", "svg", "tornado", "traffic", "vega", "waterfall"]
__getattr__ = lazy(__name__)
