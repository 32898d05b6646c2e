"""No trace file may crash the reader: the kept corpus on every run, coverage-guided fuzzing in the exam."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from astrarium.errors import TraceError
from astrarium.trace import HAVE_CORE, Columns, Traces, check, traces_of_bytes

HERE = Path(__file__).parent
CORPUS = sorted((HERE / "corpus").iterdir())
FUZZ_SECONDS = int(os.environ.get("ASTRARIUM_FUZZ_SECONDS", "60"))


def files_of(path: Path) -> list[bytes]:
    """The two files of a fuzzer's input, cut as reader_fuzz.cpp cuts it."""
    data = path.read_bytes()
    if len(data) < 2:
        return []
    cut = 2 + int.from_bytes(data[:2], "big") % (len(data) - 1)
    return [data[2:cut], data[cut:]]


def outcome(files: list[bytes], pure: bool) -> Traces | str:
    try:
        return traces_of_bytes(files, pure=pure)
    except TraceError as error:
        return str(error)


def test_the_corpus_is_there() -> None:
    assert len(CORPUS) >= 50


@pytest.mark.skipif(not HAVE_CORE, reason="no compiled core")
def test_core_and_twin_agree_on_the_corpus() -> None:
    readable = 0
    for path in CORPUS:
        core, twin = (outcome(files_of(path), pure) for pure in (False, True))
        if isinstance(core, str) or isinstance(twin, str):
            assert core == twin, path.name
            continue
        readable += 1
        check(core)
        for a, b in zip(core.classes, twin.classes, strict=True):
            for name in Columns.__struct_fields__:
                if isinstance(getattr(a, name), np.ndarray):
                    np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=f"{path.name} {name}")
    assert readable >= 10


@pytest.mark.exam
def test_coverage_guided_fuzzing(root: Path, tmp_path: Path) -> None:
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        pytest.skip("no g++")
    native = root / "native" / "trace"
    sources = [str(path) for path in native.glob("*.cpp") if not path.name.startswith("bind_")]
    flags = ["-std=c++20", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{native}"]
    objects = []
    for source in [*sources, str(HERE / "reader_fuzz.cpp"), str(HERE / "driver.cpp")]:
        objects.append(str(tmp_path / f"{Path(source).stem}.o"))
        coverage = [] if source.endswith("driver.cpp") else ["-fsanitize-coverage=trace-pc"]
        subprocess.run([compiler, *flags, *coverage, "-c", source, "-o", objects[-1]], check=True)
    subprocess.run([compiler, *flags, *objects, "-o", str(tmp_path / "fuzz")], check=True)
    fresh = tmp_path / "new"
    fresh.mkdir()
    done = subprocess.run([tmp_path / "fuzz", str(FUZZ_SECONDS), "1", HERE / "corpus", fresh], capture_output=True,
                          text=True, check=False)
    culprit = (fresh / "current").read_bytes().hex() if (fresh / "current").exists() else "?"
    assert done.returncode == 0, f"input {culprit}\n{done.stderr[-3000:]}"
    assert " runs, " in done.stdout
