"""What may be spent on a network's bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar

from astrarium.config import Config, Knob, Problem, default
from astrarium.units import Bandwidth, OptionalBandwidth

__all__ = ["Budget"]


def _named(budget: Budget) -> Iterator[Problem]:
    if budget.money is None and budget.bandwidth is None:
        yield Problem("money", "is missing", "US dollars of the network (money), or a bandwidth, or both")
    if budget.spend_all and budget.bandwidth is None:
        yield Problem("spend_all", "means nothing without a total bandwidth", "bandwidth")
    if budget.spend_all and budget.money is not None:
        yield Problem("spend_all", "with money, too: both cannot be spent exactly", "bandwidth alone")


def _ordered(budget: Budget) -> Iterator[Problem]:
    for place, ceiling in enumerate(budget.ceiling):
        if float(ceiling) <= float(budget.floor):
            yield Problem(f"ceiling[{place}]", f"{ceiling} is not above the floor of {budget.floor}", "more")


class Budget(Config, frozen=True, kw_only=True):
    """What a network's bandwidth may cost. Bandwidths are of all links of one NPU in a dim, one direction.

    `money` buys the network alone; NPUs cost what they cost whatever their links. `bandwidth` is the sum over the dims
    (LIBRA's budget). With both, the answer keeps both.
    """

    rules: ClassVar[tuple[Callable[[Any], Iterable[Problem]], ...]] = (_named, _ordered)
    money: Annotated[float | None, Knob("US dollars of the whole network, at most.", gt=0)] = None
    bandwidth: Annotated[OptionalBandwidth, Knob("Sum over the dims of the bandwidth out of one NPU, at most.", gt=0)
                         ] = default(None)
    floor: Annotated[Bandwidth, Knob("Least bandwidth of every dim.", gt=0)] = default("100 MB/s")
    ceiling: Annotated[Sequence[Bandwidth], Knob("Most bandwidth of each dim, innermost first; none: no limit.", gt=0)
                       ] = ()
    spend_all: Annotated[bool, Knob("The dims' sum is `bandwidth` exactly, as LIBRA's time x cost has it. Time alone "
                                    "spends all anyway.")] = False
