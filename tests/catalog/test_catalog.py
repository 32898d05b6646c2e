"""The catalog: every row has a source, every figure a unit, every row builds what it describes."""

from __future__ import annotations

import math

import pytest

import astrarium as ar
from astrarium import catalog, registry
from astrarium.catalog.columns import COLUMNS, PARTS, check_row
from astrarium.catalog.market import part
from astrarium.collective.fabrics import fabric
from astrarium.config.base import decode_into
from astrarium.config.spec import Problem
from astrarium.units import Bandwidth, FlopRate, Frequency, Power


@pytest.mark.parametrize("kind", catalog.KINDS)
def test_every_row_names_its_source(kind: str) -> None:
    rows = catalog.load(kind)
    assert rows
    for name, row in rows.items():
        assert row["title"], name
        assert "https://" in row["source"], name


@pytest.mark.parametrize("kind", ["devices", "networks", "hosts", "links", "memories", "parts",
                                  "facilities", "tariffs", "regions", "costs"])
def test_every_row_says_when_it_was_compared_with_what(kind: str) -> None:
    for name, row in catalog.load(kind).items():
        assert row["checked"].startswith(("20", "not compared")), name


def test_every_device_builds_its_sections() -> None:
    for name in catalog.load("devices"):
        device = catalog.device(name)
        compute, memory = ar.Roofline(**device.compute), ar.Memory(**device.memory)
        assert memory.bandwidth is not None
        least = 0.5 if device.row["memory"] == "SRAM" else 30       # flop per byte: a slipped prefix would show
        assert compute.peak / memory.bandwidth > least, name
        assert float(device.peak("bf16")) == float(compute.peak) or device.peak("fp16") == compute.peak, name


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_row_has_the_columns_of_its_kind(kind: str) -> None:
    for name, row in catalog.load(kind).items():
        check_row(kind, name, row)


def test_narrower_numbers_are_faster() -> None:
    """Dense rates grow from fp32 to fp4; B300 and GB300 have next to no int8, which is in no order."""
    order = ("fp32", "tf32", "bf16", "fp8", "fp4")
    for name in catalog.load("devices"):
        device = catalog.device(name)
        rates = [device.peak(each) for each in order if each in device.precisions]
        assert rates == sorted(rates), name


def test_units_and_clocks_give_the_peak() -> None:
    """Dense bf16 FLOPs of a unit and clock: 2,048 on A100, 4,096 on H100, 1,024 on MI250X, 2,048 on MI300X, 4,096 on
    MI355X."""
    for name, each in (("a100_sxm_80gb", 2048), ("h100_sxm", 4096), ("h200_sxm", 4096), ("mi250x", 1024),
                       ("mi300x", 2048), ("mi325x", 2048), ("mi355x", 4096)):
        row = catalog.device(name).row
        assert row["units"] * Frequency(row["clock"]) * each == pytest.approx(FlopRate(row["peak"]), rel=2e-3), name


def test_a_format_without_a_rate() -> None:
    with pytest.raises(ar.InputError, match=r"devices.a100_sxm_80gb.peaks: has no rate of fp8; expected one of"):
        catalog.device("a100_sxm_80gb").peak("fp8")
    with pytest.raises(ar.InputError, match=r"'fp9' is no number format; .*did you mean"):
        catalog.device("h100_sxm").peak("fp9")


def test_every_host_is_made_of_rows() -> None:
    for name in catalog.load("hosts"):
        host = catalog.host(name)
        catalog.device(host.device)
        assert math.prod(catalog.network(each).npus or 0 for each in host.inner) == host.npus, name
        assert host.outer is None or catalog.network(host.outer).npus is None, name
        inside = sum(_bandwidth(catalog.network(each)) for each in host.inner)
        assert inside <= Bandwidth(catalog.device(host.device).row["scale_up"]) * 1.001, name


def _bandwidth(link: catalog.Link) -> float:
    """One direction, over all links of an NPU."""
    dim = registry.load("shape", link.shape)(link.npus, **{"latency": "1 us", **link.dim})
    return float(dim.npu_bandwidth)


