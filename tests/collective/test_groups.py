"""Groups as slices of dims."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.collective.groups import FLAT, SubDim, group_shape, world_shape
from astrarium.errors import InputError


@pytest.mark.parametrize(("npus", "dims", "shape"), [
    ([0, 1, 2, 3], [8], [(0, 4, 1, 0, 1)]),
    ([1, 3, 5, 7], [8], [(0, 4, 1, 1, 2)]),
    ([0, 1, 4, 5], [4, 2], [(0, 2, 1, 0, 1), (1, 2, 2, 0, 1)]),
    ([0, 4, 1, 5], [4, 2], [(0, 2, 2, 0, 1), (1, 2, 1, 0, 1)]),     # outer dim first in the group's order
    ([0, 1, 8, 9], [4, 4], [(0, 2, 1, 0, 1), (1, 2, 2, 0, 2)]),
    ([3, 2, 1, 0], [4], [(0, 4, 1, 3, -1)]),
    ([5], [8], []),
    ([0, 3, 5], [8], [(FLAT, 3, 1, 0, 1)]),
    ([2, 3, 4, 5], [4, 4], [(FLAT, 4, 1, 0, 1)]),                   # crosses a border without covering the dim
    ([0, 1, 4, 5], [8], [(FLAT, 4, 1, 0, 1)]),                      # two runs within one dim
])
def test_shapes(npus: list[int], dims: list[int], shape: list[tuple[int, ...]]) -> None:
    assert group_shape(npus, dims) == tuple(SubDim(*part) for part in shape)


@pytest.mark.parametrize(("npus", "dims", "shape"), [
    ([0, 1, 4, 5], [8], [(0, 2, 1, 0, 1), (0, 2, 2, 0, 4)]),                # two neighbours, twice
    ([1, 2, 5, 6, 9, 10, 13, 14], [8, 2], [(0, 2, 1, 1, 1), (0, 2, 2, 1, 4), (1, 2, 4, 0, 1)]),
    ([0, 1, 2, 5, 6, 7], [7, 2], [(FLAT, 6, 1, 0, 1)]),                     # 5, 6, 7 leaves the dim
    ([2, 3, 0, 1], [4], [(FLAT, 4, 1, 0, 1)]),                              # goes back
    ([0, 3, 5], [8], [(FLAT, 3, 1, 0, 1)]),
])
def test_several_slices_of_a_dim(npus: list[int], dims: list[int], shape: list[tuple[int, ...]]) -> None:
    assert group_shape(npus, dims, several=True) == tuple(SubDim(*part) for part in shape)


def members(shape: tuple[SubDim, ...], dims: list[int], first: int) -> list[int]:
    """The NPUs that a shape describes, in group order."""
    inner = np.concatenate([[1], np.cumprod(dims)]).tolist()
    coordinates = [first // inner[d] % dims[d] for d in range(len(dims))]
    places: dict[int, int] = {}
    for steps in product(*(range(part.n) for part in shape)):
        at = list(coordinates)
        for part, k in zip(shape, steps, strict=True):
            at[part.dim] += k * part.step
        places[sum(k * part.stride for part, k in zip(shape, steps, strict=True))] = \
            sum(c * i for c, i in zip(at, inner, strict=False))
    return [places[position] for position in sorted(places)]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_regular_slices_are_found_and_describe_their_group(dims: list[int], data: st.DataObject) -> None:
    inner = np.concatenate([[1], np.cumprod(dims)]).tolist()
    npus = [0]
    for dim in data.draw(st.permutations(range(len(dims)))):
        step = data.draw(st.integers(1, dims[dim]))
        start = data.draw(st.integers(0, dims[dim] - 1))
        count = data.draw(st.integers(1, (dims[dim] - 1 - start) // step + 1))
        npus = [npu + (start + k * step) * inner[dim] for k in range(count) for npu in npus]
    shape = group_shape(npus, dims)
    assert all(part.dim != FLAT for part in shape)
    assert members(shape, dims, npus[0]) == npus


@given(st.lists(st.integers(1, 8), min_size=1, max_size=3), st.booleans(), st.data())
def test_any_list_is_described_exactly_or_flat(dims: list[int], several: bool, data: st.DataObject) -> None:
    total = int(np.prod(dims))
    npus = data.draw(st.lists(st.integers(0, total - 1), min_size=1, max_size=6, unique=True))
    shape = group_shape(npus, dims, several=several)
    if shape and shape[0].dim == FLAT:
        assert shape == (SubDim(FLAT, len(npus), 1),)
    else:
        assert members(shape, dims, npus[0]) == npus


def test_the_whole_world_is_its_dims() -> None:
    assert group_shape(range(24), [2, 1, 3, 4]) == world_shape([2, 1, 3, 4])
    assert [part.n for part in group_shape(np.arange(1 << 16), [16] * 4)] == [16] * 4


@pytest.mark.parametrize(("npus", "message"), [([], "without members"), ([0, 8], "NPU 8 is not in the network"),
                                               ([-1], "NPU -1"), ([1, 2, 1], "NPU 1 is in the group twice")])
def test_bad_groups_are_refused(npus: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        group_shape(npus, [8])
