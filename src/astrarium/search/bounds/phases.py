"""Floors of one phase: the least time of one chunk in one algorithm over one dim.

A *phase* starts for each of n participants when it enters; a participant leaves it when its sends are delivered and its
receives complete (design/0001). Two statements hold however early or late participants enter:

- `own`: no participant leaves before its own sends have passed its links, of which those to n - 1 others count (the
  least of any participant counts);
- for ring, direct and halving_doubling (n a power of two) on rings, switches and fully connected dims in closed_form:
  everyone depends on everyone by a chain of steps, so nobody leaves before the first to enter plus the chain, and
  somebody not before the last to enter plus the chain. Other messages on the same ports only add to it. Of a ring the
  participants have to be all NPUs, in order: other ones meet on its links.

A step of b blocks of m bytes takes hops * latency + b m / link rate (+ 3 b m / memory rate where it reduces, + the
endpoint's delay), as `docs/background/closed_form.md` says; alone, the chain is what a simulation takes, to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
from msgspec import Struct

from astrarium.collective.algorithms import Options, build
from astrarium.errors import AstrariumError
from astrarium.vocab import CommOp

__all__ = ["PhaseFloor", "phase_floor"]

Steps = list[tuple[int, float, float]]      # hops, blocks over one link, blocks added up one after the other
_REDUCES = {CommOp.ALL_REDUCE: (True, False), CommOp.REDUCE_SCATTER: (True,), CommOp.ALL_GATHER: (False,)}
_LINKS: Mapping[str, Callable[[int], int]] = {"ring": lambda _: 2, "switch": lambda _: 1,
                                              "fully_connected": lambda npus: max(1, npus - 1)}


class PhaseFloor(Struct, frozen=True):
    """delays * endpoint delay + hops * latency + block bytes * (blocks / NPU bandwidth + 3 reduced / memory rate).

    `own`: blocks that a participant's links carry at least, at the NPU's whole bandwidth. `count`: blocks per payload.
    """

    count: int
    own: float
    blocks: float
    hops: int = 0
    delays: int = 0
    reduced: float = 0.0


def _ring(shape: str, n: int, halves: tuple[bool, ...]) -> Steps:
    return [(2 if shape == "switch" else 1, 1.0, 1.0 * half) for half in halves for _ in range(n - 1)]


def _direct(shape: str, n: int, halves: tuple[bool, ...]) -> Steps:
    """All at once: through one port, or each on its own link, or (ring) clockwise the nearest of n / 2 first."""
    far = n // 2
    step = {"switch": (2, n - 1.0), "fully_connected": (1, 1.0), "ring": (far, far * (far + 1) / 2)}[shape]
    return [(*step, 1.0 * half) for half in halves]      # added up side by side


def _halving(shape: str, n: int, halves: tuple[bool, ...]) -> Steps:
    found: Steps = []
    for half in halves:
        levels = range(n.bit_length() - 1)
        for level in levels if half else reversed(levels):
            hops = {"ring": 1 << level, "switch": 2, "fully_connected": 1}[shape]
            blocks = n / (2 << level)
            found.append((hops, blocks * (hops if shape == "ring" else 1), blocks * half))
    return found if n & (n - 1) == 0 else []


_CHAINS: Mapping[str, Callable[[str, int, tuple[bool, ...]], Steps]] = {
    "ring": _ring, "direct": _direct, "halving_doubling": _halving}


@lru_cache(maxsize=4096)
def phase_floor(shape: str, algorithm: str, op: CommOp, n: int, npus: int, chain: bool) -> PhaseFloor | None:
    """The floor of `op` over `n` participants of a dim of `npus`; None where there is no such algorithm. `chain`: by
    chains of steps where it has them."""
    name, _, window = algorithm.partition(":")
    try:
        schedule = build(name, op, n, Options(window=int(window)) if window.isdigit() else Options(), path=name)
    except AstrariumError:
        return None
    links = _LINKS[shape](npus) if shape in _LINKS else 1
    own = float(np.diff(schedule.send_block_ptr[schedule.send_ptr])[np.unique(schedule.program)].min())
    own *= links / min(links, max(1, n - 1))
    halves = _REDUCES.get(op)
    known = chain and halves and not window and name in _CHAINS and shape in _LINKS and (shape != "ring" or n == npus)
    steps = _CHAINS[name](shape, n, halves) if known and halves else []
    if not steps:
        return PhaseFloor(schedule.blocks, own, own)
    return PhaseFloor(schedule.blocks, own, blocks=links * sum(blocks for _, blocks, _ in steps),
                      hops=sum(hops for hops, *_ in steps), delays=1 + len(steps),
                      reduced=sum(reduced for *_, reduced in steps))
