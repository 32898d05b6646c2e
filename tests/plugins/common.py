"""What the tests of plug-ins share: the example's networks, a compiler, plans."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.loading import module_of
from tests.plans.hand import collective, delay, native_collective, plan_of, recv, send

from astrarium.engine.plan import Backend, Dim, NetworkPlan, Plan, Shape
from astrarium.engine.plugins import DelayNetwork, Network
from astrarium.vocab import CommOp

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples" / "plugins"
HEADER = ROOT / "native" / "engine" / "plugins"


def example(name: str) -> Any:
    """The module examples/plugins/<name>.py."""
    return module_of(EXAMPLES / f"{name}.py", f"plugin_example_{name}")


def environment() -> dict[str, str]:
    """The environment of a script that runs elsewhere: it finds the package where this process does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path if p)}


def compiled(source: Path, out: Path) -> Path:
    """A shared library of one C file; skips aloud where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler here (cc, gcc or clang): the C ABI is not tested")
    command = [compiler, "-O1", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{HEADER}", "-o",
               str(out), str(source), "-lm"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return out


def fabric(npus: int = 8) -> NetworkPlan:
    """One ring."""
    return NetworkPlan(Backend.FOREIGN, (Dim(Shape.RING, npus, 50.0, 500.0),))


def mixed_plan(npus: int = 4, algorithm: str = "ring") -> Plan:
    """Compute, an all-reduce in chunks, and a message around the ring."""
    ranks = [[delay(1000 * r), collective(0, 0), send((r + 1) % npus, 100 + r, 0, tag=3),
              recv((r - 1) % npus, 100 + (r - 1) % npus, tag=3), collective(1, 1, 2, 3)] for r in range(npus)]
    plans = (native_collective(algorithm, CommOp.ALL_REDUCE, npus, 1 << 16, chunks=3, active=2),
             native_collective("direct", CommOp.ALL_TO_ALL, npus, 1 << 12))
    return plan_of(ranks, fabric(npus), collectives=plans)


def pair_plan(size: int = 64, tag: int = 5) -> Plan:
    """One message from rank 0 to rank 1."""
    return plan_of([[send(1, size, tag=tag)], [recv(0, size, tag=tag)]], fabric(2))


def steady(latency: int = 1000) -> Callable[[NetworkPlan], Network]:
    """Networks in which every message takes `latency` ps."""
    return lambda _: DelayNetwork(lambda size, src, dst, now: latency)