def test_every_network_builds_a_dim() -> None:
    for name in catalog.load("networks"):
        link = catalog.network(name)
        dim = registry.load("shape", link.shape)(link.npus or 4, **{"latency": "1 us", **link.dim})
        assert 6 < dim.npu_bandwidth < 2000, name


def test_known_rows() -> None:
    assert ar.Memory(**catalog.device("h100_sxm").memory).capacity == 81559 * 2**20
    assert catalog.device("h100_sxm").peak("fp8") == FlopRate("1978.9 TFLOP/s")
    assert ar.Switch(8, latency="1 us", **catalog.network("dgx_h100_nvswitch").dim).npu_bandwidth == 450.0
    assert ar.FullyConnected(8, latency="1 us", **catalog.network("mi300x_platform").dim).npu_bandwidth == 448.0
    assert ar.Ring(16, latency="1 us", **catalog.network("tpu_v5p_ici").dim).link_bandwidth == 100.0


def test_unknown_rows() -> None:
    with pytest.raises(ar.InputError, match=r"catalog.devices: 'h1000' is not known; .*did you mean"):
        catalog.device("h1000")
    with pytest.raises(ar.InputError, match=r"`astrarium list devices` prints \(h100_sxm, h200_sxm, h20, \.\.\.\)$"):
        catalog.device("H999")
    for kind in ("devices", "models", "stacks"):        # many rows: no list of all of them
        with pytest.raises(ar.InputError, match=rf"expected a name that `astrarium list {kind}` prints"):
            catalog.name_of(kind, "llama3_88b")
    with pytest.raises(ar.InputError, match=r"expected one of us_h100_2024, "):
        catalog.name_of("costs", "nebbius")
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


@pytest.mark.parametrize("kind", ["parts", "facilities", "tariffs", "regions", "costs"])
def test_every_price_has_a_date(kind: str) -> None:
    for name, row in catalog.load(kind).items():
        assert "2019" <= row["date"] <= row["checked"][:7] or not row["checked"].startswith("20"), name


def test_parts_fit_each_other() -> None:
    rows = catalog.load("parts")
    for name in rows:
        found = part(name)
        assert not found.device or found.device in catalog.load("devices"), name
        if "nic" in found.includes:
            assert found.nic is not None, name
        if found.kind == "host" and found.power is not None:
            limit = Power(catalog.device(found.device).row["power"])
            assert found.npus * limit < found.power < 3 * found.npus * limit, name
    assert {row["kind"] for row in rows.values()} == set(PARTS)


def test_every_whole_section_decodes() -> None:
    for name in catalog.load("costs"):
        problems: list[Problem] = []
        decode_into(ar.Cost, name, "cost", problems)
        assert not problems, name


@pytest.mark.parametrize(("changes", "said"), [
    ({"price": "-1 $"}, r"parts.mine.price: '-1 \$' is not a sum of money"),
    ({"price": 36000}, "a number without a unit"),
    ({"date": "Aug 2024"}, r"parts.mine.date: 'Aug 2024' is not a date"), ({"kind": "swich"}, r"did you mean 'switch'"),
    ({"ports": None}, r"parts.mine.ports: is missing; expected a switch has it"),
    ({"rent": "2 $/h"}, r"parts.mine.price: a switch has price, and no other price"),
    ({"includes": ["nics"]}, r"did you mean 'nic'")])
def test_a_price_of_ones_own_is_checked(changes: dict[str, object], said: str) -> None:
    row = {"title": "Ours", "source": "an offer", "kind": "switch", "date": "2026-10", "price": "30000 $", "ports": 64,
           "port": "400 Gb/s", **changes}
    with pytest.raises(ar.InputError, match=said):
        check_row("parts", "parts.mine", {key: value for key, value in row.items() if value is not None})
    with pytest.raises(ar.InputError, match=r"facilities.mine.pue: 0.9 is impossible; expected a number, 1 or more"):
        check_row("facilities", "facilities.mine", {"title": "T", "source": "S", "date": "2026", "pue": 0.9})
