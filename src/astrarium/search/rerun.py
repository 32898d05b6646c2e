"""A bundle run again, and compared with what it holds, line by line."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import msgspec
from msgspec import Struct

from astrarium.search.bundle import FILES, Bundle, lines_of, read_bundle
from astrarium.search.evaluate import Verdict
from astrarium.search.store import Store
from astrarium.search.stored import StoredStudy
from astrarium.search.study import Progress, Study, conduct, design_keys
from astrarium.search.workers import Workers

__all__ = ["Rerun", "rerun"]


class Rerun(Struct, frozen=True):
    """`study`: what ran now; `trials`: how many the bundle holds; `differs`: the first of them that is another now
    (None: every byte is the same); `stopped`: trials that ended at a limit there, which is not the same limit on
    another machine, and did not run again."""

    study: Study
    trials: int
    differs: int | None
    versions: dict[str, str]
    stopped: int


def rerun(path: str, *, jobs: int = 1, processes: bool = False, ray: str | None = None,
          progress: Callable[[Progress], None] | None = None) -> Rerun:
    """Run a bundle's study from its beginning, in a folder of its own that is gone afterwards. Raises InputError where
    the file is no bundle."""
    with tempfile.TemporaryDirectory(prefix="astrarium-") as folder:
        bundle = read_bundle(path, folder)
        plan, kept = bundle.plan, Path(folder) / "again.study"
        with Workers(plan.space, plan.goal, jobs, "processes" if processes else "threads", ray) as workers, \
                Store(str(kept)) as store:
            store.given.update(stopped := _stopped(bundle))
            study = conduct(plan, max(1, len(bundle.lines)), store, workers, progress)
        return Rerun(study, len(bundle.lines), _first_difference(bundle, kept), dict(bundle.versions), len(stopped))


def _stopped(bundle: Bundle) -> dict[bytes, Verdict]:
    """Design -> why it has no values, of those that ended at a limit."""
    key, found = design_keys(bundle.plan), dict[bytes, Verdict]()
    for line in bundle.lines:
        trial = msgspec.json.decode(line)
        verdict = Verdict(None, problem=trial["problem"])
        if verdict.stopped:
            found[key(tuple(trial["point"]))] = verdict
    return found


def _first_difference(bundle: Bundle, kept: Path) -> int | None:
    folders = {str(each): f"{FILES}{each.name}" for each in (Path(bundle.folder) / FILES).glob("*")}
    now = lines_of(StoredStudy(str(kept), bundle.plan, False), folders)
    return next((number for number, (one, other) in enumerate(zip_longest(bundle.lines, now)) if one != other), None)
