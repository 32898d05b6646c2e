"""What must agree between the sections of a design, and the public face."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import astrarium as ar
from astrarium.collective.config import algorithms_of, parse_algorithm
from astrarium.design import NpuType, SharedBus, npu_types


def make(**sections: Any) -> ar.Design:
    dims = [ar.Switch(4, bandwidth="450 GB/s", latency="500 ns"), ar.Ring(2, bandwidth="50 GB/s", latency="2 us")]
    return ar.Design(**{"workload": ar.Trace("w"), "network": ar.Network(dims), **sections})


def test_exported_names() -> None:
    assert dir(ar) == sorted({*ar.__all__, *ar.NAMESPACES})
    for name in ar.__all__:
        assert getattr(ar, name).__name__ == name
    for name in set(ar.NAMESPACES) - {"search"}:      # of which the verb has the name
        assert getattr(ar, name).__name__ == f"astrarium.{name}"
    with pytest.raises(AttributeError):
        ar.no_such_name  # noqa: B018


def test_import_is_light() -> None:
    code = "import sys, astrarium; print([m for m in ('numpy', 'yaml', 'msgspec') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_plain_design_needs_two_sections() -> None:
    found = make()
    assert (found.compat, found.fold, found.network.npus) == ("none", "auto", 8)
    assert found.compute == ar.Replay()


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"astra_sim": ar.AstraSim(rendezvous=True)}, "Design.astra_sim: has no effect in the native rule book"),
        (
            {"collective": ar.Collective(all_reduce=["ring"] * 3)},
            "collective.all_reduce: names 3 algorithms for 2 dims",
        ),
        (
            {"collective": ar.Collective(all_gather=["double_binary_tree"])},
            r"all_gather\[0\]: double_binary_tree has no all_gather",
        ),
        ({"system": ar.System(placement=[0, 8])}, r"system.placement\[1\]: there is no NPU 8; expected 0 to 7"),
        ({"compute": ar.Roofline(peak="1 TFLOP/s")}, "memory.bandwidth: is missing"),
        (
            {"npu_types": [NpuType(npus="0:2", compute=ar.Roofline(peak="1 TFLOP/s"))]},
            r"npu_types\[0\].memory.bandwidth: is missing",
        ),
        ({"npu_types": [NpuType(npus="0-2")]}, r"npu_types\[0\].npus: '0-2' is not a slice"),
        ({"npu_types": [NpuType(npus="0:4:0")]}, "is not a slice"),
        ({"npu_types": [NpuType(npus="9:12")]}, "means no NPU"),
        ({"npu_types": [NpuType(npus=[8])]}, "there is no NPU 8"),
        (
            {"npu_types": [NpuType(npus="0:4"), NpuType(npus=[3])]},
            r"npu_types\[1\].npus: NPU 3 is also in npu_types\[0\]",
        ),
        ({"compat": "astra"}, "'astra' is not known; expected one of none, astra_sim; did you mean 'astra_sim'"),
    ],
)
def test_sections_that_do_not_agree(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(ar.InputError, match=message):
        make(**sections)


def test_astra_sims_rule_book_takes_its_own_settings() -> None:
    found = make(
        compat="astra_sim",
        astra_sim=ar.AstraSim(queues_per_dim=2, shared_bus=SharedBus(latency="10 ns")),
        collective=ar.Collective(all_gather=["double_binary_tree"]),
    )
    assert found.astra_sim.queues_per_dim == 2


def test_npu_types() -> None:
    big = ar.Memory(capacity="2 TB", bandwidth="1 TB/s")
    found = make(
        npu_types=[
            NpuType(npus="0:8:4", memory=big),
            NpuType(npus=[1], compute=ar.Roofline(peak="1 TFLOP/s"), memory=big),
        ]
    )
    index, kinds = npu_types(found)
    assert index.tolist() == [1, 2, 0, 0, 1, 0, 0, 0]
    assert kinds == ((ar.Replay(), ar.Memory()), (ar.Replay(), big), (ar.Roofline(peak="1 TFLOP/s"), big))


def test_algorithms_of_every_dim() -> None:
    shapes = ["switch", "ring", "hypercube"]
    assert algorithms_of(ar.Collective(), "all_reduce", shapes) == ("direct", "ring", "halving_doubling")
    assert [algorithms_of(ar.Collective(), op, ["mesh"])[0] for op in ("all_gather", "all_to_all", "broadcast")] == [
        "halving_doubling", "direct", "ring"]
    assert algorithms_of(ar.Collective(all_reduce=["ring"]), "all_reduce", shapes) == ("ring",) * 3
    assert algorithms_of(ar.Collective(all_reduce=["ring", "bruck", "direct:2"]), "all_reduce", shapes)[2] == "direct:2"
    assert [parse_algorithm(entry) for entry in ("ring", "direct:12")] == [("ring", -1), ("direct", 12)]
