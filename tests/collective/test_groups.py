"""Groups as slices of dims."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.collective.groups import FLAT, SubDim, group_shape, world_shape
from astrarium.errors import InputError


@pytest.mark.parametrize(("npus", "dims", "shape"), [
    ([0, 1, 2, 3], [8], [(0, 4, 1)]),
    ([1, 3, 5, 7], [8], [(0, 4, 1)]),
    ([0, 1, 4, 5], [8], [(0, 4, 1)]),                               # two runs within one dim: still one part of it
    ([0, 3, 5], [8], [(0, 3, 1)]),
    ([3, 2, 1, 0], [4], [(0, 4, 1)]),
    ([0, 1, 4, 5], [4, 2], [(0, 2, 1), (1, 2, 2)]),
    ([0, 4, 1, 5], [4, 2], [(0, 2, 2), (1, 2, 1)]),                 # outer dim first in the group's order
    ([0, 1, 8, 9], [4, 4], [(0, 2, 1), (1, 2, 2)]),
    ([1, 2, 5, 6, 9, 10, 13, 14], [8, 2], [(0, 4, 1), (1, 2, 4)]),
    ([0, 3, 5, 16, 19, 21], [8, 4], [(0, 3, 1), (1, 2, 3)]),
    ([5], [8], []),
    ([2, 3, 4, 5], [4, 4], [(FLAT, 4, 1)]),                         # crosses a border without covering the dim
    ([0, 3, 5], [4, 2], [(FLAT, 3, 1)]),
    ([0, 1, 2, 5, 6, 7], [7, 2], [(FLAT, 6, 1)]),                   # 5, 6 and 7, which is in another row
    ([0, 1, 8, 9, 4, 5, 12, 13], [8, 2], [(FLAT, 8, 1)]),           # the outer dim between two runs of the inner one
])
def test_shapes(npus: list[int], dims: list[int], shape: list[tuple[int, ...]]) -> None:
    assert group_shape(npus, dims) == tuple(SubDim(*part) for part in shape)


def lists(npus: list[int], shape: tuple[SubDim, ...], dims: list[int]) -> dict[int, list[int]]:
    """Coordinates per dim, in group order; the shape must say that they make up the group."""
    inner = np.concatenate([[1], np.cumprod(dims)]).tolist()
    found = {part.dim: [npus[k * part.stride] // inner[part.dim] % dims[part.dim] for k in range(part.n)]
             for part in shape}
    assert sorted(found) == [part.dim for part in shape]
    for position, npu in enumerate(npus):
        at = [npus[0] // inner[dim] % size for dim, size in enumerate(dims)]
        for part in shape:
            at[part.dim] = found[part.dim][position // part.stride % part.n]
        assert npu == sum(place * step for place, step in zip(at, inner, strict=False))
    return found


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_products_of_lists_are_found(dims: list[int], data: st.DataObject) -> None:
    inner = np.concatenate([[1], np.cumprod(dims)]).tolist()
    npus, chosen = [0], {}
    for dim in data.draw(st.permutations(range(len(dims)))):
        chosen[dim] = data.draw(st.lists(st.integers(0, dims[dim] - 1), min_size=1, unique=True))
        npus = [npu + place * inner[dim] for place in chosen[dim] for npu in npus]
    shape = group_shape(npus, dims)
    assert lists(npus, shape, dims) == {dim: places for dim, places in chosen.items() if len(places) > 1}


@given(st.lists(st.integers(1, 8), min_size=1, max_size=3), st.data())
def test_any_list_is_described_exactly_or_flat(dims: list[int], data: st.DataObject) -> None:
    total = int(np.prod(dims))
    npus = data.draw(st.lists(st.integers(0, total - 1), min_size=1, max_size=6, unique=True))
    shape = group_shape(npus, dims)
    if shape and shape[0].dim == FLAT:
        assert shape == (SubDim(FLAT, len(npus), 1),)
    else:
        found = lists(npus, shape, dims)
        assert int(np.prod([len(places) for places in found.values()])) == len(npus)


def test_the_whole_world_is_its_dims() -> None:
    assert group_shape(range(24), [2, 1, 3, 4]) == world_shape([2, 1, 3, 4])
    assert [part.n for part in group_shape(np.arange(1 << 16), [16] * 4)] == [16] * 4


@pytest.mark.parametrize(("npus", "message"), [([], "without members"), ([0, 8], "NPU 8 is not in the network"),
                                               ([-1], "NPU -1"), ([1, 2, 1], "NPU 1 is in the group twice")])
def test_bad_groups_are_refused(npus: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        group_shape(npus, [8])
