"""From a deployment to the design of one of its engines."""

from __future__ import annotations

from typing import Any

from astrarium import catalog, config
from astrarium.design import Design
from astrarium.validate.serving.deployment import Deployment, Layout
from astrarium.validate.systems import system_named

__all__ = ["engine_design"]
GAP = __import__("json").loads(__import__("os").environ.get("XC", "{}"))


def engine_design(meant: Deployment, layout: Layout) -> Design:
    """One engine of a deployment. Raises InputError for what no model here covers."""
    system = system_named(meant.system)
    inner = min(layout.npus, system.hosted)
    dims: list[dict[str, Any]] = [{"like": system.inner, "npus": inner}]
    if layout.npus > inner:
        dims.append({"like": system.outer, "npus": -(-layout.npus // inner)})
    for dim, inside in zip(dims, (True, False)):
        dim["latency"], _ = catalog.network(dim["like"]).hop(inside)
    work = {"source": "inference", "model": meant.model, "tp": layout.tp, "dp": layout.dp, "pp": layout.pp,
            "ep": layout.ep, "moe_tp": layout.tp * layout.dp // layout.ep, "batch": layout.dp,
            "formats": dict(meant.formats), "phase": "decode", "context": 1}
    return config.decode(Design, {
        "stack": meant.stack, "workload": work, "network": {"dims": dims}, "memory": {"like": system.device},
        "compute": {"model": "measured", "device": system.kernels or system.device, **GAP},
        "collective": {"model": "measured", "library": _library(meant)}})


def _library(meant: Deployment) -> str:
    """The engine's collectives, by its version where that is a number."""
    name = catalog.load("stacks")[meant.stack]["collective"]["library"]
    return f"{name}/{meant.version}" if meant.version[:1].isdigit() else str(name)
