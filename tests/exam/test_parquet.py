"""The Parquet export, read back with pyarrow: every column of every table, its type and its unit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import astrarium as ar
from astrarium.result import tables, write_parquet

pytestmark = pytest.mark.exam


@pytest.fixture(scope="module")
def design(root: Path) -> Path:
    return root / "examples" / "quickstart" / "design.yaml"


def test_every_table_of_the_quick_start_comes_back(design: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra `parquet`")
    result = ar.simulate(ar.load_design(design))
    expected = tables(result, nodes=True)
    written = write_parquet(result, tmp_path / "out", nodes=True)
    assert {Path(path).stem for path in written} == set(expected)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(f"{name}.parquet" for name in expected)
    for name, columns in expected.items():
        found = parquet.read_table(tmp_path / "out" / f"{name}.parquet")
        assert found.column_names == list(columns), name
        for key, column in columns.items():
            wanted = np.asarray(column)
            values = found.column(key).to_pylist()
            assert len(values) == len(wanted), f"{name}.{key}"
            assert values == wanted.tolist(), f"{name}.{key}"
            assert not key.endswith("_ps")


def test_the_command_writes_what_the_library_does(design: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra `parquet`")
    command = [sys.executable, "-m", "astrarium", "run", str(design), "--parquet", str(tmp_path / "out"), "--nodes"]
    subprocess.run(command, check=True, capture_output=True)
    result = ar.simulate(ar.load_design(design))
    for name, columns in tables(result, nodes=True).items():
        found = parquet.read_table(tmp_path / "out" / f"{name}.parquet")
        assert found.num_rows == len(next(iter(columns.values()))), name
