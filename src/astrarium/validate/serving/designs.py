"""From a deployment to its design and the policy of its engines."""

from __future__ import annotations

from typing import Any

from astrarium import catalog, config
from astrarium.design import Design
from astrarium.serving.policy import Policy
from astrarium.validate.serving.deployment import Deployment, Layout
from astrarium.validate.systems import System, system_named

__all__ = ["design_of", "policy_of"]

RACK = 72
EXPERTS = {"deepseek-v3": 256, "minimax-m2": 256, "kimi-k2": 384, "glm-5": 256, "gpt-oss-120b": 128,
           "qwen3-235b-a22b": 128, "qwen3.5-397b-a17b": 512}
POLICIES: dict[str, dict[str, Any]] = {
    "vllm": {"schedule": "chunked", "max_tokens": 8192, "max_batch": 1024},
    "sglang": {"schedule": "prefill_first", "max_tokens": 8192, "max_batch": 4096, "block": 1, "chunk": 8192},
    "trt-llm": {"schedule": "inflight", "max_tokens": 8192, "max_batch": 2048, "block": 32, "reserve": 1.0}}


def design_of(meant: Deployment) -> Design:
    """The design of a deployment. Raises InputError for what no model here covers."""
    system = system_named(meant.system)
    work: dict[str, Any] = {"model": meant.model, "batch": meant.layout.dp * meant.engines,
                            "formats": dict(meant.formats)}
    if meant.prefill is None:
        work |= {"source": "inference", "phase": "decode", "context": 1, **_pool(meant, meant.layout, meant.engines)}
    else:
        work |= {"source": "disaggregated", "prompt": 1, "generated": 1, "prefill": _pool(meant, *meant.prefill),
                 "decode": _pool(meant, meant.layout, meant.engines)}
        work["batch"] = meant.layout.dp * meant.engines * meant.prefill[0].dp * meant.prefill[1]
    return config.decode(Design, {
        "stack": meant.stack, "workload": work, "network": {"dims": _dims(system, meant.npus)},
        "memory": {"like": system.device},
        "compute": {"model": "measured", "device": system.kernels or system.device},
        "collective": {"model": "measured", "library": _library(meant)}})


def policy_of(meant: Deployment) -> Policy:
    """How the engines fill steps."""
    plain = dict(POLICIES[meant.stack])
    if meant.tokens is not None:
        plain["max_tokens"] = meant.tokens
        if "chunk" in plain:
            plain["chunk"] = meant.tokens
    if plain["schedule"] == "inflight":
        plain["max_tokens"] = max(plain["max_tokens"], meant.prompt.high + meant.output.high)     # is never cut
    if meant.batch is not None:
        plain["max_batch"] = max(1, meant.batch // meant.layout.dp)
    if meant.share is not None:
        plain["memory_share"] = meant.share
    return config.decode(Policy, {**plain, "prefix_cache": meant.prefix > 0})


def _pool(meant: Deployment, layout: Layout, engines: int) -> dict[str, Any]:
    found: dict[str, Any] = {"tp": layout.tp, "dp": layout.dp * engines, "pp": layout.pp, "ep": layout.ep}
    if meant.model in EXPERTS:
        found["moe_tp"] = layout.tp * layout.dp // layout.ep
        found["redundant_experts"] = -EXPERTS[meant.model] % layout.ep
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
