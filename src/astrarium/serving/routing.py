"""Which server a request goes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from astrarium.serving.fleet import Instance
from astrarium.serving.job import Job
from astrarium.serving.server import Server

__all__ = ["Router", "fewest"]

SHARE, MORE, TIMES = 0.3, 64, 1.5
"""SGLang's cache_threshold, balance_abs_threshold and balance_rel_threshold."""


class Router(Struct):
    """One router over the servers of all instances that are up, which `open` lists. `owner` of each server: its
    instance; `first` server of each instance. `sent` to each server: tokens up to the end of each segment of prompts.
    """

    instances: Sequence[Instance]
    servers: Sequence[Server]
    owner: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    turn: int = 0
    sent: list[dict[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number, instance in enumerate(self.instances):
            self.first.append(len(self.owner))
            self.owner += [number] * len(instance.servers)
        self.sent = [{} for _ in self.owner]

    def allow(self, up: Sequence[bool]) -> None:
        """Only the instances that are `up` get requests."""
        self.open = [self.first[number] + place for number, instance in enumerate(self.instances) if up[number]
                     for place in range(len(instance.front))]
        for place, number in enumerate(self.owner):
            if not up[number]:
                self.sent[place].clear()

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
        if routing == "cache_aware":
            return self._cache_aware(job)
        for place in places:
            servers[place].settle(now)
        return min(places, key=lambda place: _cost(servers[place], job))


    def _cache_aware(self, job: Job) -> int:
        """The server that was sent the longest prefix of the prompt, if that is more than SHARE of it; else, and if the
        busiest has MORE requests and TIMES as many as the idlest, that with the fewest (SGLang's gateway,
        sgl-model-gateway/src/policies/cache_aware.rs, and vLLM's router with their defaults; nothing is forgotten)."""
        loads = {place: self.servers[place].scheduler.load for place in self.open}
        chosen, most = min(loads, key=loads.__getitem__), max(loads.values())
        if most - loads[chosen] <= MORE or most <= TIMES * loads[chosen]:
            known = {place: _known(self.sent[place], job) for place in self.open}
            best = max(known, key=known.__getitem__)
            chosen = best if known[best] > SHARE * job.prompt else chosen
        for key, end in job.segments:
            self.sent[chosen][key] = max(self.sent[chosen].get(key, 0), min(end, job.prompt))
        return chosen


def _known(sent: Mapping[int, int], job: Job) -> int:
    """Tokens of a job's prompt that begin one that was sent."""
    known = 0
    for key, end in job.segments:
        known = max(known, min(sent.get(key, 0), end, job.prompt))
        if known < end:
            break
    return known


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
