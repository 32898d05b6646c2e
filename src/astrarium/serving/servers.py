"""The servers that a design is: one per data-parallel replica, of each pool where the phases are apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from astrarium import config
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.serving.loop import Fleet, Server
from astrarium.serving.policy import Buckets, Policy
from astrarium.serving.scheduler import Scheduler, Step
from astrarium.serving.shape import StepTimes
from astrarium.serving.steps.lockstep import Lockstep
from astrarium.serving.steps.simulated import Known, Simulated, TransferTimes
from astrarium.workload.inference.config import Inference, Speculation
from astrarium.workload.inference.disaggregated import Disaggregated
from astrarium.workload.inference.footprint import cache_blocks
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.inference.transfers import Shards

__all__ = ["fleet_of"]


def fleet_of(design: Design, policy: Policy, buckets: Buckets, known: Known) -> Fleet:
    """The servers. The ranks of each are next to each other; ranks of dp that share experts are one server. Raises
    InputError for what is not served."""
    work, overhead = design.workload, round(float(policy.overhead) * 1000)
    if isinstance(work, Inference):
        front = _servers(design, _shards(work, 0), policy, buckets, known, work.speculation)
        return Fleet(front, overhead=overhead, yielded=_yielded(work.speculation, policy.seed))
    if not isinstance(work, Disaggregated):
        raise InputError("workload.source", "is not served", expected="inference or disaggregated")
    if work.retrieval is not None:
        raise InputError("workload.retrieval", "is not served", expected="no retrieval")
    prefill = work.phase("prefill")
    fronts = _shards(prefill, 0)
    backs = _shards(work.phase("decode"), prefill.ranks)
    return Fleet(_servers(design, fronts, policy, buckets, known), _servers(design, backs, policy, buckets, known),
                 TransferTimes(design, fronts, backs, buckets, known).of, overhead)


def _shards(work: Inference, start: int) -> list[Shards]:
    """The replicas of a workload, each on ranks of its own; ranks of dp that share experts are one replica."""
    many = work.mesh.size(("edp",))
    one = config.replace_all(work, {"dp": work.dp // many, "batch": work.batch // many})
    return [Shards(replica_of(one), start + number * one.ranks) for number in range(many)]


def _yielded(speculation: Speculation | None, seed: int) -> Callable[[], int]:
    """How many tokens a decoding sequence gets in a step: accepted guesses up to the first that is not, and one."""
    if speculation is None:
        return lambda: 1
    generator, most = np.random.Generator(np.random.PCG64(seed)), speculation.tokens + 1
    missed = 1 - speculation.acceptance
    return lambda: min(int(generator.geometric(missed)), most) if missed > 0 else most


def _servers(design: Design, shards: Sequence[Shards], policy: Policy, buckets: Buckets, known: Known,
             speculation: Speculation | None = None) -> list[Server]:
    if design.memory.capacity is None:
        raise InputError("memory.capacity", "is missing", expected="what bounds the cache")
    room = float(design.memory.capacity) * policy.memory_share
    guesses = speculation.tokens if speculation else 0
    draft = shards[0].replica.drafting(speculation.draft) if speculation else None
    models = (shards[0].replica, draft) if draft else (shards[0].replica,)
    blocks, ranks = cache_blocks(models, room, policy.block, policy.max_tokens), shards[0].replica.mesh.size(("dp",))
    whole = replace(policy, max_batch=min(65_536, policy.max_batch * ranks),
                    max_tokens=min(10_000_000, policy.max_tokens * ranks))
    return [Server(Scheduler(whole, blocks.total * ranks, guesses=guesses, blocks=blocks),
                   _timed(Simulated(design, each.replica, each.start, buckets, known, draft, guesses), ranks))
            for each in shards]


def _timed(times: StepTimes, ranks: int) -> Callable[[Step], int]:
    """Times of the steps of a replica with `ranks` ranks of dp."""
    every = Lockstep(times, ranks) if ranks > 1 else times
    return lambda step: every.of(step.shape)
