"""Where the time of requests goes: TTFT, TPOT and the NPU time of a token by class of kernel and collective.

A request is on one server at a time, and a server is at a step or waits. So the time from a request's first step to its
first token, and from there to its last, is made of steps of its server, which are split by class. What a request waits
for before its first step is its queue. The parts of a mean add up to it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from astrarium.arrays import F64, I64
from astrarium.serving.design import ServingDesign
from astrarium.serving.fleet import Instance
from astrarium.serving.log import Log
from astrarium.serving.loop import run
from astrarium.serving.outcome import Served
from astrarium.serving.requests import requests_of
from astrarium.serving.server import Server
from astrarium.serving.servers import fleet_of
from astrarium.serving.settings import reaching
from astrarium.serving.shape import Shape
from astrarium.serving.steps.choose import classes_of
from astrarium.workload.inference.disaggregated import Disaggregated

__all__ = ["FIGURES", "Recorded", "recorded"]

FIGURES = ("ttft", "tpot", "npu_time")
QUEUE, TRANSFER, CLIENT, HOST, CACHES, IDLE = (
    "queue", "transfer of the cache", "to and from the client", "host", "cache from and to tiers", "no step")
PREFILL, DECODE = "steps with prompts", "decode steps"
Parts = Mapping[str, float]


class Recorded(Struct, frozen=True):
    """A stream that was served with a log of each server of the `instance`."""

    design: ServingDesign
    instance: Instance
    served: Served

    def parts(self, other: Instance | None = None) -> Mapping[str, Parts]:
        """Figure -> part -> ps: mean TTFT, mean TPOT, and the time of all NPUs for an output token, in the steady state
        or the whole run. `other`: whose step times count in place of its own, step by step."""
        times = [_Spent(server, _alike(other or self.instance, number, number < len(self.instance.front)))
                 for number, server in enumerate(self.instance.servers)]
        return {"ttft": self._ttft(times), "tpot": self._tpot(times), "npu_time": self._npus(times)}

    def facts(self) -> Mapping[str, float]:
        """What steps hold, and how full the servers are."""
        shapes = [shape for server in self.instance.servers if server.log for shape in server.log.shapes]
        counts = np.array([shape.count for shape in shapes if shape.count])
        contexts = np.array([shape.context for shape in shapes if shape.count])
        prompts = np.array([sum(part[0] for part in shape.prompts) for shape in shapes])
        served, summary = self.served, self.served.summary()
        return {"servers": served.servers, "steps": served.steps, "busy_share": served.busy_share,
                "decoding_mean": float(counts.mean()) if counts.size else 0.0,
                "context_mean": float(contexts.sum() / max(1, counts.sum())),
                "prompt_steps_share": float((prompts > 0).mean()),
                "prompt_tokens_mean": float(prompts[prompts > 0].mean()) if prompts.any() else 0.0,
                **{name: float(summary[name]) for name in (
                    "queue_mean", "cache_use_mean", "cache_use_most", "prefix_hit_share", "preemptions", "saturated")
                   if name in summary}}

    def _ttft(self, times: list[_Spent]) -> Parts:
        served, front = self.served, len(self.instance.front)
        begin, prompted, place = self._first_steps(times[:front])
        chosen, count = served.within(served.window), max(1, int(served.within(served.window).sum()))
        found = {QUEUE: float((begin - served.arrival)[chosen].sum()) / count,
                 TRANSFER: float((served.first - self.instance.offset - prompted)[chosen].sum()) / count,
                 CLIENT: float(self.instance.offset)}
        for number, spent in enumerate(times[:front]):
            mine = chosen & (place == number)
            _add(found, spent.between(begin[mine], prompted[mine]), np.full(int(mine.sum()), 1 / count))
        return found

    def _first_steps(self, times: list[_Spent]) -> tuple[I64, I64, I64]:
        """Of each request: when its first step began, when its prompt was done, on which server."""
        begin, prompted, place = (np.zeros(len(self.served.arrival), np.int64) for _ in range(3))
        for number, spent in enumerate(times):
            for request, end in spent.log.prompted.items():
                begin[request], prompted[request], place[request] = spent.log.seen[request], end, number
        return begin, prompted, place

    def _tpot(self, times: list[_Spent]) -> Parts:
        served, found = self.served, dict[str, float]()
        chosen = served.within(served.window) & (served.output > 1)
        weight = 1 / np.maximum(served.output - 1, 1) / max(1, int(chosen.sum()))
        for spent in times[len(self.instance.front):] or times:
            mine = np.zeros(len(chosen), np.bool_)
            mine[list(spent.log.seen)] = True
            mine &= chosen
            offset = self.instance.offset
            _add(found, spent.between(served.first[mine] - offset, served.finish[mine] - offset), weight[mine])
        return found

    def _npus(self, times: list[_Spent]) -> Parts:
        served, found, window = self.served, dict[str, float](), self.served.window
        start, end = (window.start, window.end) if window else (int(served.arrival.min()), int(served.finish.max()))
        tokens = served.rates(window)["output_tokens_per_s"] * (end - start) / 1e12
        for spent, npus in zip(times, self._sizes(), strict=True):
            _add(found, spent.between(np.array([start]), np.array([end])), np.array([npus / max(1.0, tokens)]))
        return found

    def _sizes(self) -> list[float]:
        """NPUs of each server; pipelines share theirs among their stages."""
        work, front, back = self.design.workload, len(self.instance.front), len(self.instance.back)
        if isinstance(work, Disaggregated):
            sides = ((work.phase("prefill").ranks, front), (work.phase("decode").ranks, back))
            return [ranks / many for ranks, many in sides for _ in range(many)]
        return [self.instance.npus / front] * front


def recorded(design: ServingDesign) -> Recorded:
    """Serve the stream of a design, step by step, with a log. Raises InputError as `serve` does."""
    fleet = fleet_of(design, design.policy, design.buckets, {})
    for server in fleet.servers:
        server.log = Log()
    stream = reaching(requests_of(design.requests), getattr(design.workload, "model", None), design.policy.priorities)
    return Recorded(design, fleet.instances[0], run(stream, fleet, single=True))


def _add(found: dict[str, float], parts: Mapping[str, F64], weights: F64) -> None:
    for name, each in parts.items():
        found[name] = found.get(name, 0.0) + float(each @ weights)


def _alike(instance: Instance, number: int, prefills: bool) -> Server:
    """The server of an instance that does what the one of this number does in another."""
    side = instance.front if prefills or not instance.back else instance.back
    return side[number % len(side)]


class _Spent:
    """The log of a server with the time of each class until the begin and the end of each step, ps; steps take as long
    as those of `timed`."""

    def __init__(self, server: Server, timed: Server):
        assert server.log is not None
        self.log = log = server.log
        known: dict[Shape, Parts] = {}
        self.at = np.ravel(np.stack([np.array(log.starts, np.float64), np.array(log.ends, np.float64)], 1))
        columns: dict[str, F64] = {}
        for number, shape in enumerate(log.shapes):
            if shape not in known:
                known[shape] = _classes(timed, shape)
            kind = PREFILL if shape.prompts else DECODE
            for name, time in known[shape].items():
                columns.setdefault(f"{kind}: {name}", np.zeros(len(self.at)))[2 * number + 1] = time
        moved = np.zeros(len(self.at))
        moved[1::2] = log.moving
        idle = np.zeros(len(self.at))
        idle[2::2] = self.at[2::2] - self.at[1:-1:2]
        self.sums = {name: np.cumsum(column) for name, column in {**columns, CACHES: moved, IDLE: idle}.items()}

    def between(self, start: I64, end: I64) -> Mapping[str, F64]:
        """Class -> ps from each start to each end [intervals]."""
        if not len(self.at):
            return {IDLE: (end - start).astype(np.float64)}
        found = {name: np.interp(end, self.at, sums) - np.interp(start, self.at, sums)
                 for name, sums in self.sums.items()}
        outside = np.minimum(end, self.at[0]) - np.minimum(start, self.at[0])
        found[IDLE] += outside + np.maximum(end, self.at[-1]) - np.maximum(start, self.at[-1])
        return found


def _classes(server: Server, shape: Shape) -> Parts:
    """The time of a step of a shape on a server by class, with what its host adds."""
    costs, each = server.costs, 1 + server.scheduler.batch.guesses
    tokens, mixed = shape.count * each + sum(part[0] for part in shape.prompts), bool(shape.prompts)
    found = classes_of(server.times, Shape(shape.count, shape.context, shape.prompts, costs.padding(tokens, mixed)))
    host = max(0.0, costs.launching(tokens, mixed) - sum(found.values())) + costs.of(shape.count + len(shape.prompts))
    return {**found, HOST: host}
