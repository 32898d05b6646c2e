"""A search: its progress with the best so far, and what its study says in the end."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from astrarium.config.whole import write_whole
from astrarium.errors import InputError
from astrarium.report.pages.html import escape, table_of, wide
from astrarium.report.pages.study import study_page
from astrarium.report.svg.charts import Band, lines
from astrarium.report.tables.study import report_tables, shown
from astrarium.report.tables.study_data import study_report
from astrarium.search.limits import NO_LIMITS
from astrarium.search.study import Progress, search
from astrarium.search.studyfile import load_study

__all__ = ["search_found"]

Say = Callable[..., None]
LIMITS = ("60 s",)      # CPU time of one design


def search_found(asked: dict[str, Any], folder: str, say: Say) -> dict[str, Any]:
    """Search the space of a file of the folder, into `search.study`. Raises InputError."""
    from astrarium.search.searchfile import load_search
    from astrarium.search.subject import dump_base, subject_of

    file = load_search(asked["space"], {})
    agent = asked.get("agent") or file.agent or "bayesian"
    if ":" in agent:
        raise InputError("agent", "an agent is a program here, and none is started", expected="astrarium list agent")
    minimize: Any = asked.get("minimize") or file.minimize or subject_of(file.space.base).usual or ()
    study = os.path.join(folder, "search.study")
    name = minimize if isinstance(minimize, str) else minimize[0] if minimize else "objective"
    found = search(file.space, minimize, require=file.require, cases=file.cases, agent=agent,
                   trials=int(asked.get("trials") or file.trials or 100), seed=int(asked.get("seed") or file.seed or 0),
                   study=study, limit=LIMITS if file.limit == NO_LIMITS else file.limit,
                   progress=_Progress(say, str(name)).show)
    links = ""
    if found.best is not None:
        dump_base(found.plan.space.design(found.best.point), os.path.join(folder, "best.yaml"))
        path = folder.replace(os.sep, "/")
        links = f'<p><a class="button" href="/design/{path}/best.yaml">Turn the knobs of the best design</a></p>'
    report = study_report([load_study(study)])
    with write_whole(os.path.join(folder, "page.html")) as stream:
        stream.write(study_page(report).encode())
    return {"html": links + "".join(map(table_of, report_tables(report))), "page": True}


class _Progress:
    """The best value after every batch."""

    def __init__(self, say: Say, objective: str):
        self.say, self.objective = say, objective
        self._x: list[float] = []
        self._y: list[float] = []

    def show(self, state: Progress) -> None:
        """Say how far the search is, with a picture of the best so far."""
        if state.best is not None and (not self._x or self._x[-1] != state.trials):
            self._x.append(state.trials)
            self._y.append(state.best)
        best = "none yet" if state.best is None else shown(self.objective, state.best)
        picture = ""
        if len(self._x) > 1:
            step = max(1, len(self._x) // 200)
            x, y = self._x[::step], self._y[::step]
            picture = wide(lines([Band("best so far", x, y, y, y)], "trials", escape(self.objective),
                                 lambda value: shown(self.objective, value)))
        self.say(f"{state.trials:,} of {state.planned:,} trials, best {self.objective} {best}, "
                 f"{state.refused:,} refused", state.trials / max(1, state.planned), html=picture)
