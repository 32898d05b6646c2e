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
from astrarium.serving.fleet import Fleet, Instance
from astrarium.serving.gate import Gate
from astrarium.serving.links import Links
from astrarium.serving.policy import Buckets, Policy, Tier
from astrarium.serving.scheduler import Scheduler
from astrarium.serving.server import Server, costs_of
from astrarium.serving.settings import refuse_or_note
from astrarium.serving.shape import Shape
from astrarium.serving.steps.choose import times_of
from astrarium.serving.steps.lockstep import Lockstep
from astrarium.serving.steps.nodes import launches_of
from astrarium.serving.steps.simulated import Known, Simulated, TransferTimes
from astrarium.units import format_bytes
from astrarium.workload.inference.config import Inference, Speculation
from astrarium.workload.inference.disaggregated import Disaggregated
from astrarium.workload.inference.footprint import cache_blocks, cache_bytes
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.inference.transfers import Shards

__all__ = ["fleet_of"]


def fleet_of(design: Design, policy: Policy, buckets: Buckets, known: Known, *, count: int = 1, member: int = 0,
             startup: float = 0.0, load: float | None = None) -> Fleet:
    """`count` instances of a design, new: nothing has come to them.

    Ranks of a server are next to each other; ranks of dp that share experts are one server, and a pipeline has as many
    servers as stages. An instance takes requests `startup` ns after its start, and (with `load`, bytes/ns) after it has
    read its weights. `member`: their entry of the fleet. Raises InputError for what is not served.
    """
    work, notes = design.workload, tuple(refuse_or_note(design, policy))
    offset = round(float(policy.stream_offset) * 1000)
    if isinstance(work, Inference):
        pools = [_shards(work, 0)]
        sides = [_maker(design, pools[0], policy, buckets, known, work.speculation)]
    elif isinstance(work, Disaggregated):
        if work.retrieval is not None:
            raise InputError("workload.retrieval", "is not served", expected="no retrieval")
        prefill, decode = work.phase("prefill"), work.phase("decode")
        pools = [_shards(prefill, 0), _shards(decode, prefill.ranks)]
        sides = [_maker(design, pools[0], policy, buckets, known),
                 _maker(design, pools[1], policy, buckets, known, work.speculation)]
    else:
        raise InputError("workload.source", f"{work.tag} is not served", expected="inference or disaggregated")
    start = round((startup + (_weights(pools) / load if load else 0.0)) * 1000)
    instances = [Instance(sides[0](), sides[1]() if sides[1:] else (), _links(design, pools, buckets, known), offset,
                          work.ranks, start, member) for _ in range(count)]
    if buckets != Buckets() and instances[0].links is None and all(server.times.how.startswith("steps from tables")
                                    for server in instances[0].servers):
        notes = (*notes, "buckets: do nothing, since step times come from tables")
    return Fleet(instances, notes=notes)


def _weights(pools: Sequence[Sequence[Shards]]) -> float:
    """Bytes of weights on all ranks."""
    return sum(each.replica.weight_bytes(stage) * each.replica.mesh.ranks / each.replica.stages
               for shards in pools for each in shards for stage in range(each.replica.stages))


