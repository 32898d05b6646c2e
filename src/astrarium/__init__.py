"""Astrarium models distributed AI systems: a trace or a model goes in, time, memory and cost come out.

Names are imported when first used, so `import astrarium` costs next to nothing. With `NAMESPACES` these names are the
public API: a name is public if it is in `__all__` here or in one of them (docs/reference/compatibility.md).
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from astrarium.lazy import lazy
from astrarium.version import version

if TYPE_CHECKING:
    from astrarium import catalog as catalog
    from astrarium import collective as collective
    from astrarium import cost as cost
    from astrarium import gpu as gpu
    from astrarium import plot as plot
    from astrarium import plugins as plugins
    from astrarium import profile as profile
    from astrarium import provision as provision
    from astrarium import result as result
    from astrarium import serving as serving
    from astrarium import synthesise as synthesise
    from astrarium import trace as trace
    from astrarium import workload as workload
    from astrarium.collective.config import Collective
    from astrarium.compute.analytic import Analytic
    from astrarium.compute.calibrated import Calibrated
    from astrarium.compute.config import Replay, Roofline
    from astrarium.compute.measured import Measured
    from astrarium.compute.scaling import Scaling
    from astrarium.compute.systolic import Systolic
    from astrarium.config import decode, fields, get, load, replace, replace_all
    from astrarium.design import AstraSim, Design, NpuType, dump_design, load_design
    from astrarium.errors import (
        AstrariumError,
        InputError,
        InternalError,
        PluginError,
        StallError,
        TraceError,
        UnsupportedError,
    )
    from astrarium.fabric.config import FabricFile, FabricLink, blueprint
    from astrarium.market import Cost
    from astrarium.memory.config import Memory, Placement, PoolLevel, Remote, Tier
    from astrarium.network.change import Change
    from astrarium.network.config import FullyConnected, Hypercube, InSwitch, Mesh, Network, Ring, Switch, Torus
    from astrarium.network.packets import Packets
    from astrarium.network.roce import Roce
    from astrarium.network.routes import Route
    from astrarium.planner import Layout, Shortlist, plan, plan_from
    from astrarium.planner.serving import plan_serving, plan_serving_from
    from astrarium.registry import names
    from astrarium.report.timeline.kernels import write_kernel_timeline
    from astrarium.result import Result
    from astrarium.search import Case, Choice, Space, Study, dump_space, load_space, search
    from astrarium.simulate import simulate, simulate_many
    from astrarium.system.config import NpuChange, System
    from astrarium.units import format_bytes, format_time
    from astrarium.vocab import CommOp, NodeKind
    from astrarium.workload.config import Trace
    from astrarium.workload.inference.config import Inference
    from astrarium.workload.inference.disaggregated import Disaggregated
    from astrarium.workload.jobs import Job, Jobs
    from astrarium.workload.micro import Micro
    from astrarium.workload.model.decoder import Decoder
    from astrarium.workload.model.diffusion import Diffusion
    from astrarium.workload.model.dlrm import Dlrm
    from astrarium.workload.model.encoder import Encoder, Image
    from astrarium.workload.model.encoder_decoder import Audio, EncoderDecoder
    from astrarium.workload.model.experts import Experts
    from astrarium.workload.model.latent import Latent
    from astrarium.workload.model.mamba import Mamba
    from astrarium.workload.precision import Precision
    from astrarium.workload.single import SingleCollective
    from astrarium.workload.transformer import Transformer

__all__ = [
    "Analytic", "AstraSim", "AstrariumError", "Audio", "Calibrated", "Case", "Change", "Choice", "Collective",
    "CommOp", "Cost", "Decoder", "Design", "Diffusion", "Disaggregated", "Dlrm", "Encoder", "EncoderDecoder",
    "Experts", "FabricFile", "FabricLink", "FullyConnected", "Hypercube", "Image", "InSwitch", "Inference",
    "InputError", "InternalError", "Job", "Jobs", "Latent", "Layout", "Mamba", "Measured", "Memory", "Mesh", "Micro",
    "Network", "NodeKind", "NpuChange", "NpuType", "Packets", "Placement", "PluginError", "PoolLevel", "Precision",
    "Remote", "Replay", "Result", "Ring", "Roce", "Roofline", "Route", "Scaling", "Shortlist", "SingleCollective",
    "Space", "StallError", "Study", "Switch", "System", "Systolic", "Tier", "Torus", "Trace", "TraceError",
    "Transformer", "UnsupportedError", "blueprint", "decode", "dump_design", "dump_space", "fields", "format_bytes",
    "format_time", "get", "load", "load_design", "load_space", "names", "plan", "plan_from", "plan_serving",
    "plan_serving_from", "replace", "replace_all", "search", "simulate", "simulate_many", "write_kernel_timeline",
]
NAMESPACES = ("catalog", "collective", "cost", "gpu", "plot", "plugins", "profile", "provision", "result", "search",
              "serving", "synthesise", "trace", "workload")
_named = lazy(__name__)


def __getattr__(name: str) -> Any:
    if name in NAMESPACES and name not in _VERBS:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "__version__":
        return version()
    return _named(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *NAMESPACES})


_VERBS = ("search", "simulate")      # of which there is a module, too


class _Package(ModuleType):
    """Importing the module `astrarium.simulate` must not put it in the place of the verb `astrarium.simulate`."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _VERBS and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
