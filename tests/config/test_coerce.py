"""Config classes: what constructors and files take, and every problem with its path."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable
from pathlib import Path

import numpy as np
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


@pytest.mark.parametrize(("value", "kind"), [(None, "empty"), (object(), "a object"), ({4}, "a set")])
def test_what_is_of_no_known_kind_is_named(value: object, kind: str) -> None:
    with pytest.raises(ConfigError, match=rf"Ring\.npus: .* is {kind}; expected a whole number"):
        ar.Ring(value, bandwidth="50 GB/s", latency="2 us")      # type: ignore[arg-type]


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
            r"network.dims\[1\].bandwidth_per_npu: cannot be combined with",
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
            r"memory: .*'80 GiB' is not known; expected .*, or a mapping \(Memory\)",
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


def test_numbers_and_arrays_of_numpy_paths_and_ranges_are_taken() -> None:
    dims = [ar.Switch(np.int64(4), bandwidth="450 GB/s", latency="500 ns")]      # type: ignore[arg-type]
    assert ar.Network(dims).npus == 4
    assert ar.Collective(chunks=np.uint8(3)) == ar.Collective(chunks=3)          # type: ignore[arg-type]
    assert ar.System(placement=np.arange(3)).placement == ar.System(placement=range(3)).placement == (0, 1, 2)
    assert ar.Trace(Path("a") / "b.*.et").path == "a/b.*.et"                      # type: ignore[arg-type]
    assert type(ar.Collective(chunks=np.int32(3)).chunks) is int                 # type: ignore[arg-type]
    for wrong in np.float64(3.5), np.bool_(True), np.ones((2, 2)):
        with pytest.raises(ConfigError, match=r"Collective.chunks: .*expected a whole number, 1 or more"):
            ar.Collective(chunks=wrong)         # type: ignore[arg-type]


@pytest.mark.parametrize(("make", "message"), [
    (lambda: ar.Collective(chunk=3), "Collective: unknown field 'chunk'; expected one of .*; did you mean 'chunks'?"),
    (lambda: ar.Collective(3), "Collective: 1 value without a name; expected each by its name: all_reduce"),
    (lambda: ar.Trace("a", path="b"), "Trace.path: is given twice"),
    (ar.Trace, "Trace.path: is missing; expected text"),
    (lambda: ar.Ring(4, bandwith="3 GB/s"),
     "(?s)unknown field 'bandwith'.*did you mean 'bandwidth'?.*Ring.latency: is missing; expected a time"),
])
def test_a_wrong_call_says_what_is_wrong(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_help_says_what_the_fields_take() -> None:
    assert "bandwidth: a bandwidth with its unit, such as \"450 GB/s\"; may be left out" in str(ar.Switch.__doc__)
    assert "tiers: a list of Tier; may be left out" in str(ar.Memory.__doc__)
    shown = ("(npus, *, latency, bandwidth=None, bandwidth_per_npu=None, energy=None, efficiency=1.0, "
             "fabric=None, link=None, links=1, length=None, one_way=False)")
    assert str(inspect.signature(ar.Ring)) == shown
    assert "Annotated" not in pydoc.render_doc(ar.Memory).split("Method resolution order")[0]
    assert repr(ar.Collective(all_reduce=["ring"])) == "Collective(all_reduce=('ring',), endpoint_delay='0 ns')"


def test_fields_of_an_instance_are_those_of_its_class() -> None:
    assert list(config.fields(ar.Memory())) == list(config.fields(ar.Memory))
    with pytest.raises(ar.InputError, match="fields: 'x' has no fields; expected a config class"):
        config.fields("x")      # type: ignore[arg-type]
