"""Nodes of equal kind, size and arguments may share a slot: nothing changes, folded or not, in either engine.

`ASTRARIUM_SEED=N` draws other programs, `ASTRARIUM_PROGRAMS=N` more.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from itertools import islice

import numpy as np
import pytest
from msgspec.structs import replace
from tests.plans.draw import SEED, programs, wanted

from astrarium import engine
from astrarium.engine import Outcome, Plan
from astrarium.engine.plan import Program
from astrarium.errors import AstrariumError
from astrarium.result import Result

pytestmark = pytest.mark.skipif(not engine.HAVE_CORE, reason="only the compiled core folds")

PROGRAMS = wanted(80)
PURE = 4    # of the programs under our own rules one in four runs in the pure-Python engine, too


def repeated(program: Program, chained: bool) -> Program:
    """The program twice, with slots of their own; `chained`: what begins the second waits for what ends the first."""
    n, slots = len(program.node_id), int(program.slot.max(initial=-1)) + 1
    children = [program.child[a:b].tolist() for a, b in zip(program.child_ptr[:-1], program.child_ptr[1:], strict=True)]
    children += [[c + n for c in row] for row in children]
    parents = np.tile(program.parents, 2).copy()     # a tile of nothing is the array itself, which is read-only
    if chained:
        roots, leaves = np.flatnonzero(program.parents == 0) + n, np.flatnonzero(np.diff(program.child_ptr) == 0)
        parents[roots] = len(leaves)
        for leaf in leaves.tolist():
            children[leaf] = roots.tolist()
    twice = {name: np.tile(getattr(program, name), 2) for name in ("kind", "lane", "duration", "busy", "size")}
    second = np.where(program.slot >= 0, program.slot + slots, -1).astype(np.int32)
    return Program(node_id=np.arange(2 * n, dtype=np.uint64), **twice, slot=np.concatenate([program.slot, second]),
                   parents=parents, child_ptr=np.cumsum([0] + [len(row) for row in children]).astype(np.int32),
                   child=np.array([c for row in children for c in row], np.int32))


def twice(plan: Plan, rng: random.Random) -> Plan:
    """Every program two times."""
    chained = rng.random() < 0.7
    spans = [np.arange(a, b) for a, b in zip(plan.slot_ptr[:-1], plan.slot_ptr[1:], strict=True)]
    at = np.concatenate([np.concatenate([span, span]) for span in spans]).astype(np.int64)
    return replace(plan, programs=tuple(repeated(p, chained) for p in plan.programs), slot_ptr=plan.slot_ptr * 2,
                   slot_a=plan.slot_a[at], slot_b=plan.slot_b[at], slot_c=plan.slot_c[at])


def shared(plan: Plan, rng: random.Random) -> tuple[Plan, int]:
    """The plan with some slots merged, and how many are gone."""
    programs, picked = [], np.zeros(0, np.int64)
    kept: dict[int, list[int]] = {}
    for number, program in enumerate(plan.programs):
        ranks, share = np.flatnonzero(plan.program_of == number), rng.choice([0.5, 1.0, 1.0])
        found: dict[object, list[list[int]]] = defaultdict(list)
        for node in np.flatnonzero(program.slot >= 0).tolist():
            columns = [getattr(plan, name)[plan.slot_ptr[ranks] + program.slot[node]].tobytes()
                       for name in ("slot_a", "slot_b", "slot_c")]
            key = (int(program.kind[node]), int(program.size[node]), *columns)
            same = found[key]
            if not same or rng.random() >= share:
                same.append([])
            rng.choice(same).append(node)
        slot = np.full(len(program.slot), -1, np.int32)
        bundles = [nodes for same in found.values() for nodes in same if nodes]
        rng.shuffle(bundles)
        for new, nodes in enumerate(bundles):
            slot[nodes] = new
        kept[number] = [int(program.slot[nodes[0]]) for nodes in bundles]
        programs.append(replace(program, slot=slot))
    picked = np.array([plan.slot_ptr[r] + s for r, number in enumerate(plan.program_of.tolist()) for s in kept[number]],
                      np.int64)
    pointer = np.cumsum([0] + [len(kept[number]) for number in plan.program_of.tolist()]).astype(np.int64)
    merged = replace(plan, programs=tuple(programs), slot_ptr=pointer, slot_a=plan.slot_a[picked],
                     slot_b=plan.slot_b[picked], slot_c=plan.slot_c[picked])
    return merged, len(plan.slot_a) - len(picked)


def run(plan: Plan, *, fold: bool, pure: bool = False) -> Outcome | tuple[str, str]:
    """The outcome, or the error's class and words."""
    try:
        return engine.execute(plan, record=True, fold=fold, pure=pure)
    except AstrariumError as error:
        return type(error).__name__, str(error)


def every_rank(plan: Plan, outcome: Outcome) -> dict[str, list[object]]:
    """What an Outcome says, rank by rank."""
    rows = [slice(*outcome.node_ptr[row:row + 2]) for row in outcome.row.tolist()]
    return {"finish": outcome.finish[outcome.row].tolist(), "busy": outcome.busy[outcome.row].tolist(),
            "start": [outcome.start[row].tolist() for row in rows], "end": [outcome.end[row].tolist() for row in rows],
            "use": outcome.use_busy.tolist()}


def check(plan: Plan, merged: Plan, pure: bool, where: str) -> str:
    """Compare four (six) runs; what became of them."""
    whole = run(plan, fold=False)
    others = [run(merged, fold=False), run(merged, fold=True)] + ([run(merged, fold=False, pure=True)] if pure else [])
    if isinstance(whole, tuple):
        assert others[0] == others[1] == whole, where
        return "error"
    for other in others:
        assert not isinstance(other, tuple), f"{other}{where}"
        assert every_rank(merged, other) == every_rank(plan, whole), where
    folded = others[1]
    assert isinstance(folded, Outcome)
    for one, two in ((Result(merged, folded), Result(merged, whole)), (Result(merged, whole), Result(plan, whole))):
        assert one.makespan_ps == two.makespan_ps
        assert one.collectives.end.max(initial=0) == two.collectives.end.max(initial=0), where
        np.testing.assert_array_equal(one.ranks.compute[folded.row if one.outcome.folded else slice(None)],
                                      two.ranks.compute, err_msg=where)
    assert Result(merged, whole).messages.send.size == Result(plan, whole).messages.send.size, where
    return "folded" if folded.folded else "whole"


@pytest.mark.parametrize("compat", [True, False], ids=["astra_sim", "native"])
def test_sharing_slots_changes_nothing(compat: bool) -> None:
    print(f"ASTRARIUM_SEED={SEED}")
    rng, seen = random.Random(f"{SEED} {compat} slots"), Counter[str]()
    for number, program in enumerate(islice(programs(rng, compat), PROGRAMS)):
        plan = twice(program.plan, rng)
        merged, gone = shared(plan, rng)
        what = check(plan, merged, not compat and number % PURE == 0, f"\nASTRARIUM_SEED={SEED}\n{program.text}")
        seen[what if gone else "nothing shared"] += 1
    print(dict(seen))
    assert seen["folded"] > PROGRAMS // 8, seen
