"""Config classes: what constructors and files take, and every problem with its path."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium import config
from astrarium.config import ConfigError
from astrarium.design import Design

GOOD = """\
workload: {source: trace, path: llama.*.et}
compute: {model: roofline, peak: 989 TFLOP/s}
memory: {capacity: 80 GiB, bandwidth: 3.35 TB/s}
network:
  dims:
    - {shape: switch, npus: 8, bandwidth: 450 GB/s, latency: 500 ns}
    - {shape: ring, npus: 4, bandwidth: 50 GB/s, latency: 2 us}
collective: {all_reduce: [direct, ring], chunks: 4}
"""


def design(text: str = GOOD) -> Design:
    return config.loads(Design, text, "d.yaml")


def test_file_and_python_give_the_same_value() -> None:
    assert design() == ar.Design(
        workload=ar.Trace("llama.*.et"),
        compute=ar.Roofline(peak="989 TFLOP/s"),
        memory=ar.Memory(capacity="80 GiB", bandwidth="3.35 TB/s"),
        network=ar.Network(
            [ar.Switch(8, bandwidth="450 GB/s", latency="500 ns"), ar.Ring(4, bandwidth="50 GB/s", latency="2 us")]
        ),
        collective=ar.Collective(all_reduce=["direct", "ring"], chunks=4),
    )


def test_values_are_in_base_units() -> None:
    found = design()
    assert found.network.dims[0].latency == 500.0
    assert found.network.dims[0].bandwidth == 450.0
    assert found.memory.capacity == 80 * 2**30
    assert found.compute.peak == 989_000.0


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "chunks: 4",
            "chunk: 4",
            "d.yaml:8: collective.chunk: unknown key 'chunk'; expected one of .*chunks.*did you mean 'chunks'",
        ),
        (
            "450 GB/s",
            "450",
            r"d.yaml:6: network.dims\[0\].bandwidth: 450 is a number without a unit; expected .*450 GB/s",
        ),
        ("450 GB/s", "450 GB", r"network.dims\[0\].bandwidth: '450 GB' has the unit 'GB'.*did you mean 'GB/s'"),
        ("npus: 8", "npus: 0", r"network.dims\[0\].npus: 0 is impossible; expected 1 or more"),
        ("npus: 8", "npus: 8.0", r"network.dims\[0\].npus: 8.0 is a number; expected a whole number, 1 or more"),
        ("npus: 8", "npus: true", r"network.dims\[0\].npus: True is true or false; expected a whole number"),
        ("npus: 8", "npus: 99999999999999999999", r"network.dims\[0\].npus: 9+ is impossible; expected .* 64 bits"),
        (
            "shape: ring",
            "shape: rign",
            r"d.yaml:7: network.dims\[1\].shape: 'rign' is not known; .*did you mean 'ring'",
        ),
        ("shape: ring, ", "", r"d.yaml:7: network.dims\[1\].shape: is missing; expected one of ring, switch"),
        (", latency: 500 ns", "", r"network.dims\[0\].latency: is missing; expected a time with its unit"),
        ("bandwidth: 50 GB/s, ", "", r"network.dims\[1\].bandwidth: is missing; expected .*or bandwidth_per_npu"),
        (
            "latency: 2 us",
            "latency: 2 us, bandwidth_per_npu: 9 GB/s",
            r"network.dims\[1\].bandwidth_per_npu: is given beside",
        ),
        (
            "[direct, ring]",
            "[direct, rings]",
            r"collective.all_reduce\[1\]: 'rings' is not known; .*did you mean 'ring'",
        ),
        ("[direct, ring]", "[direct, 'ring:3']", r"collective.all_reduce\[1\]: 'ring:3' is not known"),
        ("[direct, ring]", "direct", "collective.all_reduce: 'direct' is text; expected a list of one of"),
        ("[direct, ring]", "[direct, ring, ring]", "collective.all_reduce: names 3 algorithms for 2 dims"),
        ("all_reduce", "all_gather", None),
        (
            "all_reduce: [direct, ring]",
            "all_to_all: [double_binary_tree]",
            r"all_to_all\[0\]: double_binary_tree has no all_to_all",
        ),
        ("workload: {source: trace, path: llama.*.et}\n", "", "d.yaml:1: workload: is missing; expected a mapping"),
        (", bandwidth: 3.35 TB/s", "", "memory.bandwidth: is missing; expected .*roofline"),
        ("path: llama.*.et", "path: 7", "workload.path: 7 is a whole number; expected text"),
        (
            "memory: {capacity: 80 GiB, bandwidth: 3.35 TB/s}",
            "memory: 80 GiB",
            "memory: '80 GiB' is text; expected a mapping",
        ),
        (
            "chunks: 4",
            "chunks: 4, scheduling: LIFO",
            "collective.scheduling: 'LIFO' is not known; expected one of lifo",
        ),
    ],
)
def test_one_fault_one_clear_message(old: str, new: str, expected: str | None) -> None:
    assert old in GOOD
    if expected is None:
        assert design(GOOD.replace(old, new))
        return
    with pytest.raises(ConfigError, match=expected) as caught:
        design(GOOD.replace(old, new))
    assert len(caught.value.problems) == 1


def test_every_problem_is_reported_at_once() -> None:
    text = GOOD.replace("peak: 989 TFLOP/s", "peak: 989").replace("npus: 8", "npus: 0").replace("chunks", "chnks")
    with pytest.raises(ConfigError) as caught:
        design(text)
    lines = str(caught.value).splitlines()
    assert {tuple(line.split(": ")[:2]) for line in lines} == {
        ("d.yaml:2", "compute.peak"),
        ("d.yaml:6", "network.dims[0].npus"),
        ("d.yaml:8", "collective.chnks"),
    }


def test_a_constructor_names_its_class() -> None:
    with pytest.raises(ar.InputError, match=r"^Switch.bandwidth: 450 is a number without a unit"):
        ar.Switch(8, bandwidth=450, latency="1 us")  # type: ignore[arg-type]


def test_an_abstract_class_cannot_be_made() -> None:
    from astrarium.network.config import Dim

    with pytest.raises(TypeError, match="abstract"):
        Dim()


def test_config_is_frozen_and_hashable() -> None:
    found = design()
    assert hash(found) == hash(design())
    with pytest.raises(AttributeError):
        found.fold = "off"  # type: ignore[misc]
