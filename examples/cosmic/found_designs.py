"""The three designs that COSMIC's talk found (Expr. 1, 2.1, 2.2), scored here and placed among uniform samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runs import Found, cases_of
from spaces import REWARDS, Setup, space
from timed import Timed

from astrarium.search.goal import goal_of
from astrarium.search.trial import Verdict

RING, TREE, DIRECT, HALVING = "ring", "double_binary_tree", "direct", "halving_doubling"


@dataclass(frozen=True)
class Published:
    """A design as the talk prints it; bandwidths are 50 GB/s per link in every dim, scheduling LIFO."""

    name: str
    stack: str
    shapes: Sequence[str]
    npus: Sequence[int]
    algorithms: Sequence[str]
    chunks: int
    composition: str
    workload: tuple[int, int, int]      # dp, pp, sp


DESIGNS = (
    Published("Expr. 1 (multi-model)", "multi_model", (RING, "fully_connected", RING, "fully_connected"), (16, 4, 4, 4),
              (RING,) * 4, 4, "baseline", (2, 1, 8)),
    Published("Expr. 2.1 (chat)", "inference_chat", (RING,) * 4, (4, 16, 4, 4), (HALVING, TREE, TREE, DIRECT), 2,
              "blueconnect", (8, 4, 8)),
    Published("Expr. 2.2 (QA)", "inference_qa", (RING,) * 4, (16, 4, 4, 4), (DIRECT, DIRECT, TREE, HALVING), 2,
              "baseline", (8, 4, 8)),
)


@dataclass(frozen=True)
class Placed:
    """A published design in one experiment under one reward. `percent` of `samples` uniform designs are worse; `best`
    of all trials of that experiment; `problem`: why it has no objective."""

    name: str
    experiment: str
    reward: str
    value: float | None
    percent: float
    samples: int
    best: float
    problem: str


def values_of(design: Published, stack: str) -> dict[str, Any]:
    """Knob -> value in the space of a stack. 50 GB/s per link are 100 GB/s per NPU in a ring, 50 (n - 1) where all are
    connected."""
    dp, pp, sp = design.workload
    found: dict[str, Any] = {"workload.dp": dp, "workload.pp": pp, "workload.sp": sp,
                             "collective.scheduling": "lifo", "collective.chunks": design.chunks,
                             "collective.composition": design.composition}
    if not stack.startswith("inference"):
        found["workload.zero"] = 3
    for place, (shape, npus, algorithm) in enumerate(zip(design.shapes, design.npus, design.algorithms)):
        found |= {f"network.dims[{place}].shape": shape, f"network.dims[{place}].npus": npus,
                  f"network.dims[{place}].bandwidth_per_npu": f"{100 if shape == RING else 50 * (npus - 1)} GB/s",
                  f"collective.all_reduce[{place}]": algorithm}
    return found


def placed(found: Sequence[Found], limit: float) -> Iterator[Placed]:
    """Every design in the experiment that found it, and as one for training GPT3-175B, whose optimum can be proved;
    under both rewards."""
    for design in DESIGNS:
        for stack in (design.stack, "full"):
            verdict = _judged(design, stack, limit)
            for place, reward in enumerate(REWARDS):
                runs = [each for each in found if each.run.setup == Setup(stack, reward)]
                sample = [value for each in runs if each.run.agent == "random" for value in each.objectives]
                best = min((each.best for each in runs if each.best is not None), default=math.nan)
                value = verdict.values[place] if verdict.values else None
                beaten = math.nan if value is None or not sample else \
                    100 * sum(value < other for other in sample) / len(sample)
                yield Placed(design.name, stack, reward, value, beaten, len(sample), best, verdict.problem)


def _judged(design: Published, stack: str, limit: float) -> Verdict:
    """Both rewards of a design in one run; the space of the one that has a price is in that of the other."""
    setup = Setup(stack, "perf_per_cost")
    made, goal = space(setup), goal_of({reward: REWARDS[reward] for reward in REWARDS}, cases=cases_of(setup))
    with Timed(made, goal, 1, limit) as judge:
        return next(judge([made.point_of(values_of(design, stack))]))
