"""The servers that a design is: one per data-parallel replica, of each pool where the phases are apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from astrarium import config
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.serving.batch import Batch
from astrarium.serving.cache import Blocks, Store
from astrarium.serving.loop import Fleet
from astrarium.serving.policy import Buckets, Policy, Tier
from astrarium.serving.scheduler import Scheduler
from astrarium.serving.server import Server, costs_of
from astrarium.serving.steps.simulated import Known, Simulated, TransferTimes
from astrarium.workload.inference.config import Inference, Speculation
from astrarium.workload.inference.disaggregated import Disaggregated
from astrarium.workload.inference.footprint import cache_blocks, cache_bytes
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.inference.transfers import Shards

__all__ = ["fleet_of"]


def fleet_of(design: Design, policy: Policy, buckets: Buckets, known: Known) -> Fleet:
    """The servers. The ranks of each are next to each other. Raises InputError for what is not served."""
    work, offset = design.workload, round(float(policy.stream_offset) * 1000)
    if isinstance(work, Inference):
        front = _servers(design, _shards(work, 0, "workload"), policy, buckets, known, work.speculation)
        return Fleet(front, offset=offset, npus=work.ranks)
    if not isinstance(work, Disaggregated):
        raise InputError("workload.source", "is not served", expected="inference or disaggregated")
    if work.retrieval is not None:
        raise InputError("workload.retrieval", "is not served", expected="no retrieval")
    prefill = work.phase("prefill")
    fronts = _shards(prefill, 0, "workload.prefill")
    backs = _shards(work.phase("decode"), prefill.ranks, "workload.decode")
    return Fleet(_servers(design, fronts, policy, buckets, known), _servers(design, backs, policy, buckets, known),
                 TransferTimes(design, fronts, backs, buckets, known).of, offset, work.ranks)


def _shards(work: Inference, start: int, path: str) -> list[Shards]:
    """The replicas of a workload, each on ranks of its own."""
    if work.ep > 1:
        raise InputError(f"{path}.ep", "replicas that share experts are not served", expected="1, and experts over tp")
    one = config.replace_all(work, {"dp": 1, "batch": work.batch // work.dp})
    return [Shards(replica_of(one), start + number * one.ranks) for number in range(work.dp)]


def _drawn(speculation: Speculation, seed: int) -> Callable[[int], npt.NDArray[np.int64]]:
    """Tokens that a decoding sequence gets in successive steps: accepted guesses up to the first that is not, and one.
    """
    generator, most = np.random.Generator(np.random.PCG64(seed)), speculation.tokens + 1
    missed = 1 - speculation.acceptance
    if missed <= 0:
        return lambda steps: np.full(steps, most, np.int64)
    return lambda steps: np.minimum(generator.geometric(missed, steps), most)


def _servers(design: Design, shards: Sequence[Shards], policy: Policy, buckets: Buckets, known: Known,
             speculation: Speculation | None = None) -> list[Server]:
    if design.memory.capacity is None:
        raise InputError("memory.capacity", "is missing", expected="what bounds the cache")
    room = float(design.memory.capacity) * policy.memory_share
    guesses = speculation.tokens if speculation else 0
    draft = replace(shards[0].replica, model=speculation.draft) if speculation else None
    models = (shards[0].replica, draft) if draft else (shards[0].replica,)
    blocks = cache_blocks(models, room, policy.block, policy.max_tokens)
    size = cache_bytes(models, policy.block)
    shared = [_store(tier, size) for tier in policy.tiers]
    draw = _drawn(speculation, policy.seed) if speculation else None

    def server(each: Shards) -> Server:
        stores = [common if tier.shared else _store(tier, size)
                  for tier, common in zip(policy.tiers, shared, strict=True)]
        swap = stores[0].per_block if stores else 0.0
        scheduler = Scheduler(policy, Blocks(blocks, policy.block, stores, policy.prefix_cache),
                              Batch(policy.block, guesses, draw), swap)
        return Server(scheduler, Simulated(design, each.replica, each.start, buckets, known, draft, guesses),
                      costs_of(policy))

    return [server(each) for each in shards]


def _store(tier: Tier, block: float) -> Store:
    """A tier for blocks of `block` bytes, over all ranks of a server."""
    return Store(int(tier.capacity // block), block / float(tier.bandwidth) * 1000, round(float(tier.latency) * 1000))
