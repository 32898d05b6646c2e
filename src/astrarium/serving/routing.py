"""Which server a request goes to."""

from __future__ import annotations

from collections.abc import Sequence

from astrarium.serving.job import Job
from astrarium.serving.server import Server

__all__ = ["fewest", "routed"]


def fewest(servers: Sequence[Server]) -> int:
    """The server with the fewest requests, the first of equals."""
    return min(range(len(servers)), key=lambda place: servers[place].scheduler.load) if len(servers) > 1 else 0


def routed(servers: Sequence[Server], job: Job, turn: int) -> int:
    """The server of the request that is the `turn`th to come, by the policy's `routing`."""
    routing = servers[0].scheduler.policy.routing
    if routing == "round_robin":
        return turn % len(servers)
    if routing == "fewest" or len(servers) == 1:
        return fewest(servers)
    return min(range(len(servers)), key=lambda place: _cost(servers[place], job))


def _cost(server: Server, job: Job) -> int:
    """Blocks of prompts to compute and blocks in use, both with the job there (NVIDIA Dynamo's KV router with its
    defaults: https://docs.nvidia.com/dynamo, routing concepts). A prompt counts in full until its first token; the
    job's blocks that others use there are in use already."""
    scheduler = server.scheduler
    cache = scheduler.cache
    _, hit, idle = cache.match(job.segments, job.todo)
    begun = sum(each.todo - (each.cached or 0) for each in scheduler.prompts.values())
    compute = cache.of(scheduler.queued + begun + job.todo) - cache.shared(hit)
    use = cache.total - cache.free + cache.of(scheduler.queued + job.todo) - (cache.shared(hit) - idle)
    return compute + use
