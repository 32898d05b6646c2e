"""Measured collectives of several hosts on fabrics: the integers of dims where a fabric is dims; packets no worse."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture(scope="module")
def benchmark(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("fabric_collectives", root / "benchmarks" / "fabric_collectives.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


def test_no_worse_than_on_dims(benchmark: ModuleType, shared: Path) -> None:
    rows = [row for row in benchmark.measured(shared / "reference" / "validation_collectives.csv")
            if row[2] <= benchmark.LARGEST_PACKETS // 4]
    assert len(rows) == 12
    found = benchmark.errors(rows)
    assert found["fabric that is dims"] == found["dims"]
    off = {name: np.abs(np.array(times)[:, 0] / np.array(times)[:, 1] - 1) for name, times in found.items()}
    assert np.median(off["packets on rails"]) <= np.median(off["dims, payloads of the packets"]) + 0.001
