"""The quick updater against `replace_all`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.search.designs import four_dims

import astrarium as ar
from astrarium.config import replace_all
from astrarium.errors import InputError
from astrarium.search.update import UNSET, Updater

FIELDS: dict[str, list[Any]] = {
    "network.dims[0].shape": ["ring", "switch", "hypercube", "torus"],
    "network.dims[0].npus": [1, 4, 6, 8],
    "network.dims[0].bandwidth": ["50 GB/s", "1 TB/s", None],
    "network.dims[3].bandwidth_per_npu": ["50 GB/s"],
    "network.backend": ["closed_form", "contention", "library"],
    "collective.all_reduce": [["ring"], ["direct"] * 4, ["ring"] * 3],
    "collective.chunks": [0, 1, 8],
    "fold": ["auto", "off"],
    "workload.payload": ["1 MB"],
}


@given(st.lists(st.fixed_dictionaries({}, optional={path: st.sampled_from(values) for path, values in FIELDS.items()}),
                min_size=1, max_size=4))
def test_same_designs_and_same_errors(changes: list[dict[str, Any]]) -> None:
    updater = Updater(four_dims(), list(FIELDS))
    for change in changes:
        try:
            expected: Any = replace_all(four_dims(), change)
        except InputError as error:
            expected = str(error)
        values = [change.get(path, UNSET) for path in FIELDS]
        try:
            found: Any = updater.apply(values)
        except InputError as error:
            found = str(error)
        assert found == expected


def test_paths_that_overlap_are_refused() -> None:
    for paths in (["network.dims", "network.dims[0].npus"], ["network.dims[0].npus", "network.dims[0]"],
                  ["fold", "fold"]):
        with pytest.raises(InputError, match=r"part of another|set twice"):
            Updater(four_dims(), paths)


def test_a_field_of_another_variant() -> None:
    updater = Updater(four_dims(), ["compute.model", "compute.peak"])
    with pytest.raises(InputError, match="bandwidth: is missing"):
        updater.apply(["roofline", "1 TFLOP/s"])
    with pytest.raises(InputError, match=r"unknown key 'peak' of model: replay; roofline and analytic have it"):
        updater.apply(["replay", "1 TFLOP/s"])


def test_knobs_of_a_fabric_s_links() -> None:
    """Entries of a mapping of names, which are sections: as `replace_all` has them, with its errors."""
    link = {"bandwidth": "50 GB/s", "latency": "1 us"}
    base = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"), network=ar.Network(
        fabric=ar.blueprint("clos", hosts=4, ports=4, links={"access": link, "spine": link}),
        dims=[ar.Switch(4, bandwidth="50 GB/s", latency="1 us")]))
    path = "network.fabric.links.spine.bandwidth"
    updater = Updater(base, [path])
    assert updater.apply(["100 GB/s"]) == replace_all(base, {path: "100 GB/s"}) != base
    assert updater.apply([UNSET]) == base
    with pytest.raises(InputError, match=r"network\.fabric\.links\.spine\.bandwidth"):
        updater.apply(["fast"])
