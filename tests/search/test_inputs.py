"""What a study's values depend on beside its plan, and what a study of other inputs hears."""

from __future__ import annotations

import importlib
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.commands import PlugIn
from tests.fabric.fabrics import saved, two_hosts
from tests.search.designs import small_space
from tests.search.test_study import rows

import astrarium as ar
from astrarium import catalog
from astrarium.errors import InputError
from astrarium.report.tables.study_data import study_report
from astrarium.search import Space, search
from astrarium.search.bundle import write_bundle
from astrarium.search.goal import Case, goal_of
from astrarium.search.inputs import differing, digest_of, files_of, inputs_of, text_of_function
from astrarium.search.store import Store
from astrarium.search.studyfile import load_study
from astrarium.search.workers import Workers, _evaluate
from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp

GOAL = goal_of("makespan")
ROW = """[devices.my_chip]
title = "Our chip"
peak = "700 TFLOP/s"
capacity = "96 GiB"
bandwidth = "3 TB/s"
source = "our own data sheet"
"""


def traces(folder: Path, size: int, ranks: int = 2) -> Path:
    """Traces of one all_reduce in a folder; their prefix."""
    folder.mkdir(exist_ok=True)
    for rank in range(ranks):
        trace = TraceBuilder()
        trace.coll("sum", CommOp.ALL_REDUCE, size)
        trace.write(folder / f"w.{rank}.et")
    return folder / "w"


def over(prefix: Path, **choices: Any) -> Space:
    """A space over a trace of two ranks."""
    design = ar.Design(workload=ar.Trace(str(prefix)),
                       network=ar.Network([ar.Ring(2, bandwidth="50 GB/s", latency="1 us")]))
    return Space(design, {"collective.chunks": [1, 2, 4], **choices})


def test_every_file_that_designs_read_is_recorded(tmp_path: Path) -> None:
    one, two, three = (traces(tmp_path / name, 1 << 20) for name in ("one", "two", "three"))
    traces(tmp_path / "more", 1).with_name("w.big.0.et").write_text("no rank of ours")
    program = tmp_path / "p.xml"
    cases = [Case("a", 1.0, {"workload.path": str(three), "collective.custom.all_reduce": str(program)})]
    found = inputs_of(over(one), goal_of("makespan", cases=cases))
    wanted = {f"file {prefix}.{rank}.et" for prefix in (one, three) for rank in (0, 1)} | {f"file {program}"}
    assert {name for name in found if name.startswith("file ")} == wanted
    assert found[f"file {program}"] == "missing"
    chosen = inputs_of(over(one, **{"workload.path": [str(one), str(two)]}), GOAL)
    assert f"file {two}.1.et" in chosen
    derived = Space(over(one).base, {"collective.chunks": [1, 2]},
                    derived={"workload.path": f"if(collective.chunks == 1, '{one}', '{two}')"})
    assert f"file {two}.1.et" in inputs_of(derived, GOAL)
    assert files_of(f"{one}.*.et") == files_of(str(one)) == [f"{one}.0.et", f"{one}.1.et"]
    assert files_of(str(tmp_path / "more" / "w")) == [f"{tmp_path}/more/w.{rank}.et" for rank in (0, 1)]


def test_files_of_fabrics_are_recorded(tmp_path: Path) -> None:
    fabric = saved(two_hosts(), tmp_path)
    design = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"),
                       network=ar.Network(fabric=ar.FabricFile(file=fabric, inside="free"), backend="fluid"))
    assert f"file {fabric}" in inputs_of(Space(design, {"collective.chunks": [1, 2]}), GOAL)


def test_a_changed_file_is_named(tmp_path: Path) -> None:
    prefix = traces(tmp_path / "t", 1 << 20)
    space, study = over(prefix), tmp_path / "s.study"
    search(space, "makespan", trials=2, study=study)
    found = rows(study)
    traces(tmp_path / "t", 1 << 24)
    with pytest.raises(InputError, match=r"w\.0\.et has changed, file .*w\.1\.et has changed; expected these as they "
                                         r"were, or a new study, without these trials: --study .*s\.2\.study"):
        search(space, "makespan", trials=3, study=study)
    assert rows(study) == found
    with pytest.raises(InputError, match=r"w\.0\.et has changed.*no --recheck"):
        study_report([load_study(study)], recheck=True)
    assert study_report([load_study(study)]).summaries[0].trials == 2
    with pytest.raises(InputError, match=r"w\.0\.et has changed"):
        write_bundle(load_study(study), str(tmp_path / "s.zip"))
    search(space, "makespan", trials=3, study=tmp_path / "other.study")
    with pytest.raises(InputError, match=r"other\.study: holds trials of other inputs.*a report for each"):
        study_report([load_study(study), load_study(tmp_path / "other.study")])
    traces(tmp_path / "t", 1 << 20)
    assert search(space, "makespan", trials=3, study=study).fresh == 1
    (tmp_path / "t" / "w.1.et").unlink()
    with pytest.raises(InputError, match=r"w\.1\.et is gone"):
        search(space, "makespan", trials=3, study=study)


