"""COSMIC's knob files: read without running them, and the same space as the talk's table."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import astrarium as ar
from astrarium.errors import InputError
from astrarium.search.cosmic_knobs import parse_knobs, read_knobs, space_of_knobs

# The full-stack knobs (published tables), with one algorithm per dim for every operation.
KNOBS = """
import os
SYSTEM_KNOBS = {
    "scheduling-policy": ({"LIFO", "FIFO"}, "N/A"),
    "preferred-dataset-splits": ({2, 4, 8, 16}, "N/A"),
    "all-reduce-implementation": ({"ring", "direct", "halvingDoubling", "doubleBinaryTree"}, "FALSE"),
    "collective-optimization": ({"baseline", "localBWAware"}, "N/A"),
}
NETWORK_KNOBS = {
    "topology": ({"Ring", "Switch", "FullyConnected"}, "FALSE"),
    "npus-count": ({4, 8, 16}, "FALSE"),
    "bandwidth": ((50, 500, 50), "FALSE"),
}
WORKLOAD_KNOBS = {
    "dp": ({1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, "N/A"),
    "sp": ({1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, "N/A"),
    "pp": ({1, 2, 4}, "N/A"),
    "weight_sharded": ({0, 1}, "N/A"),
}
DERIVED_KNOBS = ["network bandwidth divided"]
CONSTRAINTS = [
    "product network npus-count == num workload num_npus",
    "mult workload dp workload sp workload pp <= num workload num_npus",
]
"""


def base() -> ar.Design:
    """System 1 of the talk: 512 NPUs."""
    return ar.Design(
        workload=ar.Transformer("gpt3-175b", global_batch=1024, dp=8, pp=4, sp=4, tp=4, uneven="fractional"),
        network=ar.Network([*[ar.Ring(4, bandwidth_per_npu="200 GB/s", latency="50 ns")] * 3,
                            ar.Switch(8, bandwidth_per_npu="50 GB/s", latency="2 us")]),
        compute=ar.Roofline(peak="459 TFLOP/s"), memory=ar.Memory(bandwidth="2765 GB/s"),
        collective=ar.Collective(all_reduce=["ring"] * 4))


def test_the_evaluation_table(tmp_path: Path) -> None:
    (tmp_path / "knobs.py").write_text(KNOBS)
    space = space_of_knobs(read_knobs(tmp_path / "knobs.py"), base())
    assert space.count == 3_609_722_880_000
    rng = random.Random(1)
    for _ in range(5):
        design = space.design(space.sample(rng))
        work = design.workload
        assert isinstance(work, ar.Transformer)
        assert work.ranks == design.network.npus == 512
        assert {dim.npu_bandwidth for dim in design.network.flat} <= {50.0 * step for step in range(1, 11)}


def test_the_public_codes_links() -> None:
    """The public code divides a fully connected dim's bandwidth by 7, whatever its size."""
    bare = base()
    open_ = ar.replace_all(bare, {f"network.dims[{index}]": {"shape": "ring", "npus": npus, "latency": "50 ns",
                                                              "bandwidth": "100 GB/s"}
                                  for index, npus in enumerate((4, 4, 4, 8))})
    space = space_of_knobs(parse_knobs(KNOBS), open_, fully_connected_links=7)
    assert space.count == 3_609_722_880_000
    rng, seen = random.Random(2), set()
    for _ in range(20):
        point = space.sample(rng)
        numbers = dict(zip([axis.name for axis in space.axes], space.numbers(point)))
        for index, dim in enumerate(space.design(point).network.flat):
            links = {"ring": 2, "fully_connected": 7, "switch": 1}[dim.tag]
            assert dim.link_bandwidth == pytest.approx(numbers[f"bandwidth{index}"] / links)
            seen.add(dim.tag)
    assert len(seen) == 3


def test_derived_algorithms() -> None:
    lines = [line for line in KNOBS.splitlines() if "all-reduce-implementation" not in line]
    text = "\n".join(lines).replace('["network bandwidth divided"]',
                                    '["network bandwidth divided", "system all-reduce-implementation"]')
    space = space_of_knobs(parse_knobs(text), base())
    assert space.count == 3_609_722_880_000 // 256
    design = space.design(space.sample(random.Random(0)))
    names = {"ring": "ring", "switch": "halving_doubling", "fully_connected": "direct"}
    assert list(design.collective.all_reduce) == [names[dim.tag] for dim in design.network.flat]


@pytest.mark.parametrize(("old", "new", "says"), [
    ("{50", "{", "is not Python"), ('{"LIFO", "FIFO"}', "open('x')", "not plain data"),
    ('"topology"', '"topologies"', "did you mean 'topology'"), ('"Ring"', '"Rung"', "'Rung' is not known"),
    ("(50, 500, 50)", "(50, 500)", "is not a range"), ("(50, 500, 50)", "(50, 5e9, 1)", "is not a range"),
    ('"N/A"', '"MAYBE"', "is not .range, mode."), ("bandwidth divided", "bandwidth halved", "no counterpart"),
    ("product network", "produce network", "is not understood"), ("num_npus\",\n    ", "npus\",\n    ", "there is no"),
    ("SYSTEM_KNOBS = {", "SYSTEM_KNOBS = {1: 2,", "is not .range, mode.")])
def test_what_is_wrong_is_said(old: str, new: str, says: str) -> None:
    text = KNOBS.replace(old, new) if "{50" not in old else KNOBS.replace("NETWORK_KNOBS = {", "NETWORK_KNOBS = {(")
    with pytest.raises(InputError, match=says):
        space_of_knobs(parse_knobs(text, "knobs.py"), base())


def test_nothing_is_executed(tmp_path: Path) -> None:
    target = tmp_path / "made"
    text = f"open({str(target)!r}, 'w')\n" + KNOBS
    assert parse_knobs(text).knobs
    assert not target.exists()
    with pytest.raises(InputError, match="no knobs"):
        parse_knobs("x = 1")
