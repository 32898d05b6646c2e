"""The order in which chunks take turns in each dim, fixed before the run.

Where every chunk takes the dims in another order and a dim has room for few chunks at a time, each rank deciding for
itself could stop: chunk A goes from dim 0 to dim 1 and chunk B the other way; a rank whose dim 0 has taken A waits for
one whose dim 1 has taken B. Rashidi et al., "Themis" (ISCA 2022) fix the order beforehand by a simulation of
the whole; so does this: a dim serves one chunk at a time, smallest first. Ranks that all keep to an order in which
one run has gone to its end cannot wait for each other in a circle: what comes first in it of all that is not done
waits for nothing else.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from msgspec import Struct

__all__ = ["Visit", "turns"]


class Visit(Struct, frozen=True):
    """A chunk in one of its phases: `size` bytes as it arrives, which takes the ports of `dim` for `ps`."""

    dim: int
    size: int
    ps: int


def turns(chunks: Sequence[Sequence[Visit]]) -> dict[int, list[tuple[int, int]]]:
    """Per dim, (chunk, number of its visit) in the order in which they start; chunks[c] are c's visits in order.

    All chunks are there at 0. Of those that wait for a dim the smallest goes first, of equal ones the last to come;
    dims that are free at the same instant are served as their chunks arrive, of an instant the inner dim first.
    """
    found: dict[int, list[tuple[int, int]]] = {visit.dim: [] for visits in chunks for visit in visits}
    waiting: dict[int, list[tuple[int, int, int, int]]] = {dim: [] for dim in found}    # size, -arrival, chunk, number
    running: dict[int, tuple[int, int]] = {}
    ends: list[tuple[int, int]] = []        # time, dim
    arrivals = 0

    def serve(dim: int, now: int) -> None:
        if dim not in running and waiting[dim]:
            *_, chunk, number = heapq.heappop(waiting[dim])
            running[dim] = chunk, number
            found[dim].append((chunk, number))
            heapq.heappush(ends, (now + chunks[chunk][number].ps, dim))

    def come(chunk: int, number: int, now: int, left: int | None) -> None:
        """To the next visit, if there is one; the dim just left goes on first."""
        nonlocal arrivals
        arrivals += 1
        dims = [] if left is None else [left]
        if number < len(chunks[chunk]):
            visit = chunks[chunk][number]
            heapq.heappush(waiting[visit.dim], (visit.size, -arrivals, chunk, number))
            dims.append(visit.dim)
        for dim in dims:
            serve(dim, now)

    for chunk in range(len(chunks)):
        come(chunk, 0, 0, None)
    while ends:
        now, dim = heapq.heappop(ends)
        chunk, number = running.pop(dim)
        come(chunk, number + 1, now, dim)
    return found