def _links(design: Design, pools: Sequence[Sequence[Shards]], buckets: Buckets, known: Known) -> Links | None:
    """The links between two pools; a pipeline has as many servers as stages. None: of one pool."""
    if len(pools) < 2:
        return None
    times = TransferTimes(design, pools[0], pools[1], buckets, known)
    stages = [pool[0].replica.stages for pool in pools]
    return Links(lambda front, back, tokens: times.of(front // stages[0], back // stages[1], tokens),
                 lambda front, back: times.shares(front // stages[0], back // stages[1]))


def _shards(work: Inference, start: int) -> list[Shards]:
    """The replicas of a workload, each on separate ranks; ranks of dp that share experts are one replica."""
    many = work.mesh.size(("edp",))
    one = config.replace_all(work, {"dp": work.dp // many, "batch": work.batch // many})
    return [Shards(replica_of(one), start + number * one.ranks) for number in range(many)]


def _drawn(speculation: Speculation, seed: int) -> Callable[[int], npt.NDArray[np.int64]]:
    """Tokens that a decoding sequence gets in successive steps: accepted guesses up to the first that is not, and one.
    """
    generator, most = np.random.Generator(np.random.PCG64(seed)), speculation.tokens + 1
    missed = 1 - speculation.acceptance
    if missed <= 0:
        return lambda steps: np.full(steps, most, np.int64)
    return lambda steps: np.minimum(generator.geometric(missed, steps), most)


def _maker(design: Design, shards: Sequence[Shards], policy: Policy, buckets: Buckets, known: Known,
           speculation: Speculation | None = None) -> Callable[[], list[Server]]:
    """What makes the servers of an instance; those of all that it makes share the tiers that are `shared`."""
    if design.memory.capacity is None:
        raise InputError("memory.capacity", "is missing", expected="what bounds the cache")
    room = float(design.memory.capacity) * policy.memory_share
    guesses, replica = speculation.tokens if speculation else 0, shards[0].replica
    ranks, stages = replica.mesh.size(("dp",)), replica.stages
    draft = replica.drafting(speculation.draft) if speculation else None
    models = (replica, draft) if draft else (replica,)
    held = cache_blocks(models, room, policy.block, policy.max_tokens)
    blocks, uneven = held.total * ranks // stages, None if held.even else held
    size = cache_bytes(models, policy.block)
    _used(policy, size, held.shares)
    shared = [_store(tier, size) for tier in policy.tiers]
    draw = _drawn(speculation, policy.seed) if speculation else None
    costs = costs_of(policy, ranks, (0, 0) if policy.launch is None else _launches(
        Simulated(design, replica, shards[0].start, buckets, known, draft, guesses)))

    def server(each: Shards) -> Server:
        stores = [common if tier.shared else _store(tier, size)
                  for tier, common in zip(policy.tiers, shared, strict=True)]
        swap = stores[0].per_block if stores else 0.0
        cache = Blocks(blocks, policy.block, stores, policy.prefix_cache and held.shares, uneven)
        enough = round(policy.wait_share * policy.max_tokens)
        gate = Gate(policy.wait_steps, ranks, enough) if policy.wait_steps else Gate(
            policy.poll, ranks, polls=True) if policy.poll > 1 else None
        batch = Batch(policy.block, guesses, draw, uneven)
        scheduler = Scheduler(_of_all(policy, ranks, stages), cache, batch, swap, gate)
        times = times_of(design, each.replica, each.start, buckets, known, draft, guesses, pool=shards[0].start)
        return Server(scheduler, times if ranks == 1 else Lockstep(times, ranks), costs)

    return lambda: [server(each) for each in shards for _ in range(stages)]


def _used(policy: Policy, size: float, shares: bool) -> None:
    """Raise InputError for tiers that hold no block of `size` bytes, or nothing that is read back."""
    for number, tier in enumerate(policy.tiers):
        if tier.capacity < size:
            raise InputError(f"policy.tiers[{number}].capacity",
                             f"{format_bytes(float(tier.capacity))} is less than a block",
                             expected=f"at least {format_bytes(size)}: {policy.block} tokens on all ranks of a server")
    if policy.tiers and not shares and policy.preemption != "swap":
        raise InputError("policy.tiers", "have no effect: this model keeps a state, which requests do not share",
                         expected="no tiers, or preemption: swap")


def _launches(steps: Simulated) -> tuple[int, int]:
    """Kernels of a decode step, and of a step with prompts."""
    models = (steps.replica, steps.draft)
    decode, prompts = (sum(launches_of(models[each.model] or steps.replica, each.packed)
                           for each in steps.passes(shape)) for shape in (Shape(1, 100), Shape(1, 100, ((8, 0, 1),))))
    return decode, prompts


def _of_all(policy: Policy, ranks: int, stages: int) -> Policy:
    """The policy of a server whose sequences are on `ranks` ranks of dp, each of which has the policy's limits (a
    prompt is on one of them), and which is one of `stages` that share those of a pipeline."""
    if ranks == stages == 1:
        return policy
    cut = policy.chunk if policy.whole else min(policy.chunk or policy.max_tokens, policy.max_tokens)
    return replace(policy, max_batch=min(65_536, max(1, policy.max_batch // stages) * ranks), chunk=cut,
                   max_tokens=min(10_000_000, policy.max_tokens * ranks))


def _store(tier: Tier, block: float) -> Store:
    """A tier for blocks of `block` bytes, over all ranks of a server."""
    return Store(int(tier.capacity // block), block / float(tier.bandwidth) * 1000, round(float(tier.latency) * 1000))
