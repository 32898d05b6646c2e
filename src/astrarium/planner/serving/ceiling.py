"""Upper bounds of the rate at which an engine holds the limits, from a few exact step times; a first guess of it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from astrarium.arrays import F64
from astrarium.planner.serving.service import Service
from astrarium.serving.server import Server
from astrarium.serving.shape import Prompt, Shape
from astrarium.serving.slo import Limit
from astrarium.serving.steps.choose import exactly
from astrarium.units import format_time

__all__ = ["Ceiling", "ceiling_of"]

MARGIN = 0.95       # of a floor: measured kernels are not monotone in their sizes
FINER = 1.25        # between two numbers of sequences whose steps are timed
MIXED = 64          # sequences that decode beside a prompt, at most
SHARES = {0: 1.0, 50: 1.0, 90: 0.95, 99: 0.88}      # guess: mean over a percentile of TPOT (0: over the mean)


class Ceiling(Struct, frozen=True):
    """`sizes` [.] numbers of sequences, ascending from 1, `steps` [.] ns of a step that decodes so many with a prompt
    each in the cache, at least; `prompt`: ns that a prompt takes at least, `first`: at least until its token; `free`:
    steps with prompts that a prompt takes part in at most, in which others decode; `most`: sequences that fit. `answer`
    tokens, `share` of them for which the limit of TPOT is; `slack`: see Mix.
    """

    sizes: npt.NDArray[np.int64]
    steps: F64
    prompt: float
    first: float
    free: float
    most: int
    answer: float
    ttft: Limit
    tpot: Limit
    share: float
    slack: float = 0.0

    @property
    def why(self) -> str:
        """Which limit no rate holds, in words; empty where some may."""
        if MARGIN * self.first > self.ttft.most:
            return f"TTFT: {format_time(self.first)} without any load"
        if MARGIN * self.steps[0] > self.tpot.most:
            return f"TPOT: {format_time(float(self.steps[0]))} without any load"
        return ""

    @property
    def rate(self) -> float:
        """Requests/s that the engine does not exceed within the limits: see design/0026."""
        if self.why:
            return 0.0
        count = np.arange(1, self.most + 1, dtype=np.float64)
        step = MARGIN * self._minorant(count)
        count, step = count[step <= self.tpot.most], step[step <= self.tpot.most]
        if not count.size:
            return 0.0
        tokens = np.maximum(0.0, self.answer - 1 - self.free * count)
        return float((1e9 / (MARGIN * self.prompt + self.share * tokens * step / count)).max()) * (1 + self.slack)

    @property
    def prompts(self) -> float:
        """Prompts/s that it does at most, if it does nothing else; 0 if the first token comes too late."""
        return 0.0 if MARGIN * self.first > self.ttft.most else 1e9 / (MARGIN * self.prompt) * (1 + self.slack)

    @property
    def decodes(self) -> float:
        """Requests/s that it decodes at most within the limit of TPOT, if it does nothing else."""
        return self._decoding(MARGIN, self.tpot.most) * (1 + self.slack)

    def decoding_guess(self, longer: float = 1.0) -> float:
        """Requests/s that it may decode, with steps `longer` times as long."""
        return self._decoding(longer, self.tpot.most * SHARES[self.tpot.percent])

    def _decoding(self, longer: float, limit: float) -> float:
        count = np.arange(1, self.most + 1, dtype=np.float64)
        step = longer * self._minorant(count)
        fits = step <= limit
        share = self.share if longer < 1 else 1.0
        return float((1e9 * count[fits] / step[fits]).max(initial=0.0)) / (self.answer - 1) / share

    def guess(self, longer: float = 1.0) -> float:
        """Requests/s at which TPOT about reaches its limit, with steps `longer` times as long: with r requests/s a
        share r P of the time goes to prompts, and r (n - 1) TPOT sequences decode in the rest."""
        limit, low, high = self.tpot.most * SHARES[self.tpot.percent], 0.0, 1e9 / (self.prompt * longer)
        for _ in range(40):
            rate = (low + high) / 2
            count = rate * (self.answer - 1) * limit / 1e9
            step = longer * float(np.interp(count, self.sizes, self.steps))
            fits = count <= self.most and step <= limit * (1 - rate * longer * self.prompt / 1e9)
            low, high = (rate, high) if fits else (low, rate)
        return low

    def _minorant(self, count: F64) -> F64:
        """The convex minorant of steps, whose times between two sizes are at least that of the smaller one."""
        ends = np.append(self.sizes[1:] - 1, self.most).astype(np.float64)
        points = [(float(self.sizes[0]), float(self.steps[0])), *zip(ends.tolist(), self.steps.tolist(), strict=True)]
        hull: list[tuple[float, float]] = []
        for point in points:
            while len(hull) > 1 and _turns(hull[-2], hull[-1], point):
                hull.pop()
            if not hull or point[0] > hull[-1][0]:
                hull.append(point)
        found: F64 = np.interp(count, *np.array(hull).T)
        return found


def _turns(one: tuple[float, float], two: tuple[float, float], three: tuple[float, float]) -> bool:
    """Whether the middle point is on or above the line between the others."""
    return (two[1] - one[1]) * (three[0] - one[0]) >= (three[1] - one[1]) * (two[0] - one[0])


def ceiling_of(service: Service, server: Server, offset: float) -> Ceiling | None:
    """The ceiling of an engine that is one server; None: its cache holds no request. `offset` ns of a first token."""
    ttft, tpot = service.slo.limit("ttft"), service.slo.limit("tpot")
    assert ttft is not None
    assert tpot is not None
    scheduler, mix = server.scheduler, service.mix
    prompt, context = mix.prompt, mix.context
    cache, policy = scheduler.cache, scheduler.policy
    if cache.of(mix.longest) > cache.total:
        return None
    most = min(scheduler.most, cache.total // cache.of(prompt))
    sizes = np.unique(np.minimum(most, np.ceil(FINER ** np.arange(math.log(most, FINER) + 2)).astype(np.int64)))
    longest = min(policy.max_tokens, policy.chunk or policy.max_tokens)
    several = _prompts(prompt, longest, policy.max_tokens)
    beside = min(MIXED, most)
    shapes = [_padded(server, Shape(int(count), int(count) * context)) for count in sizes]
    shapes += [_padded(server, Shape(0, 0, each)) for each in several]
    shapes += [_padded(server, Shape(beside, beside * context, each)) for each in (several[0], ())]
    times = _timed(server, shapes)
    steps, whole = times[:len(sizes)], times[len(sizes):-2]
    parts = -(-prompt // longest)       # steps of a prompt alone
    alone = float(whole[:parts].sum())
    each = [alone, float(times[-2] - times[-1]) + (alone - float(whole[0]))]
    each += [float(time) * prompt / sum(part[0] for part in shape) for shape, time in
             zip(several[parts:], whole[parts:], strict=True)]
    first = alone if mix.first == prompt else float(_timed(server, [
        _padded(server, Shape(0, 0, each)) for each in _prompts(mix.first, longest, mix.first)]).sum())
    free = 0 if policy.schedule == "prefill_first" else 1 if policy.whole else parts + 1 + mix.varies
    return Ceiling(sizes, steps, min(each), first + offset, free, most, mix.output, ttft, tpot, mix.share, mix.slack)


def _prompts(prompt: int, longest: int, tokens: int) -> list[tuple[Prompt, ...]]:
    """Prompts of steps of at most `tokens`: the parts of one, of at most `longest`, each alone; then several whole ones
    in a step."""
    parts = [((min(longest, prompt - past), past, int(prompt - past <= longest)),)
             for past in range(0, prompt, longest)]
    most = tokens // prompt if prompt <= longest else 1
    counts = {*(2 ** power for power in range(1, most.bit_length())), most} - {0, 1}
    return [*parts, *(((prompt, 0, 1),) * count for count in sorted(counts))]


def _padded(server: Server, shape: Shape) -> Shape:
    tokens = shape.count + sum(part[0] for part in shape.prompts)
    return Shape(shape.count, shape.context, shape.prompts, server.costs.padding(tokens, bool(shape.prompts)))


def _timed(server: Server, shapes: list[Shape]) -> F64:
    """Times of steps in ns, as the server takes them."""
    costs = server.costs
    found = []
    for shape, time in zip(shapes, exactly(server.times, shapes), strict=True):
        tokens = shape.count + sum(part[0] for part in shape.prompts)
        found.append(max(int(time), costs.launching(tokens, bool(shape.prompts)))
                     + costs.of(shape.count + len(shape.prompts)))
    return np.array(found, np.float64) / 1000
