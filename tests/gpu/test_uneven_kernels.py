"""all_to_alls of different sizes as kernels: proved, conserved, and as fast as their busiest port."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws
from tests.gpu.test_gpu import needs_core, outcome, same
from tests.gpu.test_kernels import GPU

from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu import Kernels, kernel_launch, uneven_all_to_all
from astrarium.gpu.engine import OpKind, Workgroup, run_launch
from astrarium.vocab import CommOp

WAYS = [("simple", "put"), ("simple", "get"), ("ll", "put"), ("ll128", "put"), ("lamport", "put")]


@given(st.sampled_from(WAYS), st.integers(2, 5), st.integers(1, 4), st.integers(0, 1 << 30))
@draws(40)
def test_any_sizes_are_proved_and_only_what_is_sent_crosses_ports(way: tuple[str, str], n: int, workgroups: int,
                                                                  seed: int) -> None:
    kernels = Kernels(protocol=way[0], direction=way[1], workgroups=workgroups, wavefronts=2, unroll=2)
    random = Random(seed)
    sizes = [[random.choice([0, 1, 128, random.randrange(6000)]) for _ in range(n)] for _ in range(n)]
    ran = run_launch(uneven_all_to_all(sizes, GPU, kernels))
    line, lines = (120, 1) if way[0] == "ll128" else (128, 2 if way[0] == "ll" else 1)
    sent = [sum(-(-size // line) * lines for j, size in enumerate(row) if j != i) for i, row in enumerate(sizes)]
    assert ran.port_packets[:, :, 0].sum(axis=1).tolist() == sent


@needs_core
@pytest.mark.parametrize("way", WAYS)
def test_even_sizes_are_the_even_kernel_and_both_engines_agree(way: tuple[str, str]) -> None:
    kernels = Kernels(protocol=way[0], direction=way[1], workgroups=3, wavefronts=2, unroll=2)
    even = kernel_launch(CommOp.ALL_TO_ALL, 4 * 3000, 4, GPU, kernels)
    made = uneven_all_to_all([[3000] * 4] * 4, GPU, kernels)
    assert made.symmetric
    assert made.grids[0] == even.grids[0]
    uneven = uneven_all_to_all([[100 * i * j for j in range(4)] for i in range(4)], GPU, kernels)
    same(outcome(uneven, pure=True), outcome(uneven, pure=False, threads=2))


def test_the_busiest_port_says_how_long() -> None:
    """Dispatch: everyone sends a hot rank three times the mean. Its ports take in what it receives, and no faster."""
    n, mean, factor = 4, 1 << 20, 3
    rest = mean * (n - factor) / (n - 1)
    sizes = np.full((n, n), rest)
    sizes[:, 0] = mean * factor
    kernels = Kernels(workgroups=16, wavefronts=8, unroll=4)
    dispatch, combine = (run_launch(uneven_all_to_all(each.tolist(), GPU, kernels, examined=False)).makespan
                         for each in (sizes, sizes.T))
    even = run_launch(uneven_all_to_all([[mean] * n] * n, GPU, kernels, examined=False)).makespan
    wire = (n - 1) * mean * factor / 128 * (128 + 16) / (6 * 25) * 1000      # ps: data into the hot rank, or out of it
    for took in dispatch, combine:
        assert wire < took < 1.2 * wire
        assert took > 2 * even


def test_what_is_wrong_is_named() -> None:
    for sizes, words in (([[1]], "1 rows"), ([[1, 2], [3]], "2 rows"), ([[1, -1], [1, 1]], "out of range"),
                         ([[1, float("nan")], [1, 1]], "out of range")):
        with pytest.raises(InputError, match=f"kernels.sizes: .*{words}"):
            uneven_all_to_all(sizes, GPU)
    with pytest.raises(UnsupportedError, match=r"kernels.program: a program, whose chunks are even"):
        uneven_all_to_all([[1, 1]] * 2, GPU, Kernels(program="a.xml"))
    with pytest.raises(UnsupportedError, match="ring has no all_to_all"):
        uneven_all_to_all([[1, 1]] * 2, GPU, Kernels("ring"))


def test_the_exam_sees_a_copy_that_is_too_short() -> None:
    from astrarium.gpu.kernels import uneven
    from astrarium.gpu.kernels.exam import prove

    requests = [[2, 5], [3, 4]]
    launch = uneven_all_to_all([[256, 640], [384, 512]], GPU, Kernels(workgroups=1))
    prove(launch, uneven._promise(launch, requests))
    short = tuple(Workgroup(tuple(replace(op, size=op.size - 1) if op.kind == OpKind.MEMCPY and op.targets[0].peer
                                  else op for op in group.operations)) for group in launch.grids[0])
    with pytest.raises(InputError, match="all_to_all: request 9 of the output of GPU 1 ends with nothing"):
        prove(replace(launch, grids=(short, launch.grids[1])), uneven._promise(launch, requests))
