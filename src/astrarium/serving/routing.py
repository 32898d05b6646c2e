"""Which server a request goes to."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from astrarium.serving.fleet import Instance
from astrarium.serving.job import Job
from astrarium.serving.server import Server

__all__ = ["Router", "fewest"]


class Router(Struct):
    """One router over the servers of all instances that are up, which `open` lists. `owner` of each server: its
    instance; `first` server of each instance."""

    instances: Sequence[Instance]
    servers: Sequence[Server]
    owner: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    turn: int = 0

    def __post_init__(self) -> None:
        for number, instance in enumerate(self.instances):
            self.first.append(len(self.owner))
            self.owner += [number] * len(instance.servers)

    def allow(self, up: Sequence[bool]) -> None:
        """Only the instances that are `up` get requests."""
        self.open = [self.first[number] + place for number, instance in enumerate(self.instances) if up[number]
                     for place in range(len(instance.front))]

    def place(self, job: Job, now: int) -> int | None:
        """The server of the next request, by the policy's `routing`, the first of equals; None: no instance is up."""
        self.turn += 1
        places, servers = self.open, self.servers
        if len(places) < 2:
            return places[0] if places else None
        routing = servers[places[0]].scheduler.policy.routing
        if routing == "round_robin":
            return places[(self.turn - 1) % len(places)]
        if routing == "fewest":
            return min(places, key=lambda place: servers[place].scheduler.load)
        for place in places:
            servers[place].settle(now)
        return min(places, key=lambda place: _cost(servers[place], job))


def fewest(servers: Sequence[Server]) -> int:
    """The server with the fewest requests, the first of equals."""
    return min(range(len(servers)), key=lambda place: servers[place].scheduler.load) if len(servers) > 1 else 0


def _cost(server: Server, job: Job) -> int:
    """Tokens of prompts to compute and of the cache in use, in whole blocks, both with the job there (NVIDIA Dynamo's
    KV router with its defaults, which counts blocks: https://docs.nvidia.com/dynamo, routing concepts). A prompt counts
    in full until its first token; the job's blocks that others use there are in use already."""
    scheduler = server.scheduler
    cache = scheduler.cache
    _, hit, idle = cache.match(job.segments, job.todo)
    begun = sum(each.todo - (each.cached or 0) for each in scheduler.prompts.values())
    compute = cache.of(scheduler.queued + begun + job.todo) - cache.shared(hit)
    use = cache.total - cache.free + cache.of(scheduler.queued + job.todo) - (cache.shared(hit) - idle)
    return (compute + use) * cache.block
