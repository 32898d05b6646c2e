"""The catalog: every row has a source, every figure a unit, every row builds what it describes."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium import catalog, registry
from astrarium.collective.fabrics import fabric


@pytest.mark.parametrize("kind", catalog.KINDS)
def test_every_row_names_its_source(kind: str) -> None:
    rows = catalog.load(kind)
    assert rows
    for name, row in rows.items():
        assert row["title"], name
        assert "https://" in row["source"], name


@pytest.mark.parametrize("kind", ["devices", "networks"])
def test_every_row_says_when_it_was_compared_with_what(kind: str) -> None:
    for name, row in catalog.load(kind).items():
        assert row["checked"].startswith(("20", "not compared")), name


def test_every_device_builds_its_sections() -> None:
    for name in catalog.load("devices"):
        device = catalog.device(name)
        compute, memory = ar.Roofline(**device.compute), ar.Memory(**device.memory)
        assert memory.bandwidth is not None
        assert compute.peak / memory.bandwidth > 50, name  # flop per byte: a slipped prefix would show


def test_every_network_builds_a_dim() -> None:
    for name in catalog.load("networks"):
        link = catalog.network(name)
        dim = registry.load("shape", link.shape)(link.npus or 4, **{"latency": "1 us", **link.dim})
        assert 6 < dim.npu_bandwidth < 2000, name


def test_known_rows() -> None:
    assert ar.Memory(**catalog.device("h100_sxm").memory).capacity == 80e9
    assert ar.Switch(8, latency="1 us", **catalog.network("dgx_h100_nvswitch").dim).npu_bandwidth == 450.0
    assert ar.FullyConnected(8, latency="1 us", **catalog.network("mi300x_platform").dim).npu_bandwidth == 448.0
    assert ar.Ring(16, latency="1 us", **catalog.network("tpu_v5p_ici").dim).link_bandwidth == 100.0


def test_unknown_rows() -> None:
    with pytest.raises(ar.InputError, match=r"catalog.devices: 'h100' is not known; .*did you mean"):
        catalog.device("h100")
    with pytest.raises(ar.InputError, match=r"catalog: 'device' is not known; .*did you mean 'devices'"):
        catalog.load("device")


def test_rows_are_read_once_and_cannot_be_changed() -> None:
    rows = catalog.load("models")
    assert catalog.load("models") is rows
    with pytest.raises(TypeError):
        rows["gpt3-13b"]["model"]["layers"] = 1  # type: ignore[index]
    assert isinstance(rows["dlrm-dcnv2"]["model"]["tables"], tuple)


def test_fabrics_with_measured_collectives_are_networks_with_the_same_link() -> None:
    for name in catalog.load("collectives"):
        link = catalog.network(name)
        dim = registry.load("shape", link.shape)(link.npus or 8, **{"latency": "1 us", **link.dim})
        assert dim.fabric == name
        assert dim.npu_bandwidth == pytest.approx(fabric(name).link), name
