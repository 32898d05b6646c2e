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
    """Blocks that the prompt still needs there, and those that requests hold or wait for (NVIDIA Dynamo's KV router
    with overlap weight 1)."""
    scheduler = server.scheduler
    cache = scheduler.cache
    _, hit, _ = cache.match(job.segments, job.todo)
    return cache.of(job.todo + scheduler.queued) - hit + cache.total - cache.free
