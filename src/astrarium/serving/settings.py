"""Settings of a design and a policy that cannot be meant, and those that do nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from astrarium import catalog
from astrarium.config.spec import specs
from astrarium.design import Design
from astrarium.errors import InputError, nearest
from astrarium.serving.policy import Policy
from astrarium.serving.requests import Requests
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.disaggregated import Disaggregated
from astrarium.workload.inference.spread import exchanges
from astrarium.workload.model.base import Model

__all__ = ["of_stack", "policy_settings", "reaching", "refuse_or_note"]


def of_stack(design: Design) -> Mapping[str, Any]:
    """What the design's stack says of the policy. Raises InputError for a stack that does not serve."""
    return policy_settings(design.stack)


def policy_settings(stack: str | None) -> Mapping[str, Any]:
    """What a stack says of the policy; nothing without one. Raises InputError for a name that is not a stack, and for a
    stack that does not serve."""
    if stack is None:
        return {}
    stacks = catalog.load("stacks")
    engines = [name for name, row in stacks.items() if "policy" in row]
    if stack not in stacks:
        raise InputError("stack", f"{stack[:60]!r} is not known", expected=f"{', '.join(engines)}, or no stack",
                         did_you_mean=nearest(stack, engines))
    if "policy" not in stacks[stack]:
        raise InputError("stack", f"{stack} trains, and does not serve (its row has no policy)",
                         expected=f"{', '.join(engines)}, or no stack")
    found: Mapping[str, Any] = stacks[stack]["policy"]
    return found


def refuse_or_note(design: Design, policy: Policy) -> Iterator[str]:
    """What does nothing, in words. Raises InputError for what would be answered wrongly."""
    work, stack = design.workload, of_stack(design)
    if stack.get("graphs") and not policy.graphs and policy.launch is None:
        raise InputError("policy.graphs", f"are none, where stack {design.stack} has some: without CUDA graphs the "
                         "host launches every kernel, and no cost of a launch is known",
                         expected="policy.launch, the host time of a launch (0 ns: none), or graphs")
    if policy.poll > 1 and policy.schedule != "prefill_first":
        raise InputError("policy.poll", f"{policy.poll} has no effect with schedule {policy.schedule}",
                         expected="schedule: prefill_first (SGLang), or no poll")
    if policy.wait_share < 1 and not policy.wait_steps:
        yield "policy.wait_share does nothing without wait_steps"
    if not isinstance(work, (Inference, Disaggregated)):
        return
    if work.host_launch > 0:
        raise InputError("workload.host_launch", f"{work.host_launch} is of a batch; a stream has policy.launch",
                         expected=f"policy.launch: {work.host_launch} in the serving file, and none here")
    fields = {spec.name for spec in specs(type(design.compute))}
    row = catalog.load("stacks")[design.stack].get("compute", {}) if design.stack else {}
    if unknown := [name for name in row if name not in fields]:
        yield (f"compute: model {design.compute.tag} has no {' and no '.join(unknown)}, so its kernels are not those "
               f"of stack {design.stack}; model: measured has")
    pools = {"workload": work} if isinstance(work, Inference) else {
        f"workload.{name}": work.phase(name) for name in ("prefill", "decode")}
    usual = catalog.load("stacks")[design.stack].get("workload", {}).get("exchange") if design.stack else None
    for path, pool in pools.items():
        if pool.sp > 1 and pool.uneven == "refuse":
            raise InputError(f"{path}.uneven", f"refuse: prompts of a stream have any length, and sp {pool.sp} divides "
                             "their tokens", expected="pad, or fractional")
        spread = exchanges(pool.model, pool.tp, pool.ep, pool.expert_parts)
        if pool.exchange not in ("all_to_all", usual) and not spread:
            yield f"{path}.exchange: {pool.exchange} does nothing: no experts are spread over ranks of dp"


def reaching(requests: Requests, model: Model | None, priorities: bool) -> Requests:
    """The requests, with notes of those that the model was not trained for, and of priorities that do nothing. Raises
    InputError for one that is longer than a learned table of positions."""
    most, seq = getattr(model, "max_positions", None), getattr(model, "seq", None)
    tokens, notes = requests.prompt + requests.output, list(requests.notes)
    longest = int(tokens.argmax())
    if most and getattr(model, "positions", "") == "learned" and tokens[longest] > most:
        raise InputError("requests", f"request {longest} has {tokens[longest]:,} tokens (prompt and answer)",
                         expected=f"at most {most:,}, the positions that the model has (workload.model.max_positions)")
    limit = most or seq
    if limit and tokens[longest] > limit:
        beyond = int(np.count_nonzero(tokens > limit))
        notes.append(f"{beyond:,} of {len(tokens):,} requests have more tokens (prompt and answer) than the {limit:,} "
                     f"of the model, up to {tokens[longest]:,}: an engine refuses what is beyond its max_model_len")
    if requests.priority is not None and not priorities:
        notes.append("priorities of requests do nothing: policy.priorities is false")
    return replace(requests, notes=tuple(notes))
