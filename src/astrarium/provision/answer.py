"""What provisioning answers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from astrarium.units import format_rate, format_time

__all__ = ["Allocation", "Provisioned"]


class Allocation(Struct, frozen=True):
    """Bandwidths (byte/ns out of one NPU) per dim, innermost first; simulated time (ns; weighted over workloads), US
    dollars of the network, and of network and NPUs where these have prices (else of the network)."""

    bandwidths: tuple[float, ...]
    time: float
    network_cost: float
    cost: float

    @property
    def product(self) -> float:
        """time x cost."""
        return self.time * self.cost


class Provisioned(Struct, frozen=True):
    """The allocation to buy, and that with equal bandwidths in all dims.

    `objective`: `time` or `time_x_cost`. `simulations`: how many were run.
    """

    objective: str
    best: Allocation
    equal: Allocation
    simulations: int

    def value(self, of: Allocation) -> float:
        """The objective of an allocation: ns, or ns x US dollars."""
        return of.time if self.objective == "time" else of.product

    @property
    def gain(self) -> float:
        """How many times less the objective is than with equal bandwidths in all dims, of the same budget."""
        return self.value(self.equal) / self.value(self.best)

    def __str__(self) -> str:
        head = ["", *(f"dim {place}" for place in range(len(self.best.bandwidths))), "step time", "network", "cost"]
        rows = [head, *(_row(name, each) for name, each in
                        (("equal", self.equal), ("best", self.best)))]
        widths = [max(len(row[place]) for row in rows) for place in range(len(head))]
        lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
        what = "time" if self.objective == "time" else "time x cost"
        lines.append(f"{what}: {self.gain:.4g} times less than with equal bandwidths ({self.simulations} simulations)")
        return "\n".join(lines)


def _row(name: str, of: Allocation) -> Sequence[str]:
    return [name, *(format_rate(each) for each in of.bandwidths), format_time(of.time),
            f"${of.network_cost:,.0f}", f"${of.cost:,.0f}"]
