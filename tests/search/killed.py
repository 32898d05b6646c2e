"""A study as a process of its own, for tests that kill it: `python killed.py FILE TRIALS AGENT[:IN_FLIGHT] JOBS`.

It prints a line when it has begun.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.search.designs import small_space

from astrarium.search import search
from astrarium.search.study import Progress


def main(path: str, trials: str, agent: str, jobs: str) -> None:
    """Search until the file holds so many trials."""
    begun: list[Progress] = []

    def progress(now: Progress) -> None:
        if not begun:
            print("at work", flush=True)
        begun.append(now)

    name, _, flight = agent.partition(":")
    study = search(small_space(), "makespan", require="makespan < 2e7", agent=name, trials=int(trials), seed=5,
                   options={"in_flight": int(flight)} if flight else {}, jobs=int(jobs), study=path, progress=progress)
    assert study.best is not None
    print(study.trials, study.distinct, study.best.number)


if __name__ == "__main__":
    main(*sys.argv[1:])
