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
from astrarium.serving.scheduler import Scheduler
from astrarium.serving.steps import Known, StepTimes, TransferTimes
from astrarium.workload.inference.config import Inference, Speculation
from astrarium.workload.inference.disaggregated import Disaggregated
from astrarium.workload.inference.footprint import cache_blocks
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.inference.transfers import Shards

__all__ = ["fleet_of"]


def fleet_of(design: Design, policy: Policy, buckets: Buckets, known: Known) -> Fleet:
    """The servers. The ranks of each are next to each other. Raises InputError for what is not served."""
    work, overhead = design.workload, round(float(policy.overhead) * 1000)
    if isinstance(work, Inference):
        front = _servers(design, _shards(work, 0, "workload"), policy, buckets, known, work.speculation)
        return Fleet(front, overhead=overhead, yielded=_yielded(work.speculation, policy.seed))
    if not isinstance(work, Disaggregated):
        raise InputError("workload.source", "is not served", expected="inference or disaggregated")
    if work.retrieval is not None:
        raise InputError("workload.retrieval", "is not served", expected="no retrieval")
    prefill = work.phase("prefill")
    fronts = _shards(prefill, 0, "workload.prefill")
    backs = _shards(work.phase("decode"), prefill.ranks, "workload.decode")
    return Fleet(_servers(design, fronts, policy, buckets, known), _servers(design, backs, policy, buckets, known),
                 TransferTimes(design, fronts, backs, buckets, known).of, overhead)


def _shards(work: Inference, start: int, path: str) -> list[Shards]:
    """The replicas of a workload, each on ranks of its own."""
    if work.ep > 1:
        raise InputError(f"{path}.ep", "replicas that share experts are not served", expected="1, and experts over tp")
    one = config.replace_all(work, {"dp": 1, "batch": work.batch // work.dp})
    return [Shards(replica_of(one), start + number * one.ranks) for number in range(work.dp)]


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
    draft = replace(shards[0].replica, model=speculation.draft) if speculation else None
    models = (shards[0].replica, draft) if draft else (shards[0].replica,)
    blocks = cache_blocks(models, room, policy.block, policy.max_tokens)
    return [Server(Scheduler(policy, blocks.total, guesses=guesses, blocks=blocks),
                   StepTimes(design, each.replica, each.start, buckets, known, draft, guesses).of) for each in shards]
