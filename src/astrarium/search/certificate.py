"""The certificate of a search: what has to be looked at to believe that an optimum is one.

It holds the space, the objective, the best design and every design that was simulated, with its value. Whoever knows a
floor below the objective can check it: a design of the space that is not among them cannot be below its floor. The
checker `tools/check_optimum.py` does so with formulas of its own, without this package's search. Any study may be
written so; that of the agent `exact` is one that proves its optimum.
"""

from __future__ import annotations

import gzip
import os
from typing import Any

import msgspec

from astrarium.errors import InputError
from astrarium.search.choice import plain
from astrarium.search.space import space_plain
from astrarium.search.studyfile import StoredStudy, jsonable

__all__ = ["FORMAT", "write_certificate"]

FORMAT = "astrarium optimum 1"


def write_certificate(study: StoredStudy, path: str) -> int:
    """Write the certificate of a study (`.gz`: compressed), whole or not at all; the number of designs in it. Raises
    InputError where it has several objectives, a function, cases or a continuum, or found no feasible design."""
    plan, space = study.plan, study.plan.space
    objectives = plan.goal.objectives
    if len(objectives) != 1 or study.functions or plan.goal.cases or space.continua or objectives[0].maximize:
        raise InputError(study.path, "has no certificate",
                         expected="one objective to minimise, an expression; one case; no continuum")
    evaluated: list[list[Any]] = []
    for trial in study.trials():
        if trial.verdict.stopped:
            raise InputError(study.path, f"has no certificate: trial {trial.number} was {trial.verdict.problem}",
                             expected="a study without limits")
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
    _write(path, msgspec.json.encode(found))
    return len(evaluated)


def _write(path: str, data: bytes) -> None:
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as stream:
            stream.write(gzip.compress(data, 6, mtime=0) if path.endswith(".gz") else data)
        os.replace(temporary, path)
    except OSError as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise InputError(path, f"cannot be written ({error.strerror or error})") from None
