"""Traffic of products behind a buffer: against enumerated tilings, a lower bound of any schedule, and by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import astrarium as ar
from astrarium.compute.traffic import WIDTH, product_traffic, repeated_bytes, with_repeats
from astrarium.engine.plugins.compute import ComputeNodes, LocalMemory
from astrarium.errors import InputError
from astrarium.vocab import Kernel

SIDE = st.integers(1, 60)
BYTES = st.floats(1, 1e12)


def passes(m: int, n: int, k: int, rows: int) -> int:
    """Elements loaded and stored by a schedule that is run: `rows` rows of U stay, columns of V pass one by one."""
    moved = 0
    for first in range(0, m, rows):
        held = min(rows, m - first)
        moved += held * k
        for _ in range(n):
            moved += k + held       # a column of V in, a column of the result out
    return moved


def fewest(m: int, n: int, k: int, buffer: int) -> int | None:
    """The best of all such schedules, rows of U or columns of V staying; None where not even one row fits."""
    found = [passes(m, n, k, rows) for rows in range(1, m + 1) if rows * k <= buffer]
    found += [passes(n, m, k, columns) for columns in range(1, n + 1) if columns * k <= buffer]
    if m * n <= buffer:
        found.append(m * k + k * n + m * n)     # the result stays, a column of U and a row of V at a time pass
    return min(found, default=None)


@given(SIDE, SIDE, SIDE, st.integers(1, 60))
@example(60, 60, 7, 3)
def test_equals_the_best_enumerated_schedule_where_rows_fill_the_buffer(m: int, n: int, k: int, whole: int) -> None:
    assert float(product_traffic(m * k, k * n, m * n, whole * k)) == fewest(m, n, k, whole * k)


@given(SIDE, SIDE, SIDE, st.integers(1, 3600))
def test_no_enumerated_schedule_is_better(m: int, n: int, k: int, buffer: int) -> None:
    """Where rows do not fill the buffer the equation is an ideal, less than one pass of each part below."""
    found = fewest(m, n, k, buffer)
    assume(found is not None)
    assert float(product_traffic(m * k, k * n, m * n, buffer)) <= found


@given(SIDE, SIDE, SIDE, st.integers(1, 3600))
def test_never_below_what_any_schedule_needs(m: int, n: int, k: int, buffer: int) -> None:
    least = max(m * k + k * n + m * n, 2 * m * n * k / math.sqrt(buffer) - 2 * buffer)
    assert float(product_traffic(m * k, k * n, m * n, buffer)) >= least * (1 - 1e-12)


@given(BYTES, BYTES, BYTES, BYTES, BYTES)
def test_more_buffer_never_moves_more(u: float, v: float, w: float, one: float, other: float) -> None:
    assert product_traffic(u, v, w, max(one, other)) <= product_traffic(u, v, w, min(one, other))
    assert product_traffic(u, v, w, one) >= u + v + w


def test_by_hand() -> None:
    assert product_traffic(100, 90, 1000, 40).tolist() == min(3 * 90 + 100, 3 * 100 + 90) + 1000
    assert product_traffic([100, 40, 100, 100], [90, 90, 40, 90], [50, 50, 50, 40], 40).tolist() == [
        420, 180, 190, 230]


def gemm(shape: tuple[int, ...], kind: str = "gemm", launches: int = 1, precision: str = "bf16") -> Kernel:
    batch, m, n, k = shape
    rows = m if kind == "gemm" else m // batch
    size = int(batch * (rows * k + k * n + rows * n) * WIDTH[precision])
    return Kernel(kind, precision, shape, 1.0, 2.0 * batch * rows * n * k, size, launches)


def test_kernels() -> None:
    """A batch or a group is so many products; what is no product passes once."""
    one = float(repeated_bytes([gemm((1, 300, 200, 100))], 1000.0)[0])
    assert one == min(59 * 200 * 100 * 2, 39 * 300 * 100 * 2)
    kernels = [gemm((4, 300, 200, 100)), gemm((4, 1200, 200, 100), "grouped_gemm"),
               gemm((1, 300, 200, 100), launches=3), gemm((1, 300, 200, 100), precision="fp32"),
               Kernel("pointwise", "bf16", (), 1.0, 0.0, 10**9)]
    assert repeated_bytes(kernels, 1000.0)[:3].tolist() == [4 * one, 4 * one, 3 * one]
    assert repeated_bytes(kernels, 2000.0)[3] == 2 * one
    layer = Kernel("grouped_gemm", "bf16", (4, 1200, 200, 100, 200, 1, 0), 1.0, 0.0, 0)     # [100] to [200] to [100]
    back = float(repeated_bytes([gemm((4, 300, 100, 200))], 1000.0)[0])
    assert repeated_bytes([layer], 1000.0) == [4 * one + back]
    assert repeated_bytes(kernels, 1e9).tolist() == [0] * 5 == [*repeated_bytes(kernels[4:], 1.0), 0, 0, 0, 0]


def test_nodes() -> None:
    kernels = (gemm((1, 300, 200, 100)), Kernel("pointwise", "bf16", (), 1.0, 0.0, 7))
    nodes = ComputeNodes(np.full(3, 1e3), np.array([11, 7, 5]), np.zeros(3, np.int64), ("", "", ""),
                         np.zeros(3, np.bool_), 0, np.array([0, 1, -1], np.int32), kernels, LocalMemory(1.0))
    again = float(repeated_bytes(kernels, 1000.0)[0])
    assert with_repeats(nodes, 1000.0).tolist() == [11 + again, 7, 5]
    found = ar.Roofline("1 TFLOP/s", buffer="1000 B").durations(nodes)
    assert found.tolist() == [round(Fraction(11 + again) * 1000), 7000, 5000]
    assert ar.Roofline("1 TFLOP/s").durations(nodes).tolist() == [11000, 7000, 5000]


def design(**compute: str) -> ar.Design:
    model = ar.Decoder(layers=1, d_model=1024, heads=8, ffn=4096, vocab=512, seq=256)
    return ar.Design(workload=ar.Transformer(model, global_batch=8), compute=ar.Roofline("100 TFLOP/s", **compute),
                     memory=ar.Memory(bandwidth="10 GB/s"),
                     network=ar.Network([ar.Switch(1, bandwidth="1 GB/s", latency="0 ns")]))


def test_a_run() -> None:
    """A buffer that holds all changes no time, a smaller one takes longer."""
    whole, large, small = (ar.simulate(design(**given), record=False).makespan_ps for given in (
        {}, {"buffer": "1 GB"}, {"buffer": "1 MB"}))
    assert whole == large < small


def test_astra_sim_has_none() -> None:
    with pytest.raises(InputError, match=r"^compute\.buffer: has no effect"):
        ar.replace_all(design(buffer="1 MB"), {"compat": "astra_sim"})
    special = ar.NpuType(npus=[0], compute=ar.Roofline("1 TFLOP/s", buffer="1 MB"))
    with pytest.raises(InputError, match=r"npu_types\[0\]\.compute\.buffer: has no effect"):
        ar.replace_all(design(), {"compat": "astra_sim", "npu_types": [special]})


def test_a_layer_of_experts_is_two_products():
    """(groups, rows, columns of the first, its k, k of the second): what behind a buffer passes again, and bytes."""
    whole = Kernel("grouped_gemm", "bf16", (8, 4096, 4096, 2048, 2048, 4, 101), 1.0, 0.0, 0)
    one, two = (whole._replace(shape=shape) for shape in ((8, 4096, 4096, 2048), (8, 4096, 2048, 2048)))
    assert repeated_bytes([one, whole, two], 2**18).tolist()[1] == sum(repeated_bytes([one, two], 2**18))
