"""Collectives of a given time beside messages and other collectives: folded, unfolded and pure runs agree.

`ASTRARIUM_SEED=N` draws others, `ASTRARIUM_PROGRAMS=N` more.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
from msgspec.structs import replace
from tests.plans.draw import SEED, programs, wanted
from tests.plans.programs import NS

from astrarium import engine
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import CollectivePlan, Plan
from astrarium.errors import AstrariumError, InputError, TraceError

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="only the compiled core folds")

PROGRAMS = wanted(90)
SHARES = (0.3, 1.0)     # of the collectives whose time is given


def drawn() -> Iterator[tuple[Plan, str]]:
    """Plans of random programs, some or all of whose collectives have a given time."""
    numbers = random.Random(SEED)
    for program in islice(programs(numbers, False, (0, 0, 6)), PROGRAMS):
        share = numbers.choice(SHARES)
        yield replace(program.plan, collectives=tuple(
            CollectivePlan(each.op, each.size, (), lasts=1000 * max(1, numbers.choice(NS)))
            if numbers.random() < share else each for each in program.plan.collectives)), program.text


def run(plan: Plan, *, fold: bool, pure: bool = False, record: bool = True) -> Outcome | type[AstrariumError]:
    try:
        return engine.execute(plan, record=record, fold=fold, pure=pure)
    except AstrariumError as error:
        return InputError if isinstance(error, TraceError) else type(error)


def test_folded_whole_and_pure_runs_agree() -> None:
    print(f"ASTRARIUM_SEED={SEED}")
    seen: Counter[str] = Counter()
    for number, (plan, text) in enumerate(drawn()):
        where = f"\nASTRARIUM_SEED={SEED}\n{text}"
        whole, runs = run(plan, fold=False), [run(plan, fold=True)]
        if number % 2:
            runs.append(run(plan, fold=False, pure=True))
        for other in runs:
            if not isinstance(whole, Outcome) or not isinstance(other, Outcome):
                assert whole == other, where
                seen["refused"] += 1
                continue
            seen["folded" if other.folded else "whole"] += 1
            for name in ("finish", "busy"):
                np.testing.assert_array_equal(getattr(other, name)[other.row], getattr(whole, name)[whole.row],
                                              err_msg=name + where)
            for rank in range(len(whole.row)):
                for name in ("start", "end"):
                    ours, theirs = (getattr(each, name)[each.node_ptr[each.row[rank]]:each.node_ptr[each.row[rank] + 1]]
                                    for each in (other, whole))
                    np.testing.assert_array_equal(ours, theirs, err_msg=f"{name} of rank {rank}{where}")
        bare = run(plan, fold=True, record=False)       # periods are skipped
        if isinstance(whole, Outcome) and isinstance(bare, Outcome):
            np.testing.assert_array_equal(bare.finish[bare.row], whole.finish[whole.row], err_msg=where)
    print(dict(seen))
    assert seen["folded"] > 0.2 * (seen["folded"] + seen["whole"]), seen
