"""What one mistypes in Python, and what an interactive session prints."""

from __future__ import annotations

from typing import Any

import pytest

import astrarium as ar
from astrarium.engine import HAVE_CORE
from astrarium.simulate import simulate_many


def design(**more: Any) -> ar.Design:
    return ar.Design(workload=ar.SingleCollective("all_reduce", payload="1 MB"),
                     network=ar.Network([ar.Ring(4, bandwidth="50 GB/s", latency="500 ns")]),
                     collective=ar.Collective(choice="none"), **more)


@pytest.mark.parametrize("wrong", [None, "design.yaml", {}, ar.Design])
def test_what_is_not_a_design_is_refused(wrong: Any) -> None:
    with pytest.raises(ar.InputError, match=r"is not a design; expected a Design; load_design\(path\) reads one"):
        ar.simulate(wrong)
    with pytest.raises(ar.InputError, match="is not a design"):
        simulate_many([design(), wrong])


@pytest.mark.parametrize("wrong", ["maybe", True, False, 0, []])
def test_an_unknown_fold_is_refused(wrong: Any) -> None:
    with pytest.raises(ar.InputError, match=r"fold: .* is not known; expected one of auto, off"):
        ar.simulate(design(), fold=wrong)


def test_a_result_prints_in_one_line() -> None:
    assert repr(ar.simulate(design())) == f"Result(makespan='33 us', ranks=4, classes={1 if HAVE_CORE else 4})"
    assert repr(ar.simulate(design(), record=False, fold="off")) == "Result(makespan='33 us', ranks=4, classes=4)"


def test_the_version_is_there() -> None:
    assert ar.__version__[0].isdigit()
