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
from astrarium.planner.serving.mix import Mix, equal, mix_of
from astrarium.serving.layout import SKEW, exchange_of, pool_of
from astrarium.serving.loop import run
from astrarium.serving.outcome import Served
from astrarium.serving.policy import Buckets, Policy
from astrarium.serving.requests import Arrivals, Poisson, requests_of
from astrarium.serving.serve import policy_of
from astrarium.serving.servers import fleet_of
from astrarium.serving.slo import Limit, Slo
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
    """`name` of the `model`; the lengths of requests (`mix`); limits; the `stack` of the engines; `seed` of the
    streams. `arrivals`: the stream whose lengths these are; None: all requests are alike, and come at random."""

    name: Any
    model: Model
    mix: Mix
    slo: Slo
    stack: str | None
    seed: int = SEED
    arrivals: Arrivals | None = None

    @property
    def base(self) -> Inference:
        """The model on one rank."""
        return base_of(self.name)

    @property
    def lasts(self) -> float:
        """Seconds that a long request at its limits lasts."""
        ttft, tpot = (self.slo.limit(metric) for metric in NEEDS)
        assert ttft is not None
        assert tpot is not None
        return (ttft.most + (self.mix.long - 1) * tpot.most) / 1e9

    def stream(self, rate: float) -> Arrivals:
        """Requests at a rate (1/s), as long as LIVES times a request lasts. Those of a stream are a power of two times
        LEAST, so that rates that are near each other have the same lengths."""
        count = max(LEAST, math.ceil(LIVES * self.lasts * rate))
        if self.arrivals is not None:
            count = LEAST << math.ceil(math.log2(count / LEAST))
            return config.replace_all(self.arrivals, {"rate": rate, "count": count, "seed": self.seed})
        return Poisson(rate=rate, count=count, seed=self.seed, prompt=self.mix.prompt, output=self.mix.long)

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
        tokens = max(tokens, self.mix.longest) if usual.whole else tokens
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
               seed: int = SEED, arrivals: Arrivals | None = None) -> Service:
    """A service of a model (a name of the catalog, a Hugging Face config.json, or a Model). `arrivals`: a stream in
    place of `prompt` and `output`. Raises InputError."""
    limits = [slo.limit(metric) for metric in NEEDS]
    for metric, limit in zip(NEEDS, limits, strict=True):
        if limit is None:
            raise InputError(metric, "is missing", expected="the most that it may be, such as " + (
                "2s" if metric == "ttft" else "30ms") + " (of the 99th percentile), or mean=1s")
    ttft, tpot = limits
    assert ttft is not None
    assert tpot is not None
    mix = _equal(prompt, output, tpot) if arrivals is None else mix_of(arrivals, ttft, tpot)
    if arrivals is not None and (prompt is not None or output is not None):
        raise InputError("requests", "have lengths of their own", expected="no prompt and no output")
    found = base_of(model).model
    if found.generation is None:
        raise InputError("model", f"a {found.tag} generates no tokens", expected="a decoder")
    return Service(model, found, mix, slo, stack, seed, arrivals)


def _equal(prompt: int | None, output: int | None, tpot: Limit) -> Mix:
    for name, value in (("prompt", prompt), ("output", output)):
        if value is None:
            raise InputError(name, "is missing", expected="--prompt 4000 --output 1000 (tokens of a prompt and of an "
                                                          "answer), or --requests FILE")
        if value < 1 + (name == "output"):
            raise InputError(name, f"{value}", expected=f"at least {1 + (name == 'output')}")
    assert prompt is not None
    assert output is not None
    return equal(prompt, output, tpot)
