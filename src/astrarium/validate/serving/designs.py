"""From a deployment to its design and the policy of its engines."""

from __future__ import annotations

from typing import Any

from astrarium import catalog, config
from astrarium.design import Design
from astrarium.serving.policy import Policy
from astrarium.serving.serve import policy_of as stack_policy
from astrarium.validate.serving.deployment import Deployment, Layout
from astrarium.validate.systems import System, system_named

__all__ = ["design_of", "policy_of"]

RACK = 72
SKEW = 1.01     # of experts' loads, as of the rows of kernels; routers of models are no more even
def design_of(meant: Deployment) -> Design:
    """The design of a deployment. Raises InputError for what no model here covers."""
    system = system_named(meant.system)
    work: dict[str, Any] = {"model": meant.model, "batch": meant.layout.dp * meant.engines,
                            "formats": dict(meant.formats)}
    experts = experts_of(meant.model)
    if experts:
        work["routing"] = {"skew": SKEW}
    if meant.prefill is None:
        work |= {"source": "inference", "phase": "decode", "context": 1, **_pool(experts, meant.layout, meant.engines)}
    else:
        work |= {"source": "disaggregated", "prompt": 1, "generated": 1, "prefill": _pool(experts, *meant.prefill),
                 "decode": _pool(experts, meant.layout, meant.engines)}
        work["batch"] = meant.layout.dp * meant.engines * meant.prefill[0].dp * meant.prefill[1]
    return config.decode(Design, {
        "stack": meant.stack, "workload": work, "network": {"dims": _dims(system, meant.npus)},
        "memory": {"like": system.device},
        "compute": {"model": "measured", "device": system.kernels or system.device},
        "collective": {"model": "measured", "library": _library(meant)}})


def policy_of(meant: Deployment, design: Design) -> Policy:
    """How the engines fill steps: as the stack does, with what the source changes."""
    usual, changes = stack_policy(design), dict[str, Any](prefix_cache=meant.prefix > 0)
    tokens = meant.tokens or usual.max_tokens
    if usual.schedule == "inflight":
        tokens = max(tokens, meant.prompt.high + meant.output.high)         # prompts are never cut
    changes["max_tokens"] = tokens
    if usual.chunk is not None:
        changes["chunk"] = tokens
    if meant.batch is not None:
        changes["max_batch"] = max(1, meant.batch // meant.layout.dp)
    if meant.share is not None:
        changes["memory_share"] = meant.share
    return config.replace_all(usual, changes)


def experts_of(model: str) -> int:
    """Experts of a layer of a model of the catalog; 0: none."""
    found = catalog.load("models")[model]["model"].get("moe")
    return int(found["experts"]) if found else 0


def _pool(experts: int, layout: Layout, engines: int) -> dict[str, Any]:
    found: dict[str, Any] = {"tp": layout.tp, "dp": layout.dp * engines, "pp": layout.pp, "ep": layout.ep}
    if experts:
        found["moe_tp"] = layout.tp * layout.dp // layout.ep
        found["redundant_experts"] = -experts % layout.ep
    return found


def _dims(system: System, npus: int) -> list[dict[str, Any]]:
    rack = RACK if system.inner.endswith(f"nvl{RACK}") else system.hosted
    inner = npus if npus % rack else rack       # hosts that are not full stand for one
    dims: list[dict[str, Any]] = [{"like": system.inner, "npus": inner}]
    if npus > inner:
        dims.append({"like": system.outer, "npus": -(-npus // inner)})
    for dim, inside in zip(dims, (True, False)):
        dim["latency"], _ = catalog.network(dim["like"]).hop(inside)
    return dims


def _library(meant: Deployment) -> str:
    """The engine's collectives, by its version where that is a number."""
    name = catalog.load("stacks")[meant.stack]["collective"]["library"]
    return f"{name}/{meant.version}" if meant.version[:1].isdigit() else str(name)
