"""A number at the border of what it can be, or beyond: an answer, or one sentence that says which number it is; never
a traceback, never without end, never out of memory (users' report, issue 35 line 15)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.commands import Run

from astrarium.engine import HAVE_CORE

from .borders import BASES, Case, cases, run_apart

EVERY = list(cases())
REPORTED = [Case("packets", "workload.payload", "10 EB"), Case("closed_form", "workload.payload", "10 EB"),
            Case("packets", "network.packets.size", "1 EB"), Case("inference", "workload.model.ffn", 2**63 - 1),
            Case("training", "workload.model.seq", 2**40 - 1), Case("fabric", "network.fabric.ports", 2**31 - 1),
            Case("closed_form", "network.dims[0].npus", 2**31 - 1), Case("training", "workload.model.vocab", 2**40 - 1)]

pytestmark = pytest.mark.skipif(not HAVE_CORE, reason="the pure-Python engine takes long for some")


@pytest.mark.parametrize("case", [*REPORTED, *random.Random(35).sample(EVERY, 30)], ids=str)
def test_a_number_at_its_border(case: Case, tmp_path: Path) -> None:
    assert not run_apart(case, tmp_path).fault(case)


@pytest.mark.exam
@pytest.mark.parametrize("base", BASES)
def test_every_number_at_its_borders(base: str, tmp_path: Path) -> None:
    faults = {}
    for case in (each for each in EVERY if each.base == base):
        if fault := run_apart(case, tmp_path).fault(case):
            faults[case] = fault
    assert not faults


def test_what_is_said(run: Run, tmp_path: Path) -> None:
    """The path, and what would do."""
    design = tmp_path / "design.yaml"
    design.write_text(BASES["packets"])
    for path, value, words in (
            ("workload.payload", "10 EB", "is more than 2^63 bytes; expected at most 9.22 EB"),
            ("network.packets.size", "1 EB", "'1 EB' is impossible; expected 1 or more, below 2147483648"),
            ("network.dims[0].latency", "1e30 s", "is more than 2^63 ps; expected at most 106 days"),
            ("network.dims[0].npus", 2**63 - 1, "is impossible; expected a whole number below 1,099,511,627,776")):
        said = run("run", design, "--set", f"{path}={value}")
        assert (said.code, said.out) == (1, "")
        assert f"{path}: " in said.err
        assert words in said.err
    said = run("run", design, "--set", f"network.dims[0].npus={2**31 - 1}")
    assert "network.npus: 2,147,483,647 NPUs take 300 B each or more, and this machine has " in said.err
    design.write_text(BASES["inference"])
    said = run("run", design, "--set", f"workload.model.d_model={2**40 - 4}")
    assert "workload.model.d_model: 1099511627772 is impossible; expected 1 or more, below 1048576" in said.err
