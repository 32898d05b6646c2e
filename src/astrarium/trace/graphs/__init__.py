"""Traces from graphs, without running anything: PyTorch's (FX) and StableHLO text (JAX, TensorFlow)."""

from __future__ import annotations

from astrarium.trace.graphs.capture import compiled_trace, export_trace, joint_trace
from astrarium.trace.graphs.dispatch import dispatched_trace
from astrarium.trace.graphs.nodes import GraphTrace
from astrarium.trace.graphs.stablehlo import stablehlo_text, stablehlo_trace

__all__ = ["GraphTrace", "compiled_trace", "dispatched_trace", "export_trace", "joint_trace", "stablehlo_text",
           "stablehlo_trace"]
