"""`pip install .` with a compiler, with a broken one, and where falling back is forbidden. Builds for real: an exam."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import astrarium

pytestmark = pytest.mark.exam
BROKEN = {"CC": "/bin/false", "CXX": "/bin/false"}


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """A copy of the checkout without build outputs: what a stranger downloads."""
    ignore = shutil.ignore_patterns(".git", ".venv*", "build", "_core*.so", "__pycache__", ".hypothesis", ".*_cache")
    copy: Path = tmp_path / "checkout"
    shutil.copytree(root, copy, ignore=ignore)
    return copy


def clean() -> dict[str, str]:
    """This environment without what would change a build or an import."""
    drop = {*BROKEN, "PYTHONPATH"}
    return {name: value for name, value in os.environ.items() if name not in drop and not name.startswith("ASTRARIUM_")}


def wheel(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build a wheel into checkout/dist in an isolated environment."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(checkout / "dist"), str(checkout)]
    return subprocess.run(command, env=clean() | environment, capture_output=True, text=True, timeout=900, check=False)


def contents(checkout: Path) -> tuple[str, list[str]]:
    """Name of the one wheel in checkout/dist, and its files."""
    (path,) = (checkout / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return path.name, archive.namelist()


def test_with_a_compiler_the_wheel_holds_the_core(checkout: Path) -> None:
    run = wheel(checkout)
    assert run.returncode == 0, run.stderr
    name, files = contents(checkout)
    assert ("abi3" in name) == (sys.version_info >= (3, 12))
    assert len([f for f in files if f.startswith("astrarium/_core") and f.endswith(".so")]) == 1
    assert "astrarium/py.typed" in files
    assert any(f.startswith("astrarium/catalog/") for f in files)
    assert any(f.endswith("licenses/LICENSE") for f in files)
    assert not [f for f in files if f.split("/")[0] in ("native", "tests", "examples")]


def test_without_a_compiler_it_installs_and_runs_the_quick_start(checkout: Path, tmp_path: Path) -> None:
    run = wheel(checkout, **BROKEN)
    assert run.returncode == 0, run.stderr
    name, files = contents(checkout)
    assert name.endswith("-py3-none-any.whl")
    assert not [f for f in files if "_core" in f]
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "-q", str(checkout / "dist" / name)]
    subprocess.run(install, check=True, capture_output=True, timeout=600)
    command = [str(python), str(checkout / "tools" / "smoke.py"), "--pure"]
    smoke = subprocess.run(command, env=clean(), capture_output=True, text=True, timeout=300, check=False)
    assert smoke.returncode == 0, smoke.stdout + smoke.stderr
    here = astrarium.simulate(astrarium.load_design(checkout / "examples" / "quickstart" / "design.yaml"))
    assert f"makespan {here.makespan_ps} ps" in smoke.stdout


def test_falling_back_can_be_forbidden(checkout: Path) -> None:
    run = wheel(checkout, ASTRARIUM_REQUIRE_CORE="1", **BROKEN)
    assert run.returncode != 0
    assert "CMake configuration failed" in run.stderr + run.stdout
