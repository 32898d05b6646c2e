"""The workbench in a real browser: from three choices to a plan in clicks, a slider that moves the answer, keyboard
only, on a phone and in the dark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import Opened, until
from tests.browser.test_every_page import looks_as_before, problems
from tests.browser.test_keyboard import tab_to
from tests.web.workbench import Server, Visitor, folder_in, served

pytest.importorskip("fastapi", reason="the workbench needs the extra web")
pytestmark = pytest.mark.browser

VIEWS = {"start": "/", "files": "/files", "jobs": "/jobs", "design": "/design/small.yaml?set=workload.tp%3D4",
         "compare": "/compare?a=small.yaml&b=small.yaml&with=network.dims%5B0%5D.bandwidth%3D50%20GB%2Fs",
         "space": "/file/space.yaml", "rows": "/file/rows.csv", "plan": "/job/PLAN"}
READY = {"design": ".tile", "compare": "#compared table", "plan": "#found table"}
Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def workbench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose folder has a design, a space, and a plan that is done."""
    folder = folder_in(tmp_path_factory.mktemp("workbench"))
    (folder / "rows.csv").write_text("source,case,gpu,n_gpus,model,tp,pp,dp,gbs,step_s\n"
                                     "me,a,h100_sxm,2,gpt2-small,1,1,2,8,0.1\n")
    with served(folder) as server:
        visitor = Visitor(server)
        started = visitor.post("/api/jobs", {"verb": "plan", "request": {
            "model": "gpt2-small", "device": "h100_sxm", "gpus": 8, "global_batch": 32}})
        name = started.json["id"]
        visitor.get(f"/api/jobs/{name}/events")     # ends with the job
        assert visitor.get(f"/api/jobs/{name}").json["state"] == "done"
        yield server


@pytest.fixture
def opened(browser: Any, workbench: Server) -> Iterator[Open]:
    """`opened("/jobs", width=400, scheme="dark")`."""
    contexts = []

    def open_view(path: str, width: int = 1280, scheme: str = "light") -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page, wrong = context.new_page(), list[str]()
        here = f"http://localhost:{workbench.port}"
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith((here, "data:")) else wrong.append(asked.url))
        page.goto(here + path)
        return Opened(page, wrong)

    yield open_view
    for context in contexts:
        context.close()


def _plan(workbench: Server) -> str:
    return next(path.name for path in sorted((workbench.folder / "jobs").iterdir()) if "plan-gpt2" in path.name)


@pytest.mark.parametrize(("name", "width", "scheme"), [(name, width, scheme) for name in VIEWS
                                                       for width, scheme in ((1280, "light"), (400, "dark"))])
def test_a_view(name: str, width: int, scheme: str, opened: Open, workbench: Server,
                request: pytest.FixtureRequest) -> None:
    page, wrong = opened(VIEWS[name].replace("PLAN", _plan(workbench)), width, scheme)
    page.wait_for_selector(READY.get(name, "main"), timeout=60_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert wrong == []
    assert problems(page) == []
    looks_as_before(page, f"workbench {name} {width} {scheme}", request)


def test_three_choices_lead_to_a_plan_and_its_knobs(opened: Open) -> None:
    page, wrong = opened("/")
    page.fill("input[name=model]", "gpt2-small")
    page.select_option("select[name=device]", "a100_sxm_80gb")
    page.fill("input[name=gpus]", "8")
    page.click("#plan button.first")
    page.wait_for_selector("#found table", timeout=90_000)
    assert page.inner_text("#command") == "astrarium plan gpt2-small --device a100_sxm_80gb --gpus 8"
    page.click("#found td a >> nth=0")
    page.wait_for_selector(".tile", timeout=60_000)
    assert page.inner_text("h1") == "gpt2-small on 8 a100_sxm_80gb: layout 1"
    assert wrong == []


def test_a_plan_shows_how_far_it_is(opened: Open, workbench: Server) -> None:
    """Time since the start, layouts with lower bounds before one is simulated, and layouts so far."""
    visitor = Visitor(workbench)
    name = visitor.post("/api/jobs", {"verb": "plan", "request": {"model": "llama3-70b", "device": "h100_sxm",
                                                                  "gpus": 16384}}).json["id"]
    try:
        page, wrong = opened(f"/job/{name}")
        page.wait_for_selector("#picture table", timeout=90_000)
        assert re.search(r"layouts simulated, [\d,]+ of [\d,]+ may fit", page.inner_text("#text"))
        assert ">= " in page.inner_text("#picture table")
        first = page.inner_text("#elapsed")
        assert re.fullmatch(r"\d+:\d\d min since the start", first)
        until(page, f"document.getElementById('elapsed').textContent !== '{first}'")
        reloaded = opened(f"/job/{name}").page
        assert reloaded.locator("#elapsed[data-seconds]").count() == 1
        assert wrong == []
    finally:
        visitor.post(f"/api/jobs/{name}/stop", {})


def test_a_slider_moves_the_answer_and_the_address_keeps_it(opened: Open) -> None:
    page, wrong = opened("/design/small.yaml")
    page.wait_for_selector(".tile")
    before = page.inner_text(".tile b")
    tab_to(page, "#usual [aria-label='network.dims[0].bandwidth']")
    for _ in range(8):
        page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".change.worse", timeout=30_000)
    after = page.inner_text(".tile b")
    assert after != before
    assert "network.dims[0].bandwidth=112 GB/s" in page.inner_text("#command")
    other = opened(re.sub("^http://[^/]+", "", page.url)).page
    other.wait_for_selector(".change.worse")
    assert other.inner_text(".tile b") == after
    page.click("#reset")
    page.wait_for_selector(".change", state="detached")
    assert page.inner_text(".tile b") == before
    assert wrong == []


