"""Fixtures and settings that every room's tests share."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import sys
from collections.abc import Generator, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.commands import PlugIn, Run, Said
from tests.draws import IN_SUITE
from tests.loading import tool

ROOT = Path(__file__).resolve().parent.parent

# As the command line has it. Nothing here has imported NumPy yet: threads of linear algebra wait on the processor.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Pages keep Vega's scripts here, not in the home of who runs the tests.
os.environ["XDG_CACHE_HOME"] = str(ROOT / "build" / "cache")

# Stored bytecode spares every process of the tests the compilation of the package (about 2 CPU s) and pytest the
# rewriting of assertions, from the second run on, also if the shell sets PYTHONDONTWRITEBYTECODE.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# `default` is what `make test` runs: the same examples each time; no deadline, because a busy machine is not a bug.
# `exam` searches much longer; `roaming` (`make roam`) with a new seed each time.
COMMON = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", COMMON, max_examples=IN_SUITE)
settings.register_profile("exam", COMMON, max_examples=1000)
settings.register_profile("roaming", COMMON, max_examples=200, derandomize=False, print_blob=True)
settings.register_profile("dev", max_examples=10, deadline=timedelta(seconds=2))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def reference_folder() -> Path:
    """Where the reference folder would be: ASTRARIUM_SHARED, or `shared` next to the checkout."""
    return Path(os.environ.get("ASTRARIUM_SHARED") or ROOT.parent / "shared")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--new-pictures`: pages look as they should, and tests/browser/pictures.json is written anew."""
    parser.addoption("--new-pictures", action="store_true", help="store what pages look like as right")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("list", "shape")` -> Said. The note about a missing compiled core, where there is none, is left out."""
    from astrarium.cli import main

    def command(*arguments: str | Path) -> Said:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        found = capsys.readouterr()
        talk = [line for line in found.err.splitlines(keepends=True) if "no compiled core here" not in line]
        return Said(code, found.out, "".join(talk))
    return command


@pytest.fixture
def plug_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlugIn]:
    """`plug_in({"algorithm.mine": "module:target"})` puts these in the place of the plug-ins of installed packages."""
    from astrarium import registry

    def register(lines: Mapping[str, str]) -> None:
        points = [importlib.metadata.EntryPoint(name, target, registry.GROUP) for name, target in lines.items()]
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points if group == registry.GROUP else [])
        monkeypatch.setattr("astrarium.entry_points._mentioned", lambda: True)
        registry._plugins.cache_clear()
    yield register
    monkeypatch.undo()
    registry._plugins.cache_clear()


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def forks() -> Iterator[Any]:
    """Starts Python programs as processes of their own, quickly (tools/forks.py): forks(words, folder)."""
    with tool("forks").Forks() as found:
        yield found


@pytest.fixture(scope="session")
def shared() -> Path:
    """The reference folder (golden cases, traces); the test skips, and says so, where there is none."""
    folder = reference_folder()
    if not folder.is_dir():
        pytest.skip(f"no reference folder at {folder} (set ASTRARIUM_SHARED)")
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting makes lives until the end: the garbage collector need not look at it, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `shared` skip where the reference folder is absent."""
    if reference_folder().is_dir():
        return
    skip = pytest.mark.skip(reason="no reference folder (set ASTRARIUM_SHARED)")
    for item in items:
        if item.get_closest_marker("shared") is not None:
            item.add_marker(skip)


def pytest_report_header() -> list[str]:
    """Say which engine and which reference folder the tests run against."""
    folder = reference_folder()
    lines = [f"reference folder: {folder if folder.is_dir() else 'absent; tests marked `shared` skip'}"]
    try:
        import astrarium._core as core
    except ImportError as error:
        return [*lines, f"compiled core: absent ({error})"]
    return [*lines, f"compiled core: {core.__file__}"]
