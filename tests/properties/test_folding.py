"""Folding gives the same integers: 500 random programs a run, half of them under each rule book.

`ASTRARIUM_SEED=N` draws others, `ASTRARIUM_PROGRAMS=N` more.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from tests.plans.draw import SEED, programs, wanted

from astrarium import engine
from astrarium.engine.outcome import Outcome
from astrarium.engine.plan import Plan
from astrarium.errors import AstrariumError, StallError

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="only the compiled core folds")

PROGRAMS = wanted(280)
LEAST_SHARE = 0.25   # of the programs that run to their end; about 0.6 (compat) and 0.45 (native) fold


def run(plan: Plan, fold: bool) -> Outcome | tuple[str, str]:
    """The outcome, or the error's class and words."""
    try:
        return engine.execute(plan, record=True, fold=fold)
    except AstrariumError as error:
        return type(error).__name__, str(error)


def nodes(outcome: Outcome, rank: int, name: str) -> list[int]:
    """Start or end of every node of a rank."""
    row = int(outcome.row[rank])
    times: list[int] = getattr(outcome, name)[outcome.node_ptr[row]:outcome.node_ptr[row + 1]].tolist()
    return times


def difference(folded: Outcome, whole: Outcome) -> str:
    """The first rank that ends, works, or runs a node at another time; empty where there is none."""
    for rank in range(len(whole.row)):
        for name in ("finish", "busy"):
            ours, theirs = (int(getattr(o, name)[o.row[rank]]) for o in (folded, whole))
            if ours != theirs:
                return f"{name} of rank {rank}: folded {ours}, unfolded {theirs}"
        for name in ("start", "end"):
            if nodes(folded, rank, name) != nodes(whole, rank, name):
                return f"{name} of rank {rank}: folded {nodes(folded, rank, name)}, unfolded {nodes(whole, rank, name)}"
    if folded.use_width != whole.use_width:
        return f"width of bins: folded {folded.use_width}, unfolded {whole.use_width}"
    same = (folded.use_busy == whole.use_busy).all()
    return "" if same else f"use: folded {folded.use_busy}, unfolded {whole.use_busy}"


def traffic(plan: Plan, outcome: Outcome) -> Counter[tuple[int, bool, str]]:
    """Bytes and busy time per dim and direction, of all ranks: a row of a folded run stands for its whole class."""
    members = Counter(outcome.row.tolist())
    row_of = dict(zip(plan.npu_of.tolist(), outcome.row.tolist(), strict=True))
    found: Counter[tuple[int, bool, str]] = Counter()
    columns = (outcome.link_dim, outcome.link_from, outcome.link_to, outcome.link_bytes, outcome.link_busy)
    for dim, source, target, size, busy in zip(*(column.tolist() for column in columns), strict=True):
        times = members[row_of[max(source, target)]] if outcome.folded else 1
        found[dim, source >= 0, "bytes"] += size * times
        found[dim, source >= 0, "busy"] += busy * times
    return found


@pytest.mark.parametrize("compat", [True, False], ids=["astra_sim", "native"])
def test_a_folded_run_gives_the_same_integers(compat: bool) -> None:
    print(f"ASTRARIUM_SEED={SEED}")
    seen: Counter[str] = Counter()
    for program in islice(programs(random.Random(f"{SEED} {compat}"), compat), PROGRAMS // 2):
        folded, whole = run(program.plan, True), run(program.plan, False)
        where = f"\nASTRARIUM_SEED={SEED}\n{program.text}"
        if isinstance(folded, tuple) or isinstance(whole, tuple):
            assert folded == whole, where
            seen["stall" if StallError.__name__ in str(folded)[:20] else "refusal"] += 1
            continue
        assert not whole.folded
        seen["folded" if folded.folded else "whole"] += 1
        assert folded.folded or folded.unfolded_because, where
        found = difference(folded, whole)
        assert not found, f"{found}{where}"
        assert traffic(program.plan, folded) == traffic(program.plan, whole), where
        assert folded.use_width == whole.use_width, where
        np.testing.assert_array_equal(folded.use_busy, whole.use_busy, err_msg=where)
        bare = engine.execute(program.plan)     # nothing recorded: more is made at once
        for name in ("finish", "busy"):
            ours, theirs = (getattr(outcome, name)[outcome.row] for outcome in (bare, whole))
            np.testing.assert_array_equal(ours, theirs, err_msg=name + where)
        if compat and (bare.row == folded.row).all():
            assert bare.events == folded.events, where
    print(dict(seen))
    assert seen["folded"] > LEAST_SHARE * (seen["folded"] + seen["whole"]), seen
