"""Figures of ASTRA-sim's tutorial slides (ASPLOS'23, HotI'24): exact closed forms where every input is known, else
within 0.3 % of the slide. Their "GB/s" and "MB" are binary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import astrarium as ar
from astrarium.collective import themis
from astrarium.collective.groups import SubDim
from astrarium.config import Config

from . import one_chunk_per_dim

LINK: dict[str, Any] = {"bandwidth": "50 GiB/s", "latency": "500 ns"}
RATE = 50 * 2**30 / 1e9     # byte/ns


def makespan_ps(dims: list[Config], algorithm: str, payload: str, *, backend: str = "closed_form", compat: str = "none",
                memory: str | None = None, switching: str | None = None, **collective: Any) -> int:
    """Picoseconds of one all_reduce in 4 chunks with 10 ns at every endpoint."""
    chosen = {"all_reduce": [algorithm], "choice": "none", "chunks": 4, "endpoint_delay": "10 ns", **collective}
    design = ar.Design(workload=ar.SingleCollective("all_reduce", payload), compat=compat,
                       network=ar.Network(dims, backend=backend, switching=switching),
                       collective=ar.Collective(**chosen), memory=ar.Memory(bandwidth=memory))
    return ar.simulate(design).makespan_ps


def serial_ps(size: float) -> int:
    """Picoseconds of `size` bytes on one link."""
    return round(size / RATE * 1000)


@pytest.mark.parametrize(("mebibytes", "slide_us"), [
    (1, 45.681), (2, 62.761), (4, 96.921), (8, 165.297), (16, 302.077), (32, 575.609), (64, 1122.673), (128, 2216.745),
    (256, 4404.945), (512, 8781.373), (1024, 17534.229)])
def test_ring_of_8_with_two_links_each(mebibytes: int, slide_us: float) -> None:
    found = makespan_ps([ar.Ring(8, **LINK)], "ring_two_way", f"{mebibytes} MiB")
    block = mebibytes * 2**20 // 4 // 16                        # 8 blocks on each of two rings
    assert found == 4 * (10_000 + 14 * (500_000 + serial_ps(block) + 10_000))
    assert found / 1e6 == pytest.approx(slide_us, rel=3e-3)


def test_switch_of_8_by_halving_and_doubling() -> None:
    found = makespan_ps([ar.Switch(8, **LINK)], "halving_doubling", "1 MiB")
    one_way = sum(1_000_000 + 10_000 + serial_ps(2**18 // part) for part in (2, 4, 8))
    assert found == 4 * (10_000 + 2 * one_way)
    assert found / 1e6 == pytest.approx(58.449, rel=3e-3)


def test_fully_connected_8() -> None:
    found = makespan_ps([ar.FullyConnected(8, **LINK)], "direct", "1 MiB")
    assert found == 4 * (10_000 + 2 * (500_000 + serial_ps(2**18 // 8) + 10_000))
    assert found / 1e6 == pytest.approx(9.001, rel=3e-3)


@pytest.mark.parametrize(("backend", "compat", "slide_us"), [
    ("closed_form", "astra_sim", 633.217), ("contention", "astra_sim", 40_008.217), ("contention", "none", 40_008.217)])
def test_switch_of_64(backend: str, compat: str, slide_us: float) -> None:
    switching = "store_and_forward" if backend == "contention" else None
    found = makespan_ps([ar.Switch(64, **LINK)], "direct", "1 GiB", backend=backend, compat=compat, switching=switching)
    assert found / 1e6 == pytest.approx(slide_us, rel=3e-3)


def test_switch_of_64_natively_sends_63_messages_through_one_port() -> None:
    found = makespan_ps([ar.Switch(64, **LINK)], "direct", "1 GiB")
    assert found == 4 * (10_000 + 2 * (1_000_000 + 63 * serial_ps(2**28 // 64) + 10_000))


def test_ring_of_8_with_reductions() -> None:
    found = makespan_ps([ar.Ring(8, **LINK)], "ring", "1 MiB", compat="astra_sim", composition="blueconnect",
                        memory="50 GB/s")
    assert found == 117_780_000 == 4 * (14 * (500 + 610) + 15 * 10 + 7 * 3 * 655) * 1000


CUBE = [ar.Switch(8, bandwidth="50 GiB/s", latency="1 ns")] * 3
SHAPE = tuple(SubDim(dim, 8, 8**dim) for dim in range(3))
IDEAL_US = 2044 / (150 * 1024) * 1e6     # 2,044 MiB per NPU over three dims together
CHUNKS = 64     # preferred-dataset-splits in asplos2023/exercise_3/inputs/system/3d_switch_*.txt of astra-sim/tutorials
ORDERS = themis.orders([2**30 // CHUNKS] * CHUNKS, SHAPE, [themis.DimCost(6.0, RATE)] * 3)


def test_three_dims_baseline_is_bound_by_the_first() -> None:
    found = makespan_ps(CUBE, "halving_doubling", "1 GiB", composition="blueconnect", chunks=CHUNKS) / 1e6
    assert found >= 35_000
    assert found == pytest.approx(35_008.129, rel=3e-3)
    assert IDEAL_US / found == pytest.approx(0.3801, rel=3e-3)


def test_the_rival_gives_both_slides_to_the_ns() -> None:
    """One chunk per dim at a time, ASTRA-sim 1's costs, our own orders: every input is known, so the ns are, too."""
    assert one_chunk_per_dim.all_reduce(2**30, [SHAPE] * CHUNKS, 1, smallest_first=False) == 35_008_129
    assert one_chunk_per_dim.all_reduce(2**30, ORDERS, 1, smallest_first=True) == 13_635_871


def test_three_dims_themis_in_turns_is_the_slide() -> None:
    """One chunk per dim natively: within 0.01 % of the slide, whose messages take whole ns; the rival's to the ps."""
    found = makespan_ps(CUBE, "halving_doubling", "1 GiB", composition="themis", chunks=CHUNKS, active_chunks=1)
    assert found / 1e6 == pytest.approx(13_635.871, rel=1e-4)
    assert found == one_chunk_per_dim.finish([native_visits(order) for order in ORDERS], 3, smallest_first=True)


def native_visits(order: Sequence[SubDim]) -> list[one_chunk_per_dim.Visit]:
    """An all_reduce of one chunk, native costs in ps; in the last dim reduce_scatter and all_gather are one phase."""
    size, down = 2**30 // CHUNKS, []
    for part in order:
        down.append((part.dim, size, sum(2_000 + serial_ps(size >> k) + 10_000 for k in (1, 2, 3))))
        size //= part.n
    dim, last, ps = down.pop()
    gathers = [(dim, size // 8, 10_000 + ps) for dim, size, ps in reversed(down)]
    return [*((dim, size, 10_000 + ps) for dim, size, ps in down), (dim, last, 10_000 + 2 * ps), *gathers]


def test_three_dims_themis_loads_all() -> None:
    """All chunks as they come: ports take what is ready in order of arrival, 0.36 % less idle time than in turns."""
    found = makespan_ps(CUBE, "halving_doubling", "1 GiB", composition="themis", chunks=CHUNKS) / 1e6
    assert found >= IDEAL_US
    assert 0.996 < found / 13_635.871 < 1
