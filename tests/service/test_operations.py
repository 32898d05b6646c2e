"""Operations: the command line's numbers, hostile designs, a study step by step."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_calibrate import nccl_log
from tests.commands import Run
from tests.service.test_workers import refused

from astrarium.cost import FIGURES
from astrarium.service.answer import Answer, Progress
from astrarium.service.numbers import UNITS
from astrarium.service.tools import tools
from astrarium.service.workers import Workers

KEY = "study s.study"
DIMS = {"dims": [{"shape": "switch", "npus": 8, "bandwidth": "450 GB/s", "latency": "500 ns"}]}
ALL_REDUCE = {"source": "collective", "op": "all_reduce", "payload": "100 MB"}
BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 10)}]\n" for n in range(8))
HOSTILE: list[tuple[Any, str]] = [
    ({"workload": {"source": "trace", "path": "/etc/passwd"}, "network": DIMS}, "/etc: is outside"),
    ({"workload": {"source": "trace", "path": "../*.et"}, "network": DIMS}, ".."),
    ({"workload": ALL_REDUCE, "network": {**DIMS, "backend": "library", "library": "a.so"}}, "library"),
    ({"workload": ALL_REDUCE, "network": {**DIMS, "backend": "ns3", "ns3": {"program": "/bin/true"}}}, "program"),
    ({"workload": ALL_REDUCE, "network": DIMS, "collective": {"custom": {"all_reduce": "/etc/a.xml"}}}, "/etc/a.xml"),
    ({"workload": ALL_REDUCE, "network": {"fabric": {"blueprint": "file", "file": "/etc/hosts"}}}, "/etc/hosts"),
    ({"workload": {"source": "transformer", "model": "/etc/config.json"}, "network": DIMS}, "/etc/config.json"),
    ({"workload": ALL_REDUCE, "network": DIMS, "compute": {"model": "calibrated", "file": "/etc/fstab"}}, "/etc/fstab"),
    ({"workload": ALL_REDUCE, "network": {"dims": [{**DIMS["dims"][0], "npus": 10**12}]}}, "too many"),
    ({"workload": {**ALL_REDUCE, "payload": float("nan")}, "network": DIMS}, "payload"),
    ({"workload": {**ALL_REDUCE, "payload": "1e999 GB"}, "network": DIMS}, "payload"),
    ({"python": "import os", "network": DIMS}, "python"),
    ("!!python/object/apply:os.system [true]\nx: 1", "tag"), (BOMB, "copy too much"), ("x: [" * 500 + "\n", "design")]


def test_a_run_has_the_numbers_of_the_command_line(workers: Workers, folder: Path, run: Run,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"network.dims[0].bandwidth": "100 GB/s", "collective.chunks": 4}
    answer = workers.call("run", {"design": "a.yaml", "changes": changes, "save": "b.yaml"})
    numbers = {each.name: each for each in answer.numbers}
    monkeypatch.chdir(folder)
    said = run("run", "b.yaml", "--json")
    assert numbers["makespan"].value == round(1000 * json.loads(said.out)["summary"]["makespan_ns"])
    assert (numbers["makespan"].unit, numbers["makespan"].text) == ("ps", "1.758 ms")
    assert answer.command == ("astrarium run a.yaml --set 'network.dims[0].bandwidth=100 GB/s' "
                              "--set collective.chunks=4")
    assert "1.758 ms" in answer.text
    inline = workers.call("run", {"design": (folder / "a.yaml").read_text(), "changes": changes})
    assert (inline.numbers, (folder / inline.title).exists()) == (answer.numbers, True)


@pytest.mark.parametrize(("design", "words"), HOSTILE, ids=[words for _, words in HOSTILE])
def test_a_hostile_design_is_refused(workers: Workers, design: Any, words: str) -> None:
    said = refused(workers, "run", {"design": design})
    assert said.kind in ("input", "limit")
    assert words in said.text


def test_faults_have_paths_and_nearest_names(workers: Workers) -> None:
    answer = workers.call("check", {"design": {"workload": {**ALL_REDUCE, "op": "all_redcue"}, "netwrk": {}}})
    assert answer.found["faults"] == 3
    assert sorted(row[3] for row in answer.tables[0].rows if row[3]) == ["all_reduce", "network"]
    assert workers.call("check", {"design": "a.yaml"}).found["faults"] == 0
    said = refused(workers, "run", {"design": "a.yaml", "changes": {"network.dims[0].bandwith": "1 GB/s"}})
    assert (said.path, said.nearest) == ("network.dims[0].bandwith", "bandwidth")


def test_a_difference_is_split(workers: Workers) -> None:
    answer = workers.call("explain", {"before": "a.yaml", "changes": {"network.dims[0].bandwidth": "100 GB/s",
                                                                      "collective.chunks": 4}})
    parts = sum(round(1000 * each["contribution_ns"]) for each in answer.found["changes"])
    assert parts == round(1000 * answer.found["difference_ns"]) == answer.numbers[1].value - answer.numbers[0].value
    assert refused(workers, "explain", {"before": "a.yaml"}).path == "after"


def test_the_catalog_and_the_files(workers: Workers) -> None:
    rows = workers.call("catalog", {"kind": "devices", "match": "H200 141"}).found["rows"]
    assert [each["name"] for each in rows] == ["h200_sxm"]
    assert refused(workers, "catalog", {"kind": "devics"}).nearest == "device"
    assert "a.yaml" in workers.call("files", {}).found["files"]
    assert "comm_streams: auto" in workers.call("show", {"name": "a.yaml", "whole": True}).text
    assert workers.call("save", {"name": "note.txt", "text": "x"}).files == ("note.txt",)
    assert refused(workers, "save", {"name": "evil.py", "text": "x"}).path == "name"


def step(workers: Workers, **request: Any) -> Answer:
    """One step of the study."""
    return workers.call("search_step", {"study": "s.study", **request}, key=KEY)


def test_a_study_step_by_step_and_resumed(workers: Workers) -> None:
    first = workers.call("search_start", {"space": "space.yaml", "study": "s.study"}, key=KEY)
    knobs = [each["name"] for each in first.found["space"]["knobs"]]
    assert knobs == ["collective.chunks", "network.dims[0].bandwidth"]
    assert first.found["trials"][0]["trial"] == 0
    fast, slow = ({"collective.chunks": 4, "network.dims[0].bandwidth": each} for each in ("400 GB/s", "100 GB/s"))
    told = step(workers, propose=[fast, slow, fast]).found["trials"]
    assert [each["feasible"] for each in told] == [True] * 3
    assert told[0]["objectives"] == told[2]["objectives"] == {"makespan": 438500.0}
    wrong = {**slow, "collective.chunks": 8}
    said = step(workers, propose=[wrong]).found["refused"]
    assert (said["nearest"] != wrong, "breaks the constraint" in said["problem"]) == (True, True)
    assert step(workers, propose=[{"x": 1}]).found["refused"]["problem"].startswith("propose[0].x: is not a knob")
    split = step(workers, explain=[fast, slow]).found["explanation"]
    assert [each["knobs"] for each in split["changes"]] == [["network.dims[0].bandwidth"]]
    workers._keyed[KEY].kill()      # its process: the study is a file
    workers._keyed[KEY].process.join()
    history = step(workers).found["history"]
    assert (history["count"], history["best"][0]["objectives"]) == (4, {"makespan": 438500.0})
    assert step(workers, propose=[slow]).found["trials"][0]["trial"] == 4
    report = workers.call("search_report", {"study": "s.study", "save": "best.yaml"})
    assert report.files == ("best.yaml",)
    assert workers.call("run", {"design": "best.yaml"}).numbers[0].value == 438_500_000
    many = [fast] * 17
    assert "expected 1 to 16" in step(workers, propose=many).found["refused"]["problem"]


def test_a_study_of_another_kind_and_a_full_one(workers: Workers) -> None:
    asked = {"space": "space.yaml", "study": "r.study", "agent": "random", "trials": 6, "best": "r.yaml"}
    answer = workers.call("search_agent", asked)
    assert (answer.found["ended"], answer.found["trials"], answer.files) == (True, 6, ("r.study", "r.yaml"))
    said = refused(workers, "search_step", {"study": "r.study"})
    assert "agent random" in said.message
    assert refused(workers, "search_agent", {**asked, "trials": 51}).path == "trials"
    assert refused(workers, "search_agent", {**asked, "agent": "command:true"}).path == "agent"
    other = refused(workers, "search_start", {"space": "space.yaml", "study": "r.study"})
    assert "another agent" in other.message


@pytest.mark.parametrize("space", [
    {"base": "a.yaml", "choices": {"collective.chunks": [1, 2]}, "constraints": ["9**9**9**9 > 1"]},
    {"base": "a.yaml", "choices": {"collective.chunks": [1, 2]}, "constraints": ["__import__('os').system('true')"]},
    {"base": "../a.yaml", "choices": {"collective.chunks": [1, 2]}},
    {"base": "a.yaml", "choices": {"collective.chunks": [1, 2]}, "agent": "command:true"},
    {"base": "a.yaml", "choices": {"collective.chunks": {"from": 1, "to": 10**15, "step": 1}}},
    {"base": "a.yaml", "choices": {"collective.chunks": [1, 2]}, "constraints": ["(" * 5000 + "1" + ")" * 5000]}])
def test_a_hostile_space_is_refused(workers: Workers, space: Any) -> None:
    said = refused(workers, "search_agent", {"space": space, "study": "h.study", "minimize": ["makespan"]})
    assert said.kind in ("input", "limit")


def test_every_figure_has_a_unit_and_every_field_a_description() -> None:
    assert set(UNITS) == set(FIGURES)
    for tool in tools():
        assert len(tool.description) > 80
        for name, field in tool.schema["properties"].items():
            assert len(field.get("description", "")) > 10, (tool.name, name)


def test_measured_rows_are_compared_and_calibrate_as_on_the_command_line(
        workers: Workers, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "rows.csv").write_text("source,case,gpu,n_gpus,model,tp,pp,dp,gbs,step_s\n"
                                     "me,a,h100_sxm,2,gpt2-small,1,1,2,8,0.1\n")
    (folder / "t.csv").write_text("kind,m,n,k,ns\n" + "".join(
        f"gemm,{512 * each},4096,4096,{30720 * each}\n" for each in range(2, 8)))
    answer = workers.call("validate", {"files": ["rows.csv"]})
    monkeypatch.chdir(folder)
    said = json.loads(run("validate", "rows.csv", "--json").out)
    assert answer.found["rows"] == said["rows"]
    assert (answer.numbers[0].name, answer.numbers[0].value) == ("median_error[me].time",
                                                                 said["scores"]["source"][0]["median"])
    answer = workers.call("calibrate", {"files": ["t.csv"], "base": "h100_sxm", "save": "mine"})
    assert (answer.files, answer.command) == (("mine.toml",), "astrarium calibrate t.csv --base h100_sxm -o mine.toml")
    run(*shlex.split(answer.command)[1:-1], "again.toml")
    mine, again = ((folder / name).read_text() for name in ("mine.toml", "again.toml"))
    assert mine == again
    assert "gemm/bf16: 6 rows; error median" in mine
    nccl_log(folder / "all_reduce_two.log", 2)
    fabric = {"files": ["all_reduce_two.log"], "fabric": "mine", "link_bandwidth": "50 GB/s", "inside": "efa_p5"}
    assert "lies between hosts" in refused(workers, "calibrate", fabric).message
    assert refused(workers, "calibrate", {"files": ["t.csv"]}).path == "base"
    assert refused(workers, "validate", {"files": ["../rows.csv"]}).path == "files"


@pytest.mark.exam
def test_a_plan_s_lines_are_designs(workers: Workers, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"model": "gpt2-small", "device": "h100_sxm", "gpus": 4, "global_batch": 8, "top": 2, "fix": {"tp": [1, 2]}}
    told = list[Progress]()
    answer = workers.call("plan", asked, progress=told.append)
    monkeypatch.chdir(folder)
    said = json.loads(run(*shlex.split(answer.command)[1:], "--json").out)
    assert [each["layout"] for each in answer.found["lines"]] == [each["layout"] for each in said["lines"]]
    step = next(each.value for each in answer.numbers if each.name == "lines[1].step")
    assert step == said["lines"][0]["step_ns"]
    assert answer.files == ("gpt2-small-4xh100_sxm-1.yaml", "gpt2-small-4xh100_sxm-2.yaml")
    again = workers.call("run", {"design": answer.files[0]})
    assert again.numbers[0].value == round(1000 * step)
    why = workers.call("explain", {"before": answer.files[0], "after": answer.files[1]})
    assert why.numbers[0].value == again.numbers[0].value
    assert refused(workers, "plan", {**asked, "ttft": "2s"}).path == "ttft"
    assert refused(workers, "plan", {**asked, "device": "mine.toml"}).path == "device"
    assert refused(workers, "plan", {**asked, "model": "/etc/config.json"}).path == "model"
    assert refused(workers, "plan", {**asked, "network": "../net.yaml"}).path == "network"


@pytest.mark.exam
def test_a_plan_of_serving_is_served(workers: Workers, folder: Path, run: Run,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"model": "gpt2-small", "device": "h100_sxm", "gpus": 1, "purpose": "serving", "prompt": 20, "output": 2,
             "ttft": "1ms", "tpot": "1ms", "compute": "roofline", "collectives": "simulated", "stack": "none",
             "fix": {"weights": ["fp8"]}, "top": 1}
    files = workers.call("plan", asked).files
    answer = workers.call("serve", {"serving": files[0], "changes": {"requests.rate": 5}})
    monkeypatch.chdir(folder)
    said = json.loads(run("serve", files[0], "--set", "requests.rate=5", "--json").out)
    same = [name for name in said if name not in ("version", "notes") and name in answer.found]
    assert len(same) > 10
    assert [answer.found[name] for name in same] == [said[name] for name in same]
    assert answer.command == f"astrarium serve {files[0]} --set requests.rate=5"


def test_an_engine_that_runs_today_is_planned(workers: Workers, folder: Path) -> None:
    (folder / "today.sh").write_text("vllm serve openai-community/gpt2 -tp 2\n")
    answer = workers.call("plan", {
        "today": "today.sh", "device": "h100_sxm", "purpose": "serving", "prompt": 20, "output": 2, "ttft": "1ms",
        "tpot": "1ms", "compute": "roofline", "collectives": "simulated", "stack": "none", "top": 1,
        "fix": {"weights": ["bf16"], "cache": ["bf16"], "tp": [1]}})
    assert answer.found["today"]["npus"] == 2
    assert answer.title == "gpt2-small served on h100_sxm"
    assert answer.command.startswith("astrarium plan --from today.sh --device h100_sxm --for serving ")
