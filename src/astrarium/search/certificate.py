"""The certificate of a search: the data with which a checker confirms that an optimum is one.

It has the space, the objective, the best design, and every simulated design with its value. A checker that knows a
lower bound of the objective confirms it: no other design of the space has a bound below the best value. The checker
`tools/check_optimum.py` does so with its own formulas, without this package's search. Any study can be written as a
certificate; that of the agent `exact` proves its optimum.
"""

from __future__ import annotations

import gzip
from typing import Any

import msgspec

from astrarium.config.whole import write_whole
from astrarium.errors import InputError
from astrarium.search.choice import jsonable, plain
from astrarium.search.space import space_plain
from astrarium.search.studyfile import StoredStudy

__all__ = ["FORMAT", "write_certificate"]

FORMAT = "astrarium optimum 1"


def write_certificate(study: StoredStudy, path: str) -> int:
    """Write the certificate of a study (`.gz`: compressed), whole or not at all. Returns the number of designs. Raises
    InputError for several objectives, a function, cases or a continuum, and if no design is feasible."""
    plan, space = study.plan, study.plan.space
    objectives = plan.goal.objectives
    if len(objectives) != 1 or study.functions or plan.goal.cases or space.continua or objectives[0].maximize:
        raise InputError(study.path, "has no certificate",
                         expected="one objective to minimise, an expression; one case; no continuum")
    evaluated: list[list[Any]] = []
    for trial in study.trials():
        if trial.verdict.stopped or trial.verdict.beyond:
            raise InputError(study.path, f"has no certificate: trial {trial.number} was {trial.verdict.problem}",
                             expected="a study without limits and cap")
        if trial.same_as is None:
            values = trial.verdict.values
            evaluated.append([*trial.point, values[0] if values is not None and trial.verdict.feasible else None])
    best = min((row for row in evaluated if row[-1] is not None), key=lambda row: row[-1], default=None)
    if best is None:
        raise InputError(study.path, "holds no feasible design")
    knobs = [{"name": axis.name, "paths": axis.paths, "values": jsonable(axis.values),
              "numbers": [plain(value) for value in axis.values]} for axis in space.axes]
    plain_space = {**space_plain(space), "constraints": [rule.text for rule in space.rules]}
    found = {"format": FORMAT, "objective": objectives[0].measure, "requirements": plan.goal.requirements,
             "space": jsonable(plain_space), "knobs": knobs, "best": best, "evaluated": evaluated}
    data = msgspec.json.encode(found)
    with write_whole(path) as stream:
        stream.write(gzip.compress(data, 6, mtime=0) if path.endswith(".gz") else data)
    return len(evaluated)
