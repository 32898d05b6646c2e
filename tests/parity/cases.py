"""The packed ASTRA-sim cases (pack.py makes the archives): what goes in, and what ASTRA-sim measured.

`cases.json` inside an archive is a list of {name, npus, files: {path: blob}, traces: {stem: [[blob, ranks in a row],
…]}, expected: {"unaware" | "aware": {usable, status, finish_ns, exposed_ns, user_s, maxrss_kb}}}; per-rank values that
are all equal are {"all": value}. A case's name is for people: nothing may read it to decide anything.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astrarium.astra_sim.files import AstraInputs, AstraWorkload, lower_inputs, read_inputs, workload_of
from astrarium.engine import Outcome, Plan
from astrarium.lower.explain import execute_workload
from astrarium.trace import Traces, read_traces, traces_of_bytes

HERE = Path(__file__).resolve().parent
GOLDEN, MORE, RANDOM = HERE / "golden.tar.xz", HERE / "more.tar.xz", HERE / "random.tar.xz"
FLAGS: Mapping[str, tuple[str, Any]] = {
    "num-queues-per-dim": ("queues_per_dim", int),
    "injection-scale": ("injection_scale", float),
    "rendezvous-protocol": ("rendezvous", lambda text: text == "true"),
}
IDLE_FLAGS = {"comm-scale", "compute-scale"}  # ASTRA-sim takes them and they change nothing


@dataclass(frozen=True)
class Answer:
    """What ASTRA-sim measured with one back end; `finish_ns` and `exposed_ns` are per rank, empty where not usable."""

    usable: bool
    status: str
    finish_ns: tuple[int, ...]
    exposed_ns: tuple[int, ...]
    user_s: float


@dataclass(frozen=True)
class Case:
    """One case: `files` by path, `traces` by stem (one content per rank or position; equal ones are one object)."""

    name: str
    npus: int
    files: Mapping[str, bytes]
    traces: Mapping[str, tuple[bytes, ...]]
    expected: Mapping[str, Answer]

    @property
    def workload(self) -> str:
        """The stem of the ranks' traces, as `--workload-configuration` has it."""
        return next(stem for stem in self.traces if stem.startswith("et/"))

    @property
    def options(self) -> dict[str, Any]:
        """The extra flags, as keywords of read_inputs."""
        words = json.loads(self.files.get("args.json", b"[]"))
        pairs = [word.removeprefix("--").split("=") for word in words]
        return {FLAGS[key][0]: FLAGS[key][1](value) for key, value in pairs if key not in IDLE_FLAGS}

    def write(self, folder: Path, *, traces: bool) -> None:
        """Writes the files into `folder`; the ranks' traces too when `traces` (custom collectives always)."""
        contents = dict(self.files)
        for stem, ranks in self.traces.items():
            if traces or stem != self.workload:
                contents.update({f"{stem}.{rank}.et": data for rank, data in enumerate(ranks)})
        for name, data in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


@functools.cache
def load(archive: Path) -> tuple[Case, ...]:
    """Every case of an archive, in order of name."""
    with tarfile.open(archive, "r:xz") as tar:
        contents = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    blobs = [contents[f"blobs/{number:05}"] for number in range(len(contents) - 1)]
    return tuple(_case(row, blobs) for row in json.loads(contents["cases.json"]))


def of_folder(folder: Path) -> Case:
    """A case that lies unpacked in a folder, in the layout that pack.py describes."""
    row = json.loads((folder / "expected.json").read_text())
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    stem = f"et/{next(iter((folder / 'et').glob('*.0.et'))).name.removesuffix('.0.et')}"
    traces = tuple((folder / f"{stem}.{rank}.et").read_bytes() for rank in range(row["npus"]))
    return Case(folder.name, row["npus"], files, {stem: traces}, _answers(row, row["npus"]))


