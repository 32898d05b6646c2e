"""Without records, folded runs find collectives line by line: the same finishes as every rank and every message.

`ASTRARIUM_SEED=N` draws others, `ASTRARIUM_DESIGNS=N` more.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from functools import partial

import pytest
from tests.plans.draw import SEED

import astrarium as ar
from astrarium import engine
from astrarium.engine.plan import Plan
from astrarium.errors import AstrariumError, StallError
from astrarium.lower import lower
from astrarium.lower.kept import Kept
from astrarium.lower.work import Work, from_generated
from astrarium.workload.generate import generate

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="only the compiled core folds")

DESIGNS = int(os.environ.get("ASTRARIUM_DESIGNS") or 30)
SHAPES = (ar.Ring, ar.Switch, ar.FullyConnected)
ALGORITHMS = ("ring", "direct", "halving_doubling", "double_binary_tree", "double_binary_tree")
LEAST_SHARE = 0.4       # of the designs that can be lowered; about 0.75 fold


def network(rng: random.Random, even: bool) -> ar.Network:
    """One to three dims, 2 to 64 NPUs; `even`: of one rate and latency, so that messages often meet in one instant."""
    dims, left = [], 64 if even else 32
    for _ in range(rng.choice((1, 2, 3))):
        size = rng.choice([size for size in (2, 3, 4, 8) if size <= left] or [1])
        if size > 1:
            left //= size
            shape, rate = rng.choice(SHAPES), 100 if even else rng.choice((50, 100, 275))
            dims.append(shape(size, bandwidth_per_npu=f"{rate} GB/s",
                              latency=f"{700 if even else rng.choice((20, 700, 1700))} ns"))
    return ar.Network(dims)


def degrees(rng: random.Random, ranks: int) -> dict[str, int]:
    """A parallelisation of so many ranks."""
    found, prime = {"dp": 1, "sp": 1, "pp": 1, "tp": 1}, 2
    while ranks > 1:
        while ranks % prime:
            prime += 1
        axis = rng.choice(("dp", "sp", "tp", "tp", "pp"))
        found[axis if axis != "pp" or found["pp"] * prime <= 4 else "dp"] *= prime
        ranks //= prime
    return found


def design(rng: random.Random, even: bool = False) -> ar.Design:
    """Six layers on a few NPUs."""
    dims = network(rng, even)
    reduced = [rng.choice(ALGORITHMS) for _ in dims.dims]
    others = ["ring" if name == "double_binary_tree" else name for name in reduced]
    axes = degrees(rng, dims.npus)
    model = ar.Decoder(layers=6, d_model=512, heads=8, ffn=2048, vocab=1024, seq=256)
    return ar.Design(
        workload=ar.Transformer(model, global_batch=axes["dp"] * rng.choice((1, 2)), zero=rng.choice((0, 1, 2, 3)),
                                uneven="fractional", order=rng.choice(("stage", "megatron")), **axes),
        network=dims, compute=ar.Roofline(peak=f"{rng.choice((1, 10, 459))} TFLOP/s"),
        memory=ar.Memory(bandwidth=f"{rng.choice((50, 2765))} GB/s"),
        collective=ar.Collective(all_reduce=reduced, all_gather=others, reduce_scatter=others,
                                 chunks=rng.choice((1, 2, 4)), composition=rng.choice(("baseline", "blueconnect")),
                                 scheduling=rng.choice(("lifo", "fifo")), active_chunks=rng.choice((1, 1, 2, 0)),
                                 endpoint_delay=rng.choice(("10 ns", "10 ns", "0 ns"))))


def elsewhere(made: ar.Design, rng: random.Random) -> ar.Design:
    """The same work on other dims of as many NPUs."""
    dims = [rng.choice(SHAPES)(dim.npus, bandwidth_per_npu=f"{rng.choice((50, 100, 275))} GB/s", latency=dim.latency)
            for dim in made.network.flat[::-1]]
    return ar.replace(made, "network", ar.Network(dims))


def _work(workload: ar.Transformer, ranks: int) -> Work:
    return from_generated(generate(workload, ranks), ranks)


def plans(count: int, seed: int = SEED, even: bool = False) -> Iterator[tuple[ar.Design, Plan]]:
    """So many designs that can be lowered; those that are `elsewhere` share arrays with the ones before."""
    rng, kept = random.Random(seed), Kept()
    while count > 0:
        made = design(rng, even)
        for drawn in (made,) if even else (made, elsewhere(made, rng)):
            key = drawn.workload, drawn.network.npus
            try:
                plan = lower(drawn, kept.works.get(key, partial(_work, *key)), kept=kept)
            except AstrariumError:      # a tree in blueconnect
                continue
            count -= 1
            yield drawn, plan


def test_finishes_are_those_of_every_rank() -> None:
    kept, folded = engine.Measurements(), 0
    for made, plan in plans(DESIGNS):
        try:
            ours = engine.execute(plan, kept=kept)
        except StallError:          # one in 2,000: ranks issue collectives in orders that lock each other
            with pytest.raises(StallError):
                engine.execute(plan, fold=False)
            continue
        again = engine.execute(plan, kept=engine.Measurements(1))      # holds nothing between runs
        assert (again.finish == ours.finish).all(), f"ASTRARIUM_SEED={SEED}: {made}"
        assert again.events == ours.events, f"ASTRARIUM_SEED={SEED}: {made}"
        if ours.folded:
            folded += 1
            whole = engine.execute(plan, fold=False)
            assert (ours.finish[ours.row] == whole.finish).all(), f"ASTRARIUM_SEED={SEED}: {made}"
            assert (ours.busy[ours.row] == whole.busy).all(), f"ASTRARIUM_SEED={SEED}: {made}"
    assert folded >= LEAST_SHARE * DESIGNS, f"ASTRARIUM_SEED={SEED}: {folded} of {DESIGNS} folded"


@pytest.mark.parametrize("seed", [14, 61, 248, 252, 255, 308, 350, 396])
def test_messages_that_meet_in_one_instant_fold_where_equals_agree_on_their_order(seed: int) -> None:
    for made, plan in plans(2, seed, even=True):
        ours, whole = engine.execute(plan, kept=engine.Measurements()), engine.execute(plan, fold=False)
        assert not ours.unfolded_because, made
        assert (ours.finish[ours.row] == whole.finish).all(), made
        assert (ours.busy[ours.row] == whole.busy).all(), made
