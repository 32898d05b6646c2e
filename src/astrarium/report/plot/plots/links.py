"""How busy the links of a network are, as a heat map."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from astrarium.arrays import F64
from astrarium.errors import InputError
from astrarium.report.plot.colours import PALETTE
from astrarium.report.plot.find import Drawing
from astrarium.report.plot.plot import Axis, Column, Layer, Plot
from astrarium.result import Result

__all__ = ["PLOT", "TRAFFIC", "links", "traffic"]

CELLS, ROWS = 64, 40        # of a row; rows
FAINTEST = 0.06             # opacity of a link that is never busy
APART = " Collectives of given (measured) time are not on links: the table of the network has the ports that they need."
SCALE, STEPS = "busy", 5    # the row that explains the colours, and its cells


def links(result: Result) -> Plot:
    """The busy share of every link that carried something: a row for each dim and way (of a fabric: each tier), links
    from left to right by their number.

    Args:
        result: a run that recorded the traffic of its links.

    Raises:
        InputError: where nothing is known of links.
    """
    found = result.links
    if not len(found.busy):
        raise InputError("links", "no traffic was recorded", expected="a Result of simulate(design) with messages")
    tiers = found.tiers()
    kinds = np.array([tiers[place] or "links" for place in range(len(found.busy))] if tiers else [
        f"dim {dim} {'in' if source < 0 else 'out' if target < 0 else 'links'}"
        for dim, source, target in zip(found.dim.tolist(), found.source.tolist(), found.target.tolist())])
    order = list(dict.fromkeys(kinds.tolist()))[:ROWS]
    rows, start, end, mean, most, name = list[str](), list[float](), list[float](), list[float](), list[float](), \
        list[str]()
    binned = 1
    for kind in order:
        mine = np.flatnonzero(kinds == kind)
        each = -(-len(mine) // CELLS)
        binned = max(binned, each)
        for cell in range(0, len(mine), each):
            some = mine[cell:cell + each]
            busiest = int(some[np.argmax(found.utilisation[some])])
            rows.append(kind)
            start.append(cell / len(mine))
            end.append((cell + len(some)) / len(mine))
            mean.append(float(np.average(found.utilisation[some], weights=found.count[some])))
            most.append(float(found.utilisation[busiest]))
            name.append(found.name(busiest))
    strongest = max(most) or 1.0
    columns = {"y": Column("links", rows), "name": Column("busiest" if binned > 1 else "link", name),
               "most": Column("busy", most, "share"), "x": Column("", start, "count"), "x2": Column("", end, "count"),
               "opacity": Column("", [max(FAINTEST, each / strongest) for each in most], "share")}
    if binned > 1:
        columns["mean"] = Column("mean of the cell", mean, "share")
    top = int(np.argmax(found.utilisation))
    said = (f"The stronger the colour, the longer busy; the busiest is {found.name(top)} with "
            f"{100 * float(found.utilisation[top]):.1f} % of the run.")
    said += f" A cell is up to {binned:,} neighbouring links, as strong as its busiest one." if binned > 1 else ""
    said += APART if result.ports.most else ""
    return Plot("Busy links", said,
                (Layer("bar", columns, colour=PALETTE[0], share=0.9), *_scale(strongest, 1.0, "count")),
                Axis("links by number", "count", high=1.0, shown=False), Axis(order=(*order, SCALE)))


def traffic(result: Result) -> Plot:
    """The busy share of the links of each dim over time, those that carried nothing left out.

    Args:
        result: a run that recorded the traffic of its links.

    Raises:
        InputError: where nothing is known of links over time.
    """
    found = result.dims
    shares: npt.NDArray[np.float64] = found.utilisation_over_time
    if not shares.size or not result.makespan_ps:
        raise InputError("traffic", "no traffic over time was recorded",
                         expected="a Result of simulate(design) with messages on a built-in network")
    return _over_time(shares, found.bin / 1000, result.makespan_ps / 1000)


def _over_time(shares: F64, width: float, whole: float) -> Plot:
    dims, bins = shares.shape
    at = np.tile(np.arange(bins) * width, dims)
    flat = shares.reshape(-1)
    columns = {"y": Column("dim", [f"dim {dim}" for dim in range(dims) for _ in range(bins)]),
               "busy": Column("busy", flat.tolist(), "share"), "x": Column("from", at.tolist(), "time"),
               "x2": Column("to", np.minimum(at + width, whole).tolist(), "time"),
               "opacity": Column("", np.maximum(FAINTEST, flat / (float(flat.max()) or 1.0)).tolist(), "share")}
    means = ", ".join(f"dim {dim} {100 * float(each.mean()):.1f} %" for dim, each in enumerate(shares))
    return Plot("Busy links over time", f"The stronger the colour, the busier the links of a dim, at most "
                f"{100 * float(flat.max()):.1f} %; mean: {means}.",
                (Layer("bar", columns, colour=PALETTE[0], share=0.9),
                 *_scale(float(flat.max()) or 1.0, whole, "time")), Axis("time", "time"),
                Axis(order=(*(f"dim {dim}" for dim in range(dims)), SCALE)), zoom=True)


def _scale(strongest: float, wide: float, quantity: str) -> Iterator[Layer]:
    """A row that says which busy share each strength of the colour is: cells over an axis as `wide`."""
    start = [wide * cell / STEPS for cell in range(STEPS)]
    share = [cell / (STEPS - 1) for cell in range(STEPS)]
    row = Column("", [SCALE] * STEPS)
    yield Layer("bar", {"y": row, "x": Column("", start, quantity),
                        "x2": Column("", [at + wide / STEPS for at in start], quantity),
                        "opacity": Column("", [max(FAINTEST, each) for each in share], "share")},
                colour=PALETTE[0], share=0.9)
    yield Layer("text", {"y": row, "x": Column("", [at + wide / STEPS / 2 for at in start], quantity),
                         "text": Column("", [f"{100 * each * strongest:.3g} %" for each in share])},
                colour="ink", align="center")


PLOT = Drawing(("run",), lambda found: links(found.result))
TRAFFIC = Drawing(("run",), lambda found: traffic(found.result))
