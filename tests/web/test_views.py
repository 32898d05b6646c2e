"""Views give what the command line gives."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.commands import Run
from tests.web.workbench import DESIGN, Server, Visitor, write_serving

from astrarium.config import assignments, loads, replace_all
from astrarium.config.yamlfile import scalar
from astrarium.design import Design
from astrarium.errors import InputError
from astrarium.service.web.answers.axes import followed
from astrarium.service.web.answers.knobs import knobs_of
from astrarium.service.web.asks import sets_of
from astrarium.serving.design import load_serving_design
from astrarium.units import format_time


def test_an_answer_is_that_of_the_command_it_names(server: Server, visitor: Visitor, run: Run,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    query = [("design", "small.yaml"), ("client", "a"), ("set", "workload.tp=4"),
             ("set", "network.dims[0].latency=20 us")]
    found = visitor.get("/api/answer", query).json
    assert found["also"] == {"workload.dp": "2"}        # eight NPUs in all
    words = shlex.split(found["command"])
    monkeypatch.chdir(server.folder)
    said = json.loads(run(*words[1:], "--json").out)
    assert found["makespan_ps"] == round(1000 * said["summary"]["makespan_ns"])
    assert "change worse" in found["html"]      # beside the design as it is


def test_the_table_of_all_figures_is_the_printed_one(server: Server, visitor: Visitor, run: Run,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    html = visitor.get("/api/details", [("design", "small.yaml"), ("client", "a")]).json["html"]
    monkeypatch.chdir(server.folder)
    printed = run("run", "small.yaml").out
    cells = re.findall(r"<td[^>]*>([^<]+)</td>", html)
    assert len(cells) > 20
    assert all(cell.strip().replace("&#x27;", "'") in printed for cell in cells)


def test_two_designs_are_split_by_knob(visitor: Visitor) -> None:
    query = [("a", "small.yaml"), ("b", "small.yaml"), ("client", "a"), ("with", "network.dims[0].bandwidth=50 GB/s")]
    found = visitor.get("/api/compare", query).json
    assert "network.dims[0].bandwidth" in found["html"]
    assert "small.yaml to the same with network.dims[0].bandwidth=50 GB/s" in found["html"]
    assert not re.search(r"\d{1,3}(,\d{3}){3,} ?(ps|<)", found["html"])       # exact times are in --json
    assert found["command"] == "astrarium explain small.yaml small.yaml --set 'network.dims[0].bandwidth=50 GB/s'"


def test_a_space_with_a_wrong_key_starts_no_job(visitor: Visitor) -> None:
    before = len(visitor.get("/api/jobs").json)
    space = {"base": "small.yaml", "choicez": {"collective.chunks": [1, 2]}}
    answer = visitor.post("/api/jobs", {"verb": "search", "request": {"space": space, "agent": "random"}})
    assert answer.status == 422
    assert "choicez" in answer.json["error"]
    assert len(visitor.get("/api/jobs").json) == before


def test_a_refusal_is_an_answer_with_the_models_sentence(visitor: Visitor) -> None:
    answer = visitor.get("/api/answer", [("design", "small.yaml"), ("client", "a"), ("set", "workload.tp=5")])
    assert answer.status == 200
    assert "does not divide" in answer.json["error"]
    library = next(Path("/").glob("lib*/**/libc.so.6"))
    answer = visitor.get("/api/answer", [("design", "small.yaml"), ("client", "a"), ("set", "network.backend=library"),
                                         ("set", f"network.library={library}")])
    assert "would load a shared library" in answer.json["error"]


@pytest.mark.parametrize("path", ["/", "/files", "/jobs", "/compare", "/design/small.yaml", "/file/space.yaml",
                                  "/compare?a=small.yaml&b=small.yaml&set=workload.tp%3D4"])
def test_every_view_is_whole_and_loads_its_own_script_only(visitor: Visitor, path: str) -> None:
    answer = visitor.get(path)
    assert answer.status == 200
    assert answer.text.rstrip().endswith("</html>")
    scripts = [f'<script src="/static/{name}.js" defer>' for name in ("page", "workbench")]
    assert re.findall(r"<script[^>]*>", answer.text) == scripts
    assert not re.search(r"\son[a-z]+=", answer.text)      # no handler in the page: its policy forbids them
    assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_a_wrong_name_is_refused_on_the_page(visitor: Visitor) -> None:
    for path in ("/design/none.yaml", "/design/<b>.yaml", "/job/none", "/file/none", "/raw/none", "/static/none"):
        answer = visitor.get(path)
        assert answer.status in (404, 422), path
        assert "<b>" not in answer.text


@pytest.mark.parametrize(("method", "path", "body", "status", "said"), [
    ("GET", "/api/none", None, 404, "GET /api/none: Not Found"),
    ("GET", "/api/designs", None, 405, "GET /api/designs: Method Not Allowed"),
    ("POST", "/api/designs", b"[" * 50_000, 400, "POST /api/designs: There was an error parsing the body")])
def test_every_refusal_has_the_same_form(visitor: Visitor, method: str, path: str, body: bytes | None, status: int,
                                         said: str) -> None:
    visitor.get("/jobs")
    answer = visitor.ask(method, path, body, Content_Type="application/json", X_Astrarium_Token=visitor.token)
    assert (answer.status, answer.json) == (status, {"error": said})


def test_an_address_that_is_not_there_is_a_page(visitor: Visitor) -> None:
    answer = visitor.get("/none")
    assert answer.status == 404
    assert "GET /none: Not Found" in answer.text
    assert answer.text.rstrip().endswith("</html>")


def test_a_design_with_changes_is_saved_as_a_file(server: Server, visitor: Visitor) -> None:
    answer = visitor.post("/api/designs", {"design": "small.yaml", "name": "saved.yaml", "sets": ["workload.tp=4"]})
    assert answer.status == 201, answer.text
    saved = loads(Design, (server.folder / "saved.yaml").read_text())
    assert saved == replace_all(loads(Design, DESIGN), {"workload.tp": 4, "workload.dp": 2})
    assert visitor.get(answer.json["link"]).status == 200
    again = visitor.post("/api/designs", {"design": "small.yaml", "name": "saved.yaml", "sets": ["workload.tp=1"]})
    assert again.status == 422
    assert "there is a file 'saved.yaml'" in again.text
    assert loads(Design, (server.folder / "saved.yaml").read_text()) == saved


@pytest.mark.parametrize(("name", "data", "kind"), [
    ("mine.yaml", DESIGN, "design"), ("mine.space.yaml", "base: small.yaml\nchoices: {}\n", "space"),
    ("config.json", '{"model_type": "llama", "hidden_size": 8}', "model"),
    ("job.sh", "torchrun pretrain_gpt.py", "launch"),
    ("engine.sh", "vllm serve llama3-8b --tensor-parallel-size 2", "engine"),
    ("serve.yaml", "requests: {source: poisson}\n", "serving"), ("empty.yaml", "", "other"),
    ("nccl.log", "NCCL INFO", "log")])
def test_a_dropped_file_is_recognised_by_its_content(visitor: Visitor, name: str, data: str, kind: str) -> None:
    answer = visitor.drop(name, data.encode())
    assert (answer.status, answer.json["kind"]) == (201, kind), answer.text
    assert visitor.get(answer.json["link"]).status == 200
    assert visitor.drop(name, b"other").status == 422       # a file is never overwritten


@pytest.mark.parametrize(("name", "text", "words"), [
    ("none.yaml", "", "none.yaml: is empty"), ("empty.json", "", "empty.json: is empty"),
    ("wrong.yaml", "a: [1\n", "wrong.yaml:"), ("other.yaml", "a: 1\n", "A file of no known kind.")])
def test_a_file_of_no_kind_says_why(visitor: Visitor, name: str, text: str, words: str) -> None:
    page = visitor.get(visitor.drop(name, text.encode()).json["link"]).text
    assert words in page
    assert ("no known kind" in page) == ("no known kind" in words)


@pytest.mark.parametrize(("name", "text", "words"), [
    ("rows.csv", "source,case,gpu,n_gpus,model,tp,pp,dp,gbs,step_s\nme,a,h100_sxm,2,gpt2-small,1,1,2,8,0.1\n",
     "Compare with predictions"),
    ("engine.csv", "arrival,prompt,output,ttft\n0,10,5,0.1\n", "Calibrate the engine")])
def test_measured_rows_offer_what_can_be_done_with_them(visitor: Visitor, name: str, text: str, words: str) -> None:
    answer = visitor.drop(name, text.encode())
    assert answer.status == 201, answer.text
    assert words in visitor.get(answer.json["link"]).text


def test_a_comparison_is_a_job_with_its_plot_and_command(server: Server, visitor: Visitor) -> None:
    (server.folder / "steps.csv").write_text("source,case,gpu,n_gpus,model,tp,pp,dp,gbs,step_s\n"
                                             "me,a,h100_sxm,2,gpt2-small,1,1,2,8,0.1\n")
    name = visitor.post("/api/jobs", {"verb": "validate", "request": {"files": ["steps.csv"]}}).json["id"]
    visitor.get(f"/api/jobs/{name}/events")     # ends with the job
    html = visitor.get(f"/job/{name}").text
    assert "astrarium validate steps.csv" in html
    assert "<svg" in html
    assert "31.9 %" in html
    assert visitor.get(f"/page/{name}").status == 200
    assert visitor.post("/api/jobs", {"verb": "validate", "request": {"files": ["none.csv"]}}).status == 422


def test_a_serving_file_has_knobs_and_the_answer_of_serve(server: Server, visitor: Visitor, run: Run,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    write_serving(server.folder)
    page = visitor.get("/design/stream.yaml").text
    assert 'data-path="requests.rate"' in page
    assert 'data-path="network.dims[0].bandwidth"' in page
    query = [("design", "stream.yaml"), ("client", "a"), ("set", "requests.rate=50"),
             ("set", "network.dims[0].bandwidth=25 GB/s")]
    found = visitor.get("/api/answer", query).json
    monkeypatch.chdir(server.folder)
    said = json.loads(run(*shlex.split(found["command"])[1:], "--json").out)
    assert format_time(said["ttft_p99_ns"]).partition(" ")[0] in found["html"]
    assert "change worse" in found["html"]
    assert "Turn its knobs" in visitor.get("/file/stream.yaml").text


def test_serving_files_are_compared(server: Server, visitor: Visitor, run: Run,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    write_serving(server.folder)
    assert 'id="compare"' in visitor.get("/design/stream.yaml").text
    found = visitor.get("/api/compare", [("a", "stream.yaml"), ("b", "stream.yaml"), ("client", "c"),
                                         ("with", "network.dims[0].bandwidth=25 GB/s"), ("with", "requests.rate=50")]
                        ).json
    assert found["html"].count('class="tiles"') == 2
    assert "change worse" in found["html"]
    monkeypatch.chdir(server.folder)
    said = json.loads(run(*shlex.split(found["command"])[1:], "--json").out)
    for figure in said["by_knob"].values():
        assert {knob["knob"] for each in figure["changes"] for knob in each["knobs"]} == {
            "network.dims[0].bandwidth", "requests.rate"}
    assert all(each in found["html"] for each in ("network.dims[0].bandwidth", "requests.rate", "TPOT (mean)"))


@pytest.mark.parametrize(("sets", "beside"), [(["requests.rate=50"], False),
                                              (["requests.rate=50", "network.dims[0].bandwidth=25 GB/s"], True)])
def test_a_serving_file_with_changes_is_saved(sets: list[str], beside: bool, server: Server, visitor: Visitor) -> None:
    write_serving(server.folder)
    name = f"saved_{beside}.yaml"
    answer = visitor.post("/api/designs", {"design": "stream.yaml", "name": name, "sets": sets})
    assert answer.status == 201, answer.text
    before, after = (load_serving_design(server.folder / each) for each in ("stream.yaml", name))
    assert after == replace_all(before, assignments(sets))
    assert (server.folder / f"saved_{beside}.design.yaml").exists() == beside
    assert 'data-path="requests.rate"' in visitor.get(answer.json["link"]).text


def test_knobs_offer_the_present_value_and_only_what_the_design_takes() -> None:
    design = loads(Design, DESIGN)
    knobs = knobs_of(design)
    assert len(knobs) > 60
    refused, units = 0, False
    for knob in knobs:
        assert knob.kind == "text" or knob.values[knob.at] == knob.value
        for value in knob.values[::5]:
            try:
                replace_all(design, {knob.path: scalar(value), **followed(design, {knob.path: value})})
            except InputError as error:
                refused += 1
                units = units or "unit" in error.message
    assert not units        # every value is written as the field takes it
    assert refused < sum(len(knob.values[::5]) for knob in knobs) / 2


def test_the_data_parallel_axis_follows() -> None:
    design = loads(Design, DESIGN)
    assert followed(design, {"workload.tp": "4"}) == {"workload.dp": "2"}
    assert followed(design, {"workload.tp": "4", "workload.pp": "2"}) == {"workload.dp": "1"}
    assert followed(design, {"network.dims[0].npus": "16"}) == {"workload.dp": "8"}
    assert followed(design, {"workload.tp": "3"}) == {}     # no whole number of replicas
    assert followed(design, {"workload.tp": "4", "workload.dp": "1"}) == {}     # given
    assert followed(design, {"network.dims[0].latency": "2 us"}) == {}


def test_changes_are_pairs_once() -> None:
    assert sets_of(["a=b=c", "d="]) == {"a": "b=c", "d": ""}
    for wrong in (["a"], ["=b"], ["a=1", "a=2"], ["a=" + "x" * 300]):
        with pytest.raises(InputError):
            sets_of(wrong)


def test_what_a_design_names_is_not_run(visitor: Visitor, tmp_path: Path) -> None:
    outside = tmp_path / "secret.0.et"
    outside.write_bytes(b"secret")
    dims = "dims: [{shape: switch, npus: 8, bandwidth: 1 GB/s, latency: 1 us}]"
    for name, line in (("lib", f"{{backend: library, library: /lib/x86_64-linux-gnu/libc.so.6, {dims}}}"),
                       ("ns3", f"{{backend: ns3, ns3: {{program: /bin/true}}, {dims}}}"), ("out", "")):
        text = re.sub(r"network:\n(  .*\n)+", f"network: {line}\n", DESIGN) if line else \
            re.sub(r"workload: .*", f"workload: {{source: trace, path: {outside}}}", DESIGN)
        assert visitor.drop(f"{name}.yaml", text.encode()).status == 201
        found = visitor.get("/api/answer", [("design", f"{name}.yaml"), ("client", "a")]).json
        assert re.search("a shared library|start a program|outside the folder", found["error"]), (name, found)