def test_version_and_catalog_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows_of_ours, study = tmp_path / "ours.toml", tmp_path / "s.study"
    rows_of_ours.write_text(ROW)
    with catalog.overlay(rows_of_ours):
        search(small_space(), "makespan", trials=2, study=study)
    with pytest.raises(InputError, match=r"catalog .*ours\.toml is gone"):
        search(small_space(), "makespan", trials=2, study=study)
    rows_of_ours.write_text(ROW.replace("3 TB/s", "4 TB/s"))
    monkeypatch.setenv("ASTRARIUM_CATALOG", str(rows_of_ours))
    with pytest.raises(InputError, match=r"catalog .*ours\.toml has changed"):
        search(small_space(), "makespan", trials=2, study=study)
    rows_of_ours.write_text(ROW)
    monkeypatch.setattr(importlib.import_module("astrarium.search.inputs"), "version_of", lambda _: "99.1")
    with pytest.raises(InputError, match=r"Astrarium was .*, is 99\.1"):
        search(small_space(), "makespan", trials=2, study=study)


def test_a_study_that_recorded_nothing_is_refused(tmp_path: Path) -> None:
    study = tmp_path / "s.study"
    search(small_space(), "makespan", trials=2, study=study)
    data = sqlite3.connect(study)
    data.execute("DELETE FROM meta WHERE key = 'inputs'")
    data.commit()
    data.close()
    with pytest.raises(InputError, match=r"recorded neither versions nor files.*--study .*s\.2\.study"):
        search(small_space(), "makespan", trials=2, study=study)
    assert load_study(study).inputs is None


def test_a_study_without_trials_is_of_any_inputs(tmp_path: Path) -> None:
    """A search that was stopped before its first trial binds nobody."""
    study = tmp_path / "s.study"
    with Store(str(study)) as store:
        store.describe({"format": "2", "seed": "7", "inputs": "{}"})
    assert search(small_space(), "makespan", trials=2, study=study).trials == 2


def slow(_: Any, result: Any) -> float:
    """An objective."""
    return 2.0 * float(result.makespan)


def test_functions_are_recorded_by_their_code() -> None:
    def scaled(factor: float, names: Any = frozenset("ab")) -> Any:
        return lambda _, result: factor * float(result.makespan) if "a" in {"a", "b"} and names else 0.0

    def digest(function: Any) -> str:
        return digest_of(text_of_function(function))
    assert digest(scaled(2.0)) == digest(scaled(2.0)) != digest(scaled(3.0))
    assert digest(slow) != digest(lambda _, result: 3.0 * float(result.makespan))
    assert digest(partial(slow, 1)) == digest(partial(slow, 1)) != digest(partial(slow, 2))


class Mine(ar.Roofline, frozen=True, kw_only=True):
    """A compute model that is not ours."""

    tag: ClassVar[str] = "mine"


def test_code_of_plug_ins_is_recorded(plug_in: PlugIn) -> None:
    plug_in({"compute.mine": "tests.search.test_inputs:Mine", "compute.unused": "tests.search.nowhere:Other"})
    base = small_space().base
    assert base is not None
    design = ar.replace_all(base, {"compute": Mine(peak="1 TFLOP/s"), "memory.bandwidth": "1 TB/s"})
    found = inputs_of(Space(design, {"collective.chunks": [1, 2]}), GOAL)
    assert {"plug-in compute.mine", "class tests.search.test_inputs.Mine"} <= set(found)
    assert "plug-in compute.unused" not in found


def test_values_that_stand_for_more_are_recorded(tmp_path: Path) -> None:
    base = small_space().base
    assert base is not None
    design = ar.replace(base, "workload", ar.Transformer("llama3-8b", dp=64, global_batch=64, seq=128))
    space = Space(design, {"workload.model": ["llama3-8b", "gpt3-175b"]})
    assert "values of workload.model" in inputs_of(space, GOAL)


def test_a_machine_with_other_files_says_so(tmp_path: Path) -> None:
    prefix = traces(tmp_path / "t", 1 << 20)
    space = over(prefix)
    shipped = Workers(space, GOAL)._as_bytes(inputs_of(space, GOAL))
    assert len(_evaluate(shipped, ([space.point(0)], None))) == 1
    traces(tmp_path / "t", 1 << 21)
    there = Workers(space, GOAL)._as_bytes({**inputs_of(space, GOAL), f"file {prefix}.1.et": "another"})
    with pytest.raises(InputError, match=r"worker on .*: has other inputs: file .*w\.1\.et has changed"):
        _evaluate(there, ([space.point(0)], None))


def test_differences_in_words() -> None:
    known = {f"file {name}": "1" for name in "abcde"}
    assert differing(known, known) == ""
    assert differing(known, {"file f": "1"}) == "file a is gone, file b is gone, file c is gone and 3 more"
    assert differing({"file a": "1"}, {"file a": "missing"}) == "file a is missing"
