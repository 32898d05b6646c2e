"""What is served: a model, lengths, limits and a stack; the design, policy and stream of an engine that serves it."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct

from astrarium import config
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.planner.machine import Machine
from astrarium.planner.serving.engine import Engine, formats_of
from astrarium.serving.layout import SKEW, exchange_of, pool_of
from astrarium.serving.loop import run
from astrarium.serving.outcome import Served
from astrarium.serving.policy import Buckets, Policy
from astrarium.serving.requests import Poisson, requests_of
from astrarium.serving.serve import policy_of
from astrarium.serving.servers import fleet_of
from astrarium.serving.slo import Slo
from astrarium.serving.steps.simulated import Known
from astrarium.workload.inference.config import Inference
from astrarium.workload.model.base import Model

__all__ = ["LEAST", "LIVES", "SEED", "Service", "base_of", "service_of"]

RACK = 72
LIVES = 6       # times what a request lasts at its limits: the time in which requests arrive
LEAST = 400     # requests of a stream
SEED = 10123    # of 20,000 that whose steady states have arrivals closest to their rate: 2.3 % (400 to 6,000 requests)
NEEDS = ("ttft", "tpot")


class Service(Struct, frozen=True):
    """`name` of the `model`; tokens of a `prompt` and an answer (`output`); limits; the `stack` of the engines; `seed`
    of the streams."""

    name: Any
    model: Model
    prompt: int
    output: int
    slo: Slo
    stack: str | None
    seed: int = SEED

    @property
    def base(self) -> Inference:
        """The model on one rank."""
        return base_of(self.name)

    @property
    def lasts(self) -> float:
        """Seconds that a request at its limits lasts."""
        ttft, tpot = (self.slo.limit(metric) for metric in NEEDS)
        assert ttft is not None
        assert tpot is not None
        return (ttft.most + (self.output - 1) * tpot.most) / 1e9

    def stream(self, rate: float) -> Poisson:
        """Requests at random at a rate (1/s), as long as LIVES times a request lasts."""
        count = max(LEAST, math.ceil(LIVES * self.lasts * rate))
        return Poisson(rate=rate, count=count, seed=self.seed, prompt=self.prompt, output=self.output)

    def design(self, machine: Machine, engine: Engine) -> Design:
        """The design of one engine. Raises InputError for a layout or formats that the model does not have."""
        experts, layout = self.model.ep_units() or 0, engine.layout
        exchange = exchange_of(self.stack or "", machine.network.flat[0].npus >= RACK)
        work: dict[str, Any] = {"source": "inference", "model": self.name, "batch": layout.dp,
                                "formats": formats_of(engine, experts)}
        back = pool_of(experts, layout, exchange)
        if engine.prefill:
            first, second = engine.workers
            front = pool_of(experts, engine.prefill[0], exchange)
            work |= {"source": "disaggregated", "prompt": 1, "generated": 1,
                     "batch": layout.dp * second * engine.prefill[0].dp * first,
                     "prefill": {**front, "workers": first}, "decode": {**back, "workers": second}}
        else:
            work |= {"phase": "decode", "context": 1, **back}
        if experts and layout.dp == 1:
            work["routing"] = {"skew": SKEW}
        sections = {name: getattr(machine, name) for name in ("network", "compute", "memory", "collective", "system")}
        return config.decode(Design, {"workload": work, **sections, **({"stack": self.stack} if self.stack else {})})

    def policy(self, engine: Engine, design: Design) -> Policy:
        """How the engine fills steps: as its stack does, with its limit of tokens. Whole prompts need a step that holds
        what a preempted request has to compute again."""
        usual = policy_of(design)
        tokens = engine.tokens or usual.max_tokens
        tokens = max(tokens, self.prompt + self.output) if usual.whole else tokens
        changes: dict[str, object] = {"max_tokens": tokens}
        changes |= {} if usual.chunk is None else {"chunk": tokens}
        changes |= {"max_batch": engine.batch} if engine.batch else {}
        changes |= {"memory_share": engine.share} if engine.share else {}
        return config.replace_all(usual, changes)

    def serve(self, design: Design, policy: Policy, rate: float, known: Known) -> Served:
        """The stream at a rate on the design. `known` keeps step times between runs."""
        return run(requests_of(self.stream(rate)), fleet_of(design, policy, Buckets(), known))


def base_of(model: Any) -> Inference:
    """A model on one rank. Raises InputError."""
    return Inference(model, phase="decode", context=1)


def service_of(model: Any, prompt: int | None, output: int | None, slo: Slo, stack: str | None,
               seed: int = SEED) -> Service:
    """A service of a model (a name of the catalog, a Hugging Face config.json, or a Model). Raises InputError."""
    for name, value in (("prompt", prompt), ("output", output)):
        if value is None:
            raise InputError(name, "is missing", expected="tokens, such as " + ("4000" if name == "prompt" else "1000"))
        if value < 1 + (name == "output"):
            raise InputError(name, f"{value}", expected=f"at least {1 + (name == 'output')}")
    for metric in NEEDS:
        if slo.limit(metric) is None:
            raise InputError(metric, "is missing", expected="the most that it may be, such as " + (
                "2s" if metric == "ttft" else "30ms") + " (of the 99th percentile), or mean=1s")
    assert prompt is not None
    assert output is not None
    found = base_of(model).model
    if found.generation is None:
        raise InputError("model", f"a {found.tag} generates no tokens", expected="a decoder")
    return Service(model, found, prompt, output, slo, stack, seed)
