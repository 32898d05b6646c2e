"""Kernels of each kind: which rule gives their time."""

import numpy as np
import pytest

from astrarium.compute import kernels
from astrarium.engine.plugins.kernels import tabled
from astrarium.errors import InputError
from astrarium.vocab import Kernel

H100 = kernels.load("h100_sxm")


def made(kind, shape=(), work=1.0, flops=0.0, **more):
    return Kernel(kind, "bf16", shape, work, flops, **{"bytes": 0, **more})


def attention(kind="attention", queries=4096, work=0.5, times=1.0):
    shape = (2, 16, 16, queries, 4096, 128, 128)
    return made(kind, shape=shape, work=work, flops=times * 4 * 2 * 16 * queries * 4096 * 128 * work)


def product(batch=1, m=4096, n=4096, k=4096, times=1, kind="gemm"):
    return made(kind, shape=(batch, m, n, k), flops=2.0 * m * n * k * times * (batch if kind == "gemm" else 1))


def test_launches_of_one_shape_take_its_time_each():
    once, thrice = kernels.latency_ns(H100, [product(), product(times=3)])
    assert thrice == pytest.approx(3 * once)


def test_backward_takes_its_flops_at_a_lower_rate():
    forward, backward = kernels.latency_ns(H100, [attention(), attention("attention_backward", times=2.5)])
    assert backward / forward == pytest.approx(2.5 * 638 / 542)


def test_a_mask_halves_the_time():
    full, causal = kernels.latency_ns(H100, [attention(work=1.0), attention(work=0.5)])
    assert 1.9 < full / causal < 2.1


def test_one_query_is_decoding_bound_by_the_cache():
    ns, = kernels.latency_ns(H100, [attention(queries=1, work=1.0)])
    moved = 2 * 2 * 16 * 4096 * 128 * 2
    assert 0.3 < moved / H100.machine.bandwidth / ns < 1


@pytest.mark.parametrize(("device", "sequences", "bandwidth"), [
    ("l40s", 8, 864.0), ("rtx_pro_6000_server", 32, 1792.0), ("b200_sxm", 16, 7700.0)])
def test_decoding_reads_keys_and_values_from_memory(device: str, sequences: int, bandwidth: float) -> None:
    """34 to 134 MB of them: the rows' kernel finds these in the cache of the run before it, a model's does not."""
    shape = (sequences, 32, 8, 1, 1024, 128, 128)
    one, far = (Kernel("attention", "bf16", (*shape[:4], keys, 128, 128), 1.0, 4.0 * sequences * 32 * keys * 128, 0)
                for keys in (1024, 65536))
    rows = kernels.load(device).latency_ns("decode", "bf16", np.array([[*map(float, shape), 1.0, 2.0]]).T, "vllm")[0]
    ns, large = kernels.latency_ns(kernels.load(device), [one, far], "vllm")
    moved = sequences * 1024 * 8 * 256 * 2
    assert rows < 0.9 * ns
    assert 0.4 < moved / bandwidth / ns < 0.9
    assert 0.7 < 64 * moved / bandwidth / large < 1       # beyond the cache: as the rows have it


def test_groups_share_the_rows_and_read_every_weight() -> None:
    few, many = kernels.latency_ns(H100, [product(groups, 8192, kind="grouped_gemm") for groups in (8, 64)])
    assert few < many < 8 * few
    assert 0.2 < 2 * 8192 * 4096 * 4096 / few / H100.machine.peak("bf16") < 1


def test_streams_move_bytes_in_each_launch():
    one, two = kernels.latency_ns(H100, [made("normalisation", bytes=2**30),
                                         made("pointwise", bytes=2**30, launches=64)])
    assert 0.7 < 2**30 / one / H100.machine.bandwidth < 0.95
    assert two > one


def test_the_end_of_another_kernel_takes_its_bytes_alone():
    whole, part, none = kernels.latency_ns(H100, [made("normalisation", bytes=2**24),
                                                  made("normalisation", bytes=2**24, launches=0),
                                                  made("normalisation", launches=0)])
    assert none == 0 < part == whole - kernels.latency_ns(H100, [made("normalisation")])[0]


def test_a_shape_of_the_wrong_length_and_an_unknown_kind_are_refused():
    with pytest.raises(InputError, match="4 positive"):
        kernels.latency_ns(H100, [made("gemm", shape=(1, 2, 3), flops=1.0)])
    with pytest.raises(InputError, match="gemm"):
        kernels.latency_ns(H100, [made("gem", shape=(1, 2, 3, 4), flops=1.0)])


def test_order_does_not_matter():
    some = [product(m=1000 + 7 * i) if i % 3 else attention(queries=128 * (i + 1)) for i in range(40)]
    forth, back = kernels.latency_ns(H100, some), kernels.latency_ns(H100, some[::-1])
    assert np.allclose(forth, back[::-1])


def test_kernels_as_columns_take_the_time_of_each_alone() -> None:
    """One object a kernel is the oracle; parts of a table hold kernels of several classes."""
    some = [product(), product(batch=32, m=7, n=128, k=512), product(8, 64, kind="grouped_gemm"),
            made("normalisation", bytes=2**20, launches=3), attention(), attention(queries=1, work=1.0),
            attention("attention_backward", times=2.5), made("mla", (4, 128, 1, 1, 900, 576, 512), flops=1e9),
            made("mla", (4, 16, 1, 40, 900, 576, 512), 0.5, flops=1e9), product(times=2),
            made("attention", (2, 8, 1, 64, 900, 128, 0), 0.5, flops=1e8),
            made("attention", (2, 8, 8, 64, 900, 192, 128), 0.5, flops=1e8)]
    table = tabled(some)
    assert list(table) == some
    assert table[3] == some[3]
    alone = [float(kernels.latency_ns(H100, [each], "fastest")[0]) for each in some]
    assert kernels.latency_ns(H100, table, "fastest").tolist() == alone


def test_more_rows_of_experts_never_take_less_time():
    """Rows of the tables fall by more than 10 % in 3 to 14 % of their steps; a rank with more rows is not faster."""
    layers = [Kernel("grouped_gemm", "bf16", (32, rows, 1536, 2048, 768, 4, 101), 1.0, 2.0 * rows * 2048 * 2304, 0)
              for rows in sorted({round(2 ** (place / 8)) for place in range(8, 128)})]
    for framework in (None, "fastest"):
        ns = kernels.latency_ns(H100, layers, framework)
        assert (ns[1:] >= ns[:-1]).all()
        assert ns[-1] > 4 * ns[0]
    apart = [float(kernels.latency_ns(H100, [each])[0]) for each in layers[::20]]
    assert apart == kernels.latency_ns(H100, layers[::20]).tolist()
