"""From a deployment to its design and the policy of its engines."""

from __future__ import annotations

import re
from typing import Any

from astrarium import catalog, config
from astrarium.design import Design
from astrarium.serving.layout import SKEW, exchange_of, pool_of
from astrarium.serving.policy import Policy
from astrarium.serving.serve import policy_of as stack_policy
from astrarium.validate.serving.deployment import Deployment, numbers_of
from astrarium.validate.systems import System, system_named

__all__ = ["design_of", "policy_of"]

RACK = 72


def design_of(meant: Deployment) -> Design:
    """The design of a deployment. Raises InputError for what no model here covers."""
    system = system_named(meant.system)
    work: dict[str, Any] = {"model": meant.model, "batch": meant.layout.dp * meant.engines,
                            "formats": dict(meant.formats)}
    experts = experts_of(meant.model)
    if experts and meant.layout.dp == 1:
        work["routing"] = {"skew": SKEW}
    exchange = exchange_of(meant.stack, system.inner.endswith(f"nvl{RACK}"))
    back = pool_of(experts, meant.layout, exchange)
    if meant.prefill is None:
        work |= {"source": "inference", "phase": "decode", "context": 1, **back, "dp": meant.layout.dp * meant.engines}
    else:
        front = {**pool_of(experts, meant.prefill[0], exchange), "workers": meant.prefill[1]}
        work |= {"source": "disaggregated", "prompt": 1, "generated": 1, "prefill": front,
                 "decode": {**back, "workers": meant.engines}}
        work["batch"] = meant.layout.dp * meant.engines * meant.prefill[0].dp * meant.prefill[1]
    library = _library(meant, system)
    if meant.stack.startswith("vllm"):      # whether it fuses goes by the version
        work["fusion"] = "engine_norms" if library.startswith("vllm_fused") else "engine"
    return config.decode(Design, {
        "stack": meant.stack, "workload": work, "network": {"dims": _dims(system, meant.npus)},
        "memory": {"like": system.device},
        "compute": {"model": "measured", "device": system.kernels or system.device},
        "collective": {"model": "measured", "library": library}})


def policy_of(meant: Deployment, design: Design) -> Policy:
    """How the engines fill steps: as the stack does, with what the source changes."""
    usual, changes = stack_policy(design), dict[str, Any](prefix_cache=meant.prefix > 0)
    tokens = meant.tokens or usual.max_tokens
    if meant.mixed:
        changes["schedule"] = "chunked"
    if usual.schedule == "inflight" and not meant.mixed:
        tokens = max(tokens, meant.prompt.high + meant.output.high)         # prompts are never cut
    changes["max_tokens"] = tokens
    if usual.chunk is not None:
        changes["chunk"] = tokens
    if meant.batch is not None:
        changes["max_batch"] = max(1, meant.batch // meant.layout.dp)
    changes |= {"wait_steps": meant.wait_steps, "wait_share": meant.wait_share, "poll": meant.poll}
    if meant.share is not None:
        changes["memory_share"] = meant.share
    return config.replace_all(usual, changes)


def experts_of(model: str) -> int:
    """Experts of a layer of a model of the catalog; 0: none."""
    found = catalog.load("models")[model]["model"].get("moe")
    return int(found["experts"]) if found else 0


def _dims(system: System, npus: int) -> list[dict[str, Any]]:
    rack = RACK if system.inner.endswith(f"nvl{RACK}") else system.hosted
    inner = npus if npus % rack else rack       # hosts that are not full count as one
    dims: list[dict[str, Any]] = [{"like": system.inner, "npus": inner}]
    if npus > inner:
        dims.append({"like": system.outer, "npus": -(-npus // inner)})
    for dim, inside in zip(dims, (True, False)):
        dim["latency"], _ = catalog.network(dim["like"]).hop(inside)
    return dims


def _library(meant: Deployment, system: System) -> str:
    """The engine's collectives, by its version where that is its own (below 1.0, TensorRT-LLM's is that of Dynamo). On
    Blackwell vLLM fuses them with norms (on B300 from 0.19 on)."""
    name = str(catalog.load("stacks")[meant.stack]["collective"]["library"])
    if name == "vllm" and "b200" in system.device:
        return "vllm_fused"
    if not re.match(r"\d", meant.version) or (name == "trtllm" and meant.version.startswith("0.")):
        return "vllm_fused" if name == "vllm" and "b300" in system.device else name
    if name == "vllm" and "b300" in system.device and numbers_of(meant.version) >= (0, 19):
        return "vllm_fused"
    return f"{name}/{meant.version}"
