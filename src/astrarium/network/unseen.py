"""Effects that a design asks for and its back end does not see, with the back ends that do."""

from __future__ import annotations

from collections.abc import Iterator

from astrarium.network.config import FullyConnected, LinkDim, Network, Ring, Switch

__all__ = ["unseen"]


def unseen(network: Network, jobs: int) -> Iterator[str]:
    """A sentence for each effect. `jobs`: how many run at once."""
    if jobs < 2:
        return
    if network.backend == "closed_form":
        shared = [f"{number} ({dim.tag})" for number, dim in enumerate(network.flat) if _passes(dim)]
        if shared:
            yield (f"closed_form does not see links that jobs share: messages pass NPUs of other jobs along dim"
                   f"{'s' * (len(shared) > 1)} {', '.join(shared)}; contention and packets see them")
    elif network.backend == "contention" and network.switching == "store_and_forward":
        yield ("contention that stores whole messages hides shared links: a message over several links is slow alone, "
               "and others go in its gaps; switching: cut_through and backend: packets see them")


def _passes(dim: LinkDim) -> bool:
    """Whether messages pass NPUs on their way along a dim."""
    if isinstance(dim, (Switch, FullyConnected)):
        return False
    return dim.npus > (3 if isinstance(dim, Ring) and not dim.one_way else 2)