def _case(row: dict[str, Any], blobs: list[bytes]) -> Case:
    files = {name: blobs[number] for name, number in row["files"].items()}
    traces = {stem: tuple(blobs[number] for number, count in runs for _ in range(count))
              for stem, runs in row["traces"].items()}
    return Case(row["name"], row["npus"], files, traces, _answers(row["expected"], row["npus"]))


def _answers(rows: dict[str, Any], npus: int) -> dict[str, Answer]:
    found = {}
    for backend in ("unaware", "aware"):
        if backend in rows:
            row = rows[backend]
            known = row["usable"]
            finish, exposed = (_spread(row[key], npus) if known else () for key in ("finish_ns", "exposed_ns"))
            found[backend] = Answer(known, row["status"], finish, exposed, row.get("user_s", 0.0))
    return found


def _spread(value: Any, npus: int) -> tuple[int, ...]:
    return (value["all"],) * npus if isinstance(value, dict) else tuple(value)


def pairs(cases: tuple[Case, ...], *, usable: bool) -> list[tuple[Case, str]]:
    """(case, back end) of those that ASTRA-sim finishes, or of those that it does not."""
    return [(case, backend) for case in cases for backend, answer in case.expected.items() if answer.usable == usable]


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Runs the body with `folder` as working directory: paths in a system file are relative to it."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def read(case: Case, backend: str, folder: Path) -> AstraInputs:
    """Writes the configuration files into `folder` and parses them; the traces stay in memory."""
    case.write(folder, traces=False)
    with inside(folder):
        groups = "comm_groups.json" if "comm_groups.json" in case.files else None
        return read_inputs(case.workload, "system.json", "network.yml", "memory.json", groups,
                           backend=f"congestion_{backend}", **case.options)


def lower(case: Case, backend: str, folder: Path, *, from_files: bool = False) -> tuple[Plan, AstraWorkload]:
    """The Plan of a case; `from_files` writes its traces, too, and reads them back, so that messages name them."""
    inputs = read(case, backend, folder)
    workload = workload_of(inputs, _traces(case, folder, inputs.npus if from_files else 0))
    return lower_inputs(inputs, workload), workload


def _traces(case: Case, folder: Path, ranks: int) -> Traces:
    if not ranks:
        return traces_of_bytes(case.traces[case.workload])
    case.write(folder, traces=True)
    return read_traces(folder / case.workload, ranks)


def seen(outcome: Outcome) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(finish_ns, exposed_ns) per rank, as ASTRA-sim prints them."""
    finish = outcome.finish[outcome.row]
    exposed = (outcome.finish - outcome.busy)[outcome.row]
    return tuple((finish // 1000).tolist()), tuple((exposed // 1000).tolist())


def outcome(plan: Plan, workload: AstraWorkload, mode: str) -> Outcome:
    """What the plan comes to, unfolded (`off`) or folded where that is exact (`auto`)."""
    return execute_workload(plan, workload.traces, workload.groups, fold=mode == "auto")


def arguments(case: Case, backend: str) -> list[str]:
    """The drop-in command line of a case, to be run inside its folder."""
    words = ["astra-sim", f"--workload-configuration={case.workload}", "--system-configuration=system.json",
             "--network-configuration=network.yml", "--remote-memory-configuration=memory.json",
             f"--backend=congestion_{backend}", "--json", *json.loads(case.files.get("args.json", b"[]"))]
    return [*words, "--comm-group-configuration=comm_groups.json"] if "comm_groups.json" in case.files else words


def same(case: Case, backend: str, folder: Path, *modes: str) -> None:
    """Asserts that in each of the modes every rank's finish and exposed communication are ASTRA-sim's integers."""
    plan, workload = lower(case, backend, folder)
    want = case.expected[backend]
    for mode in modes:
        found = outcome(plan, workload, mode)
        finish, exposed = seen(found)
        assert finish == want.finish_ns, mode
        assert exposed == want.exposed_ns, mode
        assert not found.folded or mode == "auto"
