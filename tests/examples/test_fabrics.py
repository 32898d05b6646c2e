"""The examples on fabrics print what their folder says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import astrarium as ar


@pytest.mark.parametrize("name", ["clos_8", "tenants"])
def test_what_they_print(root: Path, name: str) -> None:
    found = subprocess.run([sys.executable, f"examples/fabrics/{name}.py"], cwd=root, capture_output=True, text=True,
                           timeout=300, check=False, env={"PYTHONPATH": ":".join(sys.path), "PATH": ""})
    assert found.returncode == 0, found.stderr
    assert found.stdout == (root / "examples" / "fabrics" / f"{name}.txt").read_text(encoding="utf-8")


def test_the_clos_is_near_the_published_figures(root: Path) -> None:
    """ASTRA-sim 3.0 on an ns-3 fork (arXiv 2606.10440, table 1): 165.98 us, flows of 11.25 (least), 11.477 (mean)."""
    result = ar.simulate(ar.load_design(root / "examples" / "fabrics" / "clos_8.yaml"))
    assert float(result.makespan) == pytest.approx(165_980, rel=0.03)
    assert result.flows is not None
    assert result.flows.time.min() / 1e6 == pytest.approx(11.250, rel=0.005)
    assert result.flows.time.mean() / 1e6 == pytest.approx(11.477, rel=0.01)
