"""RoCE on a network: what it takes by the rates of links, what does not fit, and what `astrarium run` says of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from astrarium.config import ConfigError, Problem
from astrarium.errors import InputError
from astrarium.network.inside import inside_links, inside_names
from astrarium.network.planned import network_plan
from astrarium.network.roce import Roce, steps, told
from astrarium.network.roce_rates import Marks
from astrarium.network.section import Section
from astrarium.units import Bytes

if TYPE_CHECKING:
    from astrarium.network.packets import Packets

__all__ = ["roce_faults", "roce_marks", "roce_notes"]

PATH = "packets.transport"


class Packeted(Section, Protocol):
    """A network section with packets."""

    @property
    def packets(self) -> Packets: ...


def roce_faults(network: Packeted) -> Iterator[Problem]:
    """Links of `inside` that the network has not, and thresholds that do not fit those of a rate."""
    try:
        for row in roce_marks(network):
            if row.kmax < row.kmin:
                yield Problem(f"{PATH}.kmin", f"{Bytes.of(row.kmin)} is more than kmax at {8 * row.rate:g} Gb/s",
                              f"up to {Bytes.of(row.kmax)}, or kmax")
    except ConfigError:
        return      # the fabric's own
    except InputError as error:
        if error.path.startswith("network." + PATH):
            yield Problem(error.path.removeprefix("network."), error.message, error.expected, error.did_you_mean)


def roce_marks(network: Packeted) -> list[Marks]:
    """Thresholds at each rate of links outside hosts, the lowest rate first. Raises InputError as `inside_links`."""
    roce = _roce(network)
    plan = network_plan(network, network.backend)
    inside = inside_links(network, plan, roce.inside)
    rates = plan.graph.bandwidth.tolist() if plan.graph is not None else [dim.bandwidth for dim in plan.dims]
    linked = range(len(rates)) if plan.graph is not None else [at for at, dim in enumerate(plan.dims) if dim.npus > 1]
    return [told(roce, rate) for rate in sorted({rates[at] for at in linked if not inside or not inside[at]})]


def roce_notes(network: Packeted) -> Iterator[str]:
    """A sentence per rate of the links outside hosts, with thresholds and increases; and one that names the links
    inside hosts."""
    roce = _roce(network)
    for row in roce_marks(network):
        additive, hyper = steps(roce, row.rate)
        yield (f"RoCE at {8 * row.rate:g} Gb/s: no marks up to {Bytes.of(row.kmin)} (kmin), {100 * row.pmax:g} % at "
               f"{Bytes.of(row.kmax)} (pmax, kmax), all above; increases of {_rate(additive)} (additive) and "
               f"{_rate(hyper)} (hyper)")
    names = inside_names(network, roce.inside)
    if names:
        yield f"RoCE has no hop inside hosts: {', '.join(names)} (inside)"


def _roce(network: Packeted) -> Roce:
    roce = network.packets.transport
    assert isinstance(roce, Roce)
    return roce


def _rate(step: float) -> str:
    return f"{8 * step:g} Gb/s" if step >= 0.125 else f"{8000 * step:g} Mb/s"