def test_a_refused_value_says_why_and_the_answer_stays(opened: Open) -> None:
    page, wrong = opened("/design/small.yaml")
    page.wait_for_selector(".tile")
    page.fill("[id='u-workload.tp']", "5")
    page.wait_for_selector("#refused:not(:empty)")
    assert "does not divide" in page.inner_text("#refused")
    assert page.locator(".tile").count() >= 4
    page.fill("[id='u-workload.tp']", "4")
    page.wait_for_selector(".change")
    assert page.input_value("[id='u-workload.dp']") == "2"      # it follows
    assert page.inner_text("#refused") == ""
    assert wrong == []


def test_a_search_by_keyboard_alone(opened: Open, workbench: Server) -> None:
    page, wrong = opened("/design/small.yaml?set=network.dims%5B0%5D.latency%3D2%20us")
    page.wait_for_selector(".tile")
    tab_to(page, "#search")
    page.keyboard.press("Enter")
    assert page.input_value(".choice select") == "network.dims[0].latency"
    assert page.inner_text(".choice option:checked") == "dim 0: latency · network.dims[0].latency"
    assert page.input_value("[name=require]") == "peak_memory <= memory.capacity"
    tab_to(page, "#searching button.first")
    page.keyboard.press("Enter")
    page.wait_for_selector("#found table", timeout=60_000)
    assert page.inner_text("#state") == "done"
    assert wrong == []
    space = next(path.read_text() for path in workbench.folder.glob("space-*.yaml"))
    assert "require: peak_memory <= memory.capacity" in space
    jobs = opened("/jobs").page.inner_text("main")
    assert re.search(r"search around small.yaml\s+done\s+\d+ trials, best makespan .*, took [\d.]+ s", jobs)


def test_a_typed_value_moves_the_slider_to_the_nearest(opened: Open) -> None:
    page, wrong = opened("/design/small.yaml")
    page.wait_for_selector(".tile")
    field, slider = "[id='u-network.dims[0].bandwidth']", "#usual [aria-label='network.dims[0].bandwidth']"
    for text, place in (("9999 GB/s", "32"), ("1 GB/s", "0"), ("450 GB/s", "16")):
        page.fill(field, text)
        assert page.input_value(slider) == place
    assert wrong == []


def test_a_dropped_design_opens(opened: Open, tmp_path: Path, workbench: Server) -> None:
    page, wrong = opened("/")
    file = tmp_path / "dropped here.yaml"
    file.write_text((workbench.folder / "small.yaml").read_text())
    page.set_input_files("#dropped", str(file))
    page.wait_for_selector(".tile", timeout=30_000)
    assert page.inner_text("h1") == "dropped here.yaml"
    assert wrong == []
