"""A browser, and a page of every answer, written once by the command line. Without Playwright or Chromium the tests are
skipped."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.newcomer.every_input import ROOF, SMALL, write_inputs

from astrarium.cli import main

PIPELINE = ("workload: {source: transformer, global_batch: 16, micro_batch: 1, tp: 2, pp: 4, dp: 2, zero: 1, "
            f"model: {{{SMALL.replace('layers: 2', 'layers: 8')}}}}}\n"
            "network:\n  dims:\n  - {shape: switch, npus: 8, bandwidth: 450 GB/s, latency: 500 ns}\n"
            "  - {shape: switch, npus: 2, bandwidth: 50 GB/s, latency: 2 us}\n" + ROOF)
FRONT = ("base: one.yaml\nchoices:\n  collective.chunks: [1, 2, 4, 8]\n  system.comm_streams: [1, 2]\n"
         "  network.dims[0].bandwidth: [50 GB/s, 100 GB/s, 200 GB/s, 400 GB/s]\n"
         "  network.dims[0].shape: [ring, switch]\nminimize: [makespan, network_cost]\nagent: random\ntrials: 40\n")
SERVED = ("design: served.yaml\nrequests: {kind: poisson, rate: 2000, count: 120, seed: 1, prompt: 32, output: 8}\n")
COMMANDS = {
    "run": "run pipeline.yaml",
    "runs": "run pipeline.yaml train.yaml one.yaml",
    "plan": "plan --from launch.sh --device h100_sxm --top 3",
    "plan_serving": "plan gpt2-small --for serving --device h100_sxm --gpus 1 --prompt 20 --output 2 --ttft 1ms "
                    "--tpot 1ms --compute roofline --collectives simulated --stack none --fix weights=fp8",
    "report": "report front.study",
    "serve": "serve stream.yaml",
    "explain": "explain pipeline.yaml other_pipeline.yaml",
    "validate": "validate rows.csv",
    "calibrate": "calibrate t.csv --base h100_sxm -o device.toml",
    "trace": "trace show linked.0.et",
}


class Made(NamedTuple):
    """A page, and what the same command printed."""

    path: Path
    printed: str


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    """Name -> page."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_inputs(folder)
        (folder / "pipeline.yaml").write_text(PIPELINE)
        other = PIPELINE.replace("50 GB/s", "25 GB/s").replace("zero: 1", "zero: 0")
        (folder / "other_pipeline.yaml").write_text(other)
        (folder / "front.yaml").write_text(FRONT)
        (folder / "stream.yaml").write_text(SERVED)
        assert main(["search", "front.yaml", "--study", "front.study"]) == 0
        assert main(["trace", "link", "host.json", "device.json", "-o", "linked"]) == 0
        return {name: _made(folder, name, command) for name, command in COMMANDS.items()}


def _made(folder: Path, name: str, command: str) -> Made:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main([*command.split(), "--html", f"{name}.html"]) == 0
    return Made(folder / f"{name}.html", printed.getvalue())


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium: `ASTRARIUM_CHROMIUM`, the system's, or Playwright's own."""
    sync = pytest.importorskip("playwright.sync_api", reason="needs Playwright (pip install '.[browser]')")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("ASTRARIUM_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    with sync.sync_playwright() as playwright:
        path = found or playwright.chromium.executable_path
        if not os.path.exists(path):
            pytest.skip("needs Chromium (playwright install chromium)")
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--font-render-hinting=none"])
        yield started
        started.close()


def until(page: Any, what: str) -> None:
    """Wait until an expression holds in the page, whose policy forbids Playwright's own way to."""
    for _ in range(200):
        if page.evaluate(what):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"not within 5 s: {what}")


class Opened(NamedTuple):
    """A page in the browser, and what went wrong in it: messages of the console, errors, requests."""

    page: Any
    wrong: list[str]


@pytest.fixture
def opened(browser: Any, pages: dict[str, Made]) -> Iterator[Callable[..., Opened]]:
    """`opened("run", width=400, scheme="dark")` opens a page; more arguments are those of Playwright's context."""
    contexts = []

    def open_page(name: str, width: int = 1280, scheme: str = "light", **more: Any) -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **more)
        contexts.append(context)
        page, wrong = context.new_page(), list[str]()
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else wrong.append(asked.url))
        page.goto(pages[name].path.as_uri())
        until(page, "!document.documentElement.dataset.waits")
        return Opened(page, wrong)

    yield open_page
    for context in contexts:
        context.close()
