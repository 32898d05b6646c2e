"""Pools of engines that prefill and of engines that decode: which numbers of which go together, and their ceiling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from astrarium.planner.serving.ceiling import Ceiling
from astrarium.planner.serving.engine import Engine

__all__ = ["PAIRS", "PoolsCeiling", "pools_of"]

WORKERS, PAIRS = 8, 6       # of a pool at most; pairs of layouts that are served, of each format
BUSY = 0.85         # guess: share of the time in which engines that prefill are at work


class PoolsCeiling(Struct, frozen=True):
    """The ceilings of an engine that prefills and of one that decodes, and the `workers` of both pools."""

    prefill: Ceiling
    decode: Ceiling
    workers: tuple[int, int]

    @property
    def rate(self) -> float:
        """Requests/s that both pools do not exceed."""
        return min(self.workers[0] * self.prefill.prompts, self.workers[1] * self.decode.decodes)

    def guess(self, longer: float = 1.0) -> float:
        """Requests/s that they may serve, with steps `longer` times as long."""
        return min(self.workers[0] * BUSY * self.prefill.prompts / longer,
                   self.workers[1] * self.decode.decoding_guess(longer))


def pools_of(parts: Sequence[tuple[Engine, Ceiling]], most: int, host: int) -> Iterator[tuple[Engine, PoolsCeiling]]:
    """The pools of engines of one device that are worth serving.

    They are, of each format, the PAIRS pairs of layouts with the most requests per NPU by their guesses, each with the
    numbers of engines for which that is largest. All have at most `most` NPUs, in a host or in whole hosts, and no
    engine that decodes lies across the border of its size.
    """
    formats = dict.fromkeys((engine.weights, engine.cache, engine.tokens) for engine, _ in parts)
    for each in formats:
        same = [(engine, ceiling) for engine, ceiling in parts
                if (engine.weights, engine.cache, engine.tokens) == each]
        found = []
        for (front, prefill), (back, decode) in product(same, same):
            best = max(((made.guess() / npus, -npus, made) for made, npus in _numbers(
                front, prefill, back, decode, most, host)), key=lambda made: made[:2], default=None)
            if best is not None and best[0] > 0:
                found.append((best[0], replace(back, prefill=(front.layout,), workers=best[2].workers), best[2]))
        found.sort(key=lambda made: (-made[0], made[1]))
        yield from ((engine, ceiling) for _, engine, ceiling in found[:PAIRS])


def _numbers(front: Engine, prefill: Ceiling, back: Engine, decode: Ceiling, most: int, host: int
             ) -> Iterator[tuple[PoolsCeiling, int]]:
    """Numbers of engines that fit, as ceilings, and their NPUs."""
    for first, second in product(range(1, WORKERS + 1), repeat=2):
        ahead = first * front.layout.npus
        npus = ahead + second * back.layout.npus
        if npus <= most and (npus <= host or npus % host == 0) and ahead % back.layout.npus == 0:
            yield PoolsCeiling(prefill, decode, (first, second)), npus
