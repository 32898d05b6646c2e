"""Bundles: a study as one file that runs again elsewhere, with its input files, hashes and results.

A bundle is a zip archive: `study.json` (everything that the study is; its files are named as they lie in the archive),
`trials.jsonl` (a line a trial, without durations), `files/` (traces and whatever else the base design reads), and
`bundle.json` (format, versions, trials, SHA-256 of every entry). Equal studies make equal bytes: entries are sorted and
carry no dates. Run again by the same version, a study gives the same `trials.jsonl`, byte for byte.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from astrarium.config import replace_all
from astrarium.config.files import plain_with_files, with_files
from astrarium.config.whole import write_whole
from astrarium.errors import InputError
from astrarium.search.agents.base import Options
from astrarium.search.axes import Point
from astrarium.search.inputs import file_fields, files_of
from astrarium.search.space import Space
from astrarium.search.store import Store
from astrarium.search.study import Progress, Study, conduct
from astrarium.search.studyfile import Plan, StoredStudy, design_keys, study_of
from astrarium.search.subject import kind_of
from astrarium.search.trial import Verdict
from astrarium.search.workers import Workers

__all__ = ["FORMAT", "Bundle", "Rerun", "lines_of", "read_bundle", "rerun", "write_bundle"]

FORMAT = "astrarium study 1"
FILES = "files/"
LIBRARIES = ("numpy", "optuna", "torch", "pymoo", "stable_baselines3")
LARGEST = 1 << 30      # bytes of one entry
DATE = (1980, 1, 1, 0, 0, 0)
EXPECTED = "a file of astrarium report --bundle"


class Bundle(Struct, frozen=True):
    """An unpacked bundle: its plan (whose files are in `folder`), the lines of its trials, versions of libraries."""

    path: str
    plan: Plan
    lines: Sequence[bytes]
    versions: Mapping[str, str]
    folder: str


class _Names(Struct):
    """Maps files of a design to names in the archive; files of one folder stay together."""

    folders: dict[str, str] = field(default_factory=dict)

    def __call__(self, path: str) -> str:
        folder, name = os.path.split(os.path.abspath(path))
        return f"{self.folders.setdefault(folder, f'{FILES}{len(self.folders)}')}/{name}"


def write_bundle(study: StoredStudy, path: str) -> int:
    """Write the bundle of a study, whole or not at all. Returns the number of trials. Raises InputError if the goal is
    a Python function, a choice or a case names files, or a file is missing or has changed since the trials."""
    if study.functions:
        raise InputError(study.path, "cannot run again: an objective was a Python function", expected="expressions")
    if getattr(study.plan.agent, "in_flight", 0):
        raise InputError(study.path, "cannot run again byte for byte: the order of its results depended on time",
                         expected="a study in batches (in_flight=0)")
    names, space = _Names(), study.plan.space
    found = _input_files(study, names)
    study.refuse_other_inputs("a study of the files that are here now")
    base = None if space.base is None else with_files(space.base, names)
    plan = replace(study.plan, space=Space(base, space.choices, space.where, space.derived, space.variables))
    lines = list(lines_of(study, names.folders))
    described = {key: msgspec.Raw(text.encode()) for key, text in plan.described().items()}
    written = msgspec.json.decode(described["space"])
    if written.get("base") is not None:
        written["base"] = plain_with_files(kind_of(written["base"]), written["base"], names)
        described["space"] = msgspec.Raw(_json(written))
    entries = {**found, "study.json": _json(described), "trials.jsonl": b"".join(lines)}
    about = {"format": FORMAT, "trials": len(lines), "agent": plan.agent_name, "seed": plan.seed,
             "versions": _versions(), "sha256": {name: hashlib.sha256(data).hexdigest()
                                                 for name, data in sorted(entries.items())}}
    _write(path, {"bundle.json": msgspec.json.format(_json(about), indent=1), **entries})
    return len(lines)


def lines_of(study: StoredStudy, folders: Mapping[str, str]) -> Iterator[bytes]:
    """Yield a line of JSON per trial, without durations and with the names in the archive in place of paths (`folders`:
    folder -> its name)."""
    for trial in study.trials():
        verdict, problem = trial.verdict, trial.verdict.problem
        for folder, name in folders.items():
            problem = problem.replace(os.path.join(folder, ""), name + "/")
            problem = problem.replace(os.path.join(os.path.relpath(folder), ""), name + "/")
        yield _json({"trial": trial.number, "round": trial.round, "point": trial.point, "same_as": trial.same_as,
                     "values": verdict.values, "figures": verdict.figures, "slacks": verdict.slacks,
                     "problem": problem}) + b"\n"


def read_bundle(path: str, folder: str) -> Bundle:
    """Check a bundle and unpack its files into an empty folder. Raises InputError if it is not a bundle, or changed."""
    try:
        with zipfile.ZipFile(path) as archive:
            about = msgspec.json.decode(archive.read("bundle.json"))
            if about["format"] != FORMAT:
                raise InputError(path, f"has the format {about['format']!r}", expected=FORMAT)
            entries: dict[str, bytes] = {}
            for name, digest in about["sha256"].items():
                data = _checked(archive, path, name, digest)
                if name.startswith(FILES):
                    _unpack(path, folder, name, data)
                else:
                    entries[name] = data
        meta = msgspec.json.decode(entries["study.json"])
        study = study_of(path, meta, folder)
        versions = {str(name): str(version) for name, version in about["versions"].items()}
        return Bundle(path, study.plan, entries["trials.jsonl"].splitlines(keepends=True), versions, folder)
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror or error})", expected=EXPECTED) from None
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError, EOFError,
            NotImplementedError, msgspec.DecodeError) as error:
        raise InputError(path, f"is not a bundle ({type(error).__name__}: {error})", expected=EXPECTED) from None


def _checked(archive: zipfile.ZipFile, path: str, name: str, digest: str) -> bytes:
    if archive.getinfo(name).file_size > LARGEST:
        raise InputError(path, f"{name} is larger than {LARGEST:,} bytes")
    data = archive.read(name)
    if hashlib.sha256(data).hexdigest() != digest:
        raise InputError(path, f"{name} is not what bundle.json says", expected="an unchanged bundle")
    return data


def _unpack(path: str, folder: str, name: str, data: bytes) -> None:
    parts = name.split("/")
    if len(parts) != 3 or any(part in ("", ".", "..") or os.path.basename(part) != part for part in parts):
        raise InputError(path, f"holds a file called {name!r}", expected="files/NUMBER/NAME")
    os.makedirs(os.path.join(folder, *parts[:2]), exist_ok=True)
    with open(os.path.join(folder, *parts), "wb") as stream:
        stream.write(data)


def _input_files(study: StoredStudy, names: _Names) -> dict[str, bytes]:
    """Name in the archive -> content, of every file that the base design reads."""
    space = study.plan.space
    if space.base is None:
        return {}
    fields = dict(file_fields(space.base))
    for case in study.plan.goal.cases:
        changed = dict(file_fields(replace_all(space.base, case.changes)))
        if changed != fields:
            raise InputError(study.path, f"cases.{case.name} reads other files than the base",
                             expected="one set of files")
    chosen = next((path for path in fields if path in space.paths), None)
    if chosen is not None:
        raise InputError(study.path, f"{chosen} is chosen by the space, so its files are not known",
                         expected="files that the base names")
    found: dict[str, bytes] = {}
    for path, value in fields.items():
        names(value)
        matches = files_of(value)
        if not matches:
            raise InputError(path, f"there is no file {value}")
        for match in matches:
            with open(match, "rb") as stream:
                found[names(match)] = stream.read()
    return found


def _versions() -> dict[str, str]:
    import astrarium

    found = {"astrarium": astrarium.__version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _write(path: str, entries: Mapping[str, bytes]) -> None:
    with (write_whole(path) as stream,
          zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive):
        for name in sorted(entries):
            about = zipfile.ZipInfo(name, DATE)
            about.compress_type, about.external_attr, about.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
            archive.writestr(about, entries[name])


class Rerun(Struct, frozen=True):
    """The result of a rerun. `study`: of this run; `trials`: in the bundle; `differs`: number of the first trial that
    differs (None: all bytes are equal); `versions`: of the bundle; `stopped`: trials that ended at a limit when the
    bundle was made, and did not run again, as limits depend on the machine."""

    study: Study
    trials: int
    differs: int | None
    versions: dict[str, str]
    stopped: int


def rerun(path: str, *, jobs: int = 1, processes: bool = False, ray: str | None = None,
          progress: Callable[[Progress], None] | None = None) -> Rerun:
    """Run the study of a bundle from its beginning, in a temporary folder. Raises InputError if the file is not a
    bundle."""
    with tempfile.TemporaryDirectory(prefix="astrarium-") as folder:
        bundle = read_bundle(path, folder)
        plan, kept = bundle.plan, Path(folder) / "again.study"
        with Workers(plan.space, plan.goal, jobs, "processes" if processes else "threads", ray) as workers, \
                Store(str(kept)) as store:
            store.given.update(stopped := _stopped(bundle))
            for round_, points in _answers(bundle).items():
                store.keep_answer(round_, points)
            study = conduct(plan, max(1, len(bundle.lines)), store, workers, progress)
        return Rerun(study, len(bundle.lines), _first_difference(bundle, kept), dict(bundle.versions), len(stopped))


def _stopped(bundle: Bundle) -> dict[bytes, Verdict]:
    """Design hash -> verdict, of the trials that ended at a limit."""
    key, found = design_keys(bundle.plan), dict[bytes, Verdict]()
    for line in bundle.lines:
        trial = msgspec.json.decode(line)
        verdict = Verdict(None, problem=trial["problem"])
        if verdict.stopped:
            found[key(tuple(trial["point"]))] = verdict
    return found


def _answers(bundle: Bundle) -> dict[int, list[Point]]:
    """Round -> points, of an agent outside: a bundle never starts a program."""
    found: dict[int, list[Point]] = {}
    if isinstance(bundle.plan.agent, Options) and bundle.plan.agent.outside:
        for line in bundle.lines:
            trial = msgspec.json.decode(line)
            found.setdefault(trial["round"], []).append(tuple(trial["point"]))
    return found


def _first_difference(bundle: Bundle, kept: Path) -> int | None:
    folders = {str(each): f"{FILES}{each.name}" for each in (Path(bundle.folder) / FILES).glob("*")}
    now = lines_of(StoredStudy(str(kept), bundle.plan, False), folders)
    return next((number for number, (one, other) in enumerate(zip_longest(bundle.lines, now)) if one != other), None)
