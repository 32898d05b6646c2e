"""Certificates of plans: a checker without the planner confirms those that are true, and refuses those that are not."""

from __future__ import annotations

import copy
import random
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.loading import tool

import astrarium as ar
from astrarium.cli import main
from astrarium.errors import InputError
from astrarium.planner.certificate import write_certificate

checker = tool("check_plan")
PARTS = ("tp", "cp", "pp", "dp")
FEW = 2       # a seed of which the job has 24 layouts, of which 8 are simulated


@cache
def planned(seed: int) -> Any:
    """The plan of a small job that a seed draws, with its certificate."""
    draw = random.Random(seed)
    layers, gpus = draw.choice([2, 4, 6]), draw.choice([4, 8])
    sizes = {"layers": layers, "d_model": 256, "heads": draw.choice([4, 8]), "ffn": draw.choice([512, 1024]),
             "vocab": 2000, "seq": 128}
    model = ar.Decoder(**sizes, moe={"experts": 4, "top_k": 2} if draw.random() < 0.25 else None)
    network = ar.Network([ar.Switch(4, bandwidth=draw.choice(["450 GB/s", "50 GB/s"]), latency="1 us"),
                          *([ar.Switch(2, bandwidth="25 GB/s", latency="2 us")] * (gpus == 8))])
    fixed: dict[str, list[Any]] = {"recompute": ["none"], "micro_batch": [1, 2], "cp": [1]}
    if draw.random() < 0.5:
        fixed["zero"] = [0, 1]
    reserve = draw.choice([0, "85.45 GB", "85.48 GB"])      # of 85.52 GB
    batch, costly = draw.choice([4, 8, 16]), draw.random() < 0.3

    def plan(reserve: Any) -> Any:
        goal = {"objective": "cost", "cost": {"rental": "lambda_h100_2023_06"}} if costly else {}
        return ar.plan(model, "h100_sxm", gpus, network=network, compute="roofline", collectives="simulated",
                       stack="none", global_batch=batch, fixed=fixed, reserve=reserve, top=1, certify=True, **goal)

    try:
        return plan(reserve)
    except InputError:      # no layout fits
        return plan(0)


def certificate(seed: int) -> dict[str, Any]:
    """As a file has it."""
    return dict(msgspec.json.decode(msgspec.json.encode(planned(seed).certificate)))


def confirm(seed: int) -> None:
    found = planned(seed)
    best, bound, counts = checker.checked(certificate(seed), 10_000, -1)
    assert best == bound == found.best.value
    assert counts["layouts"] >= found.layouts
    assert found.proved


def lower(found: dict[str, Any]) -> None:
    """A best value that no simulation gives."""
    place = found["evaluated"].index(found["best"])
    found["best"][-1] *= 0.99
    found["evaluated"][place] = list(found["best"])
    found["bound"] = found["best"][-1]


def other(found: dict[str, Any]) -> None:
    """The best layout is left out, and the next one, or one that was not looked at, takes its place."""
    found["evaluated"].remove(found["best"])
    left = [row for row in found["evaluated"] if row[-1] is not None]
    if not left:      # a legal layout with its true value, which is not the best
        machine = checker.Machine(found["machines"][0], found)
        layout, value, held = max(((layout, machine.value(design), machine.memory(design))
                                   for layout in machine.layouts() if (design := machine.design(layout)) is not None
                                   and machine.memory(design) <= machine.room), key=lambda each: each[1])
        left = [[0, *(layout[name] for name in found["parts"]), held, value]]
        found["evaluated"] += left
    found["best"] = min(left, key=lambda row: row[-1])
    found["bound"] = found["best"][-1]


def network(found: dict[str, Any]) -> None:
    """Another machine than that on which the values were found."""
    for machine in found["machines"]:
        machine["design"]["compute"]["peak"] = "100 TFLOP/s"


def memory(found: dict[str, Any]) -> None:
    """Less memory than the best layout needs, of which the certificate says nothing."""
    for row in (found["best"], *found["evaluated"]):
        row[-2] = None if row[-2] is None else row[-2] / 2


def bound(found: dict[str, Any]) -> None:
    """A bound above the best value."""
    found["bound"] = found["best"][-1] * 1.1


def room(found: dict[str, Any]) -> None:
    """Less room than the best layout needs."""
    for machine in found["machines"]:
        machine["room"] = found["best"][-2] * 0.9


def more(found: dict[str, Any]) -> None:
    """More NPUs than the design has."""
    for machine in found["machines"]:
        machine["npus"] *= 2


def outside(found: dict[str, Any]) -> None:
    """A best layout that the rules do not allow."""
    place = found["evaluated"].index(found["best"])
    at = 1 + found["parts"].index("micro_batch")
    found["best"][at] = 10**6
    found["evaluated"][place] = list(found["best"])


TAMPERED = (lower, other, network, memory, bound, room, more, outside)


def refused(seed: int, tamper: Any) -> None:
    found = copy.deepcopy(certificate(seed))
    tamper(found)
    with pytest.raises(checker.Wrong):
        checker.checked(found, 10_000, -1)


def test_a_true_certificate_is_confirmed_and_written(tmp_path: Path) -> None:
    confirm(FEW)
    for name in ("plan.json", "plan.json.gz"):
        assert write_certificate(planned(FEW), str(tmp_path / name)) == len(planned(FEW).certificate["evaluated"])
    assert msgspec.json.decode((tmp_path / "plan.json").read_bytes()) == certificate(FEW)


@pytest.mark.parametrize("tamper", [lower, other, memory, bound, room], ids=lambda each: each.__name__)
def test_what_is_not_true_is_refused(tamper: Any) -> None:
    refused(FEW, tamper)


@pytest.mark.exam
@pytest.mark.parametrize("seed", range(20))
def test_twenty_drawn_certificates(seed: int) -> None:
    confirm(seed)
    refused(seed, TAMPERED[seed % len(TAMPERED)])


def test_what_was_left_out_bounds_the_best_from_below() -> None:
    found = certificate(FEW)
    found["evaluated"] = [found["best"]]
    best, least, _ = checker.checked(found, 0, -1)
    assert least < best


def test_the_command_says_where_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="there is no certificate of this plan"):
        write_certificate(ar.plan("gpt2-small", "h100_sxm", 1, compute="roofline", global_batch=1), str(tmp_path / "c"))
    assert main(["plan", "gpt2-small", "--device", "h100_sxm", "--gpus", "1", "--global-batch", "1", "--compute",
                 "roofline", "--certificate", str(tmp_path / "no" / "c")]) == 1
    assert "there is no folder" in capsys.readouterr().err
