"""Equal layers: periods that recur are counted, and the integers are those of running them all.

`ASTRARIUM_SEED=N` draws others, `ASTRARIUM_PROGRAMS=N` more.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from msgspec.structs import replace
from tests.plans.draw import FOLDING, SEED, programs, random_program, wanted

from astrarium import engine
from astrarium.engine.outcome import EVERY_MESSAGE, Outcome, Record
from astrarium.engine.plan import Plan
from astrarium.errors import AstrariumError, InputError

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="only the compiled core counts periods")

PROGRAMS = wanted(120)
LAYERS = (8, 13, 40, 100)
LEAST_SHARE = 0.1    # of the programs in which something is counted; about 0.3 are
ON_LINKS = replace(FOLDING, backends=("contention", "contention", "closed_form"), world_on_links=0.3)
RECORDED = ("start", "end", "link_dim", "link_from", "link_to", "link_bytes", "link_busy", "use_busy")


def run(plan: Plan, fold: bool, record: Record = False) -> Outcome | tuple[str, str]:
    """The outcome of a run, or the error's class and words."""
    try:
        return engine.execute(plan, fold=fold, record=record)
    except AstrariumError as error:
        return type(error).__name__, str(error)


def same(counted: Outcome, whole: Outcome, where: str) -> None:
    """Every rank ends, and works, alike; where every message ran, every event is counted."""
    for name in ("finish", "busy"):
        ours, theirs = (getattr(outcome, name)[outcome.row] for outcome in (counted, whole))
        np.testing.assert_array_equal(ours, theirs, err_msg=name + where)
    if counted.how[-1].startswith(EVERY_MESSAGE):
        assert counted.events == whole.events, where


def same_nodes(counted: Outcome, whole: Outcome, where: str) -> None:
    """Every node of every rank begins and ends alike."""
    for rank, row in enumerate(counted.row.tolist()):
        mine = slice(counted.node_ptr[row], counted.node_ptr[row + 1])
        other = slice(whole.node_ptr[whole.row[rank]], whole.node_ptr[whole.row[rank] + 1])
        for name in ("start", "end"):
            np.testing.assert_array_equal(getattr(counted, name)[mine], getattr(whole, name)[other],
                                          err_msg=f"{name} of rank {rank}{where}")


def test_counted_periods_give_the_same_integers() -> None:
    """Also the times of nodes, recorded with or without the traffic."""
    print(f"ASTRARIUM_SEED={SEED}")
    seen: Counter[str] = Counter()
    rng = random.Random(f"{SEED} periods False")
    for program in islice(programs(rng, False, LAYERS), PROGRAMS // 2):
        counted, whole = run(program.plan, True, "nodes"), run(program.plan, False, True)
        where = f"\nASTRARIUM_SEED={SEED}\n{program.text}"
        if isinstance(counted, tuple) or isinstance(whole, tuple):
            assert counted == whole, where
            seen["refused"] += 1
            continue
        same(counted, whole, where)
        same_nodes(counted, whole, where)
        seen["counted" if counted.counted else "run"] += 1
        assert counted.counted < counted.events, where
    print(dict(seen))
    assert seen["counted"] > LEAST_SHARE * seen.total(), seen


def test_recorded_periods_give_the_same_integers() -> None:
    """Where every rank runs: each node, link and bin of traffic; collectives that nothing disturbs are timed, too."""
    print(f"ASTRARIUM_SEED={SEED}")
    seen: Counter[str] = Counter()
    rng = random.Random(f"{SEED} recorded periods")
    while seen.total() < PROGRAMS // 2:
        try:
            program = random_program(rng.randrange(2**60), False, rng.choice(LAYERS), mix=ON_LINKS)
        except InputError:      # the draw named an algorithm that has no such operation
            continue
        counted, whole = run(program.plan, True, record=True), run(program.plan, False, record=True)
        where = f"\nASTRARIUM_SEED={SEED}\n{program.text}"
        if isinstance(counted, tuple) or isinstance(whole, tuple):
            assert counted == whole, where
            seen["refused"] += 1
            continue
        for name in ("finish", "busy") if counted.folded else ("finish", "busy", *RECORDED):
            ours, theirs = getattr(counted, name), getattr(whole, name)
            if counted.folded:
                ours, theirs = ours[counted.row], theirs[whole.row]
            np.testing.assert_array_equal(ours, theirs, err_msg=name + where)
        seen["folded" if counted.folded else "counted" if counted.counted else "run"] += 1
    print(dict(seen))
    assert seen["counted"] > LEAST_SHARE * seen.total(), seen
