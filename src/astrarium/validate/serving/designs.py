"""From a deployment to the design of one of its engines."""

from __future__ import annotations

from typing import Any

from astrarium import catalog, config
from astrarium.design import Design
from astrarium.stack import Stacks
from astrarium.validate.serving.deployment import Deployment, Layout
from astrarium.validate.systems import system_named

__all__ = ["engine_design"]


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
    stack = {"stack": meant.stack} if meant.stack in Stacks() else {}
    return config.decode(Design, {"workload": work, "network": {"dims": dims}, "memory": {"like": system.device},
                                  "compute": {"model": "measured", "device": system.kernels or system.device},
                                  "collective": {"model": "measured"}, **stack})
