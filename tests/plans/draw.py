"""The one generator of random plans: programs of programs.py on systems of systems.py, for every test that wants any.

A seed names a plan. Tests draw the same ones each time; ASTRARIUM_SEED names others (`make roam` takes a new one, and
prints it), ASTRARIUM_PROGRAMS says how many.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from tests.draws import draws

import astrarium as ar
from astrarium import engine
from astrarium.astra_sim.files import lower_inputs, workload_of
from astrarium.engine.plan import Kind, Lane, Plan
from astrarium.errors import AstrariumError, InputError
from astrarium.lower import lower
from astrarium.trace import Traces

from .programs import Writer, partitions_of, write
from .systems import SIZES, astra_inputs, native_design

__all__ = ["SEED", "Case", "RandomProgram", "programs", "random_case", "random_plan", "random_program", "wanted"]

SEED = int(os.environ.get("ASTRARIUM_SEED") or 15)


class Mix(Struct, frozen=True):
    """What is drawn how often: at most `npus` ranks; back ends, one of them each; the share of settings that most
    systems leave alone (and that keep ranks from being equal); the share of programs of whole-world collectives, and of
    collectives that wait for the one before."""

    npus: int = 16
    backends: Sequence[str] = ("closed_form",) * 14 + ("contention",) * 5 + ("fluid",)
    odd: float = 0.05
    world: float = 0.0
    world_on_links: float = 0.8
    ordered: float = 0.7


FOLDING = Mix()                                                                  # much of it folds
CASES = Mix(npus=12, backends=("closed_form", "contention") * 3 + ("packets",), odd=0.2, world_on_links=0.2)
PLANS = Mix(npus=8, backends=("closed_form", "contention", "fluid"), odd=0.3, world_on_links=0.2, ordered=1.0)


class Case(Struct, frozen=True):
    """A native design and the traces that it runs; `text` says what they do."""

    design: ar.Design
    traces: Traces
    text: str

    def __repr__(self) -> str:
        return f"{self.design}\n{self.text}"


class RandomProgram(Struct, frozen=True, eq=False):
    """`plan` is ready to run; `text` says what it is, so that a failure can be read without running it again."""

    seed: int
    plan: Plan
    text: str


def wanted(usual: int) -> int:
    """How many programs a test draws: ASTRARIUM_PROGRAMS, or as many as usual (in `make roam` seven times)."""
    return int(os.environ.get("ASTRARIUM_PROGRAMS") or draws(usual).max_examples)


def random_case(rng: random.Random, backends: Sequence[str] = CASES.backends) -> Case:
    """A native system and its program, not lowered."""
    mix = replace(CASES, backends=backends)
    sizes, backend = _sizes(rng, mix), rng.choice(backends)
    writer = _written(rng, sizes, False, backend == "contention", mix)
    return Case(native_design(rng, sizes, backend, mix.odd), writer.traces(), _text(writer))


def random_program(seed: int, compat: bool, layers: int = 0, mix: Mix = FOLDING) -> RandomProgram:
    """A program of one rule book. Now and then it cannot end, as ranks wait for each other: that must be found, too.
    With `layers` a few steps come again and again, so often.

    Raises InputError where the draw named an algorithm that has no such operation.
    """
    rng = random.Random(f"{seed} {compat}")
    sizes, backend = _sizes(rng, mix), rng.choice(mix.backends)
    links = backend == "contention"
    writer = _written(rng, sizes, compat, links, mix, layers)
    if compat:
        inputs = astra_inputs(rng, sizes, writer.names, links, mix.odd)
        plan, system = lower_inputs(inputs, workload_of(inputs, writer.traces())), str(inputs)
    else:
        design = native_design(rng, sizes, backend, mix.odd)
        plan, system = lower(design, writer.traces()), str(design)
    if rng.random() < mix.odd:
        plan = _twisted(rng, plan)
    return RandomProgram(seed, plan, f"seed {seed} compat {compat}\n{system}\n{_text(writer)}")


def programs(rng: random.Random, compat: bool, layers: Sequence[int] = (0,)) -> Iterator[RandomProgram]:
    """Programs without end, but only such as can be lowered."""
    while True:
        try:
            yield random_program(rng.randrange(2**60), compat, rng.choice(layers))
        except InputError:      # the draw named an algorithm that has no such operation
            continue


def random_plan(seed: int, compat: bool = False, ends: bool = True) -> Plan:
    """A plan that is small enough for the pure-Python engine; `ends`: all ranks come to their end."""
    numbers = random.Random(seed)
    while True:
        try:
            plan = random_program(numbers.randrange(2**60), compat, mix=PLANS).plan
            if ends:
                engine.execute(plan, fold=False)
        except AstrariumError:
            continue
        return plan


def _sizes(rng: random.Random, mix: Mix) -> tuple[int, ...]:
    return rng.choice([sizes for sizes in SIZES if math.prod(sizes) <= mix.npus])


def _written(rng: random.Random, sizes: tuple[int, ...], compat: bool, links: bool, mix: Mix,
             layers: int = 0) -> Writer:
    world = rng.random() < (mix.world_on_links if links else mix.world)
    writer = Writer(rng, partitions_of(rng, sizes), compat, world=world, ordered=mix.ordered)
    write(writer, layers)
    return writer


def _text(writer: Writer) -> str:
    groups = " ".join(f"{name}:{list(members)}" for name, members in writer.names.items())
    return "\n".join([f"groups {groups}", *writer.text])


def _twisted(rng: random.Random, plan: Plan) -> Plan:
    """What no lowering makes, but a plan may say: sends on any lane or none, delays that are no whole ns under any rule
    book, and a rate of reductions per NPU."""
    lane, uneven = rng.choice([-1, int(Lane.COMM), int(Lane.P2P)]), rng.random() < 0.5
    made = []
    for each in plan.programs:
        ps = np.array([rng.randrange(1000) if uneven and kind == Kind.DELAY else 0 for kind in each.kind], np.int64)
        lanes = np.where(each.kind == Kind.SEND, lane, each.lane).astype(np.int16)
        made.append(replace(each, lane=lanes, duration=each.duration + ps, busy=each.busy + ps * (each.busy > 0)))
    rates = [rng.choice([0.0, 1.6e12, 3e9]) for _ in range(plan.npus)]
    return replace(plan, programs=tuple(made), reduce_bandwidth=np.array(rates))
