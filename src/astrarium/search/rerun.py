"""A bundle run again, and compared with what it holds, line by line."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from astrarium.search.bundle import FILES, Bundle, lines_of, read_bundle
from astrarium.search.store import Store
from astrarium.search.stored import StoredStudy
from astrarium.search.study import Progress, Study, conduct
from astrarium.search.workers import Workers

__all__ = ["Rerun", "rerun"]


@dataclass(frozen=True)
class Rerun:
    """`study`: what ran now; `trials`: how many the bundle holds; `differs`: the first of them that is another now
    (None: every byte is the same)."""

    study: Study
    trials: int
    differs: int | None
    versions: dict[str, str]


def rerun(path: str, *, jobs: int = 1, processes: bool = False, ray: str | None = None,
          progress: Callable[[Progress], None] | None = None) -> Rerun:
    """Run a bundle's study from its beginning, in a folder of its own that is gone afterwards. Raises InputError where
    the file is no bundle."""
    with tempfile.TemporaryDirectory(prefix="astrarium-") as folder:
        bundle = read_bundle(path, folder)
        plan, kept = bundle.plan, Path(folder) / "again.study"
        with Workers(plan.space, plan.goal, jobs, "processes" if processes else "threads", ray) as workers, \
                Store(str(kept)) as store:
            study = conduct(plan, max(1, len(bundle.lines)), store, workers, progress)
        return Rerun(study, len(bundle.lines), _first_difference(bundle, kept), dict(bundle.versions))


def _first_difference(bundle: Bundle, kept: Path) -> int | None:
    folders = {str(each): f"{FILES}{each.name}" for each in (Path(bundle.folder) / FILES).glob("*")}
    now = lines_of(StoredStudy(str(kept), bundle.plan, False), folders)
    return next((number for number, (one, other) in enumerate(zip_longest(bundle.lines, now)) if one != other), None)
