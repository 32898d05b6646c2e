"""A fifth medium, and a third transport of packets, is one C++ file, one class of the pure-Python engine and one
registry line."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOY = Path(__file__).parent / "toy"


@pytest.mark.exam
@pytest.mark.skipif(shutil.which("cmake") is None or importlib.util.find_spec("nanobind") is None,
                    reason="needs cmake and nanobind, to build a core")
def test_a_medium_and_a_transport_of_one_file_each(tmp_path: Path) -> None:
    package = tmp_path / "astrarium"
    shutil.copytree(ROOT / "src" / "astrarium", package, ignore=shutil.ignore_patterns("_core*", "__pycache__"))
    build = tmp_path / "build"
    subprocess.run(["cmake", "-S", ROOT, "-B", build, f"-DPython_EXECUTABLE={sys.executable}", "-DASTRARIUM_LTO=OFF",
                    f"-DASTRARIUM_OUT={package}",
                    f"-DASTRARIUM_EXTRA={TOY / 'toy_medium.cpp'};{TOY / 'toy_transport.cpp'}"], check=True)
    subprocess.run(["cmake", "--build", build, "--parallel", "2"], check=True)
    path = os.pathsep.join([str(tmp_path), str(TOY)])
    done = subprocess.run([sys.executable, TOY / "toy_medium.py"], env={**os.environ, "PYTHONPATH": path},
                          capture_output=True, text=True, check=True)
    medium, transport = json.loads(done.stdout)
    assert medium != transport
    for ends in (medium, transport):
        assert ends["core"] == ends["pure"]
        assert min(ends["core"]) > 0
