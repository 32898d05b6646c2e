"""Energy of a run, from what the design says of it.

E = sum over NPUs (power * time computing + idle_power * the rest of the makespan) + sum over dims (bytes out * energy)

The first sum is that of ASTRA-sim's tutorial at ISCA 2026 (energy of kernels + delay * idle power; its example: 700 W,
80 W, 2 pJ/bit inside and 25 pJ/bit between hosts). The figures are the user's, or those of the `link` of a dim: nothing
is assumed where one is missing.
With `compute.clock: sustained` an NPU draws what its kernels do at their clock; `power` is then the limit.
`cost.operations` has another model of the same energy, by what is computed and moved.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from astrarium.cost.figure import Figure, plain_number, refuse_without, without
from astrarium.design import Design, npu_types
from astrarium.engine.plan import Backend, Plan
from astrarium.errors import UnsupportedError
from astrarium.lower.clocks import clocks_of
from astrarium.network.config import Network
from astrarium.network.needs import needs_dims
from astrarium.result import Result
from astrarium.result.links import bytes_out

__all__ = ["ENERGY", "Energy", "check_powers", "energy", "npu_energy", "refuse_backend",
           "refuse_uncounted"]

COUNTED = (Backend.PORTS, "contention", "fluid", "packets")      # networks that record what leaves an NPU
EXPECTED = ", ".join(COUNTED[:-1]) + " or packets (without header and spray)"
KINDS = ("power", "idle_power")


class Energy(Struct, frozen=True):
    """Joules: of NPUs while they compute, of NPUs at all other times, of each network dim."""

    compute: float
    idle: float
    network: tuple[float, ...]

    @property
    def total(self) -> float:
        """Sum of all parts, J."""
        return self.compute + self.idle + sum(self.network)


def energy(design: Design, result: Result) -> Energy:
    """What a recorded run of a design takes. An NPU without a rank idles. Raises InputError where the design lacks a
    figure, UnsupportedError for networks that do not count bytes (plug-ins, ASTRA-sim's)."""
    check_powers(design)
    plan = result.plan
    refuse_backend("energy", design.network, plan.network.backend)
    dims = [dim.energy_out for dim in design.network.flat]
    refuse_uncounted("energy", design, plan)
    sent = bytes_out(plan, result.links)
    return Energy(*npu_energy(design, result), tuple(float(size) * each / 1e9 for size, each in
                                                     zip(sent, dims, strict=True)))


def refuse_backend(figure: str, network: Network, backend: str) -> None:
    """Raise UnsupportedError for a network that does not count, dim by dim, all bytes that leave an NPU. `backend`: the
    engine's."""
    packets = backend == "packets" and (network.packets.spray or network.packets.header > 0)
    if backend not in COUNTED or packets:
        raise UnsupportedError(figure, "is not known where the network does not count bytes",
                               expected=f"network.backend {EXPECTED}, compat: none")


def refuse_uncounted(figure: str, design: Design, plan: Plan) -> None:
    """Raise UnsupportedError where bytes cost energy and collectives of a given time move bytes that are not
    counted."""
    given = any(each.lasts or any(phase.lasts for chunk in each.chunks for phase in chunk.phases)
                for each in plan.collectives)
    if given and any(float(dim.energy or 0) for dim in design.network.flat):
        raise UnsupportedError(figure, "is not known where collectives have given times: kernels and timers count no "
                               "bytes", expected="no collective.kernels, collective.model: simulated, or dims whose "
                               "energy is 0")


def npu_energy(design: Design, result: Result) -> tuple[float, float]:
    """(joules of all NPUs while they compute, at all other times) of a recorded run; what a section does not say counts
    as 0."""
    plan, outcome = result.plan, result.outcome
    kinds, types = npu_types(design)
    active, idle = (np.array([float(getattr(compute, name) or 0) for compute, _ in types])
                    for name in ("active_power", "idle_power"))
    busy = result.ranks.compute[outcome.row] / 1000      # ns of every rank
    kind = kinds[plan.npu_of]
    drawn = active[kind]
    for ranks, found in clocks_of(design, result.traces):
        drawn[ranks] = found.watts
    counts = np.bincount(kinds, minlength=len(types))
    total = float((counts * idle).sum()) * result.at_least_ps / 1000
    return float((busy * drawn).sum()) / 1e9, (total - float((busy * idle[kind]).sum())) / 1e9


def check_powers(design: Design) -> None:
    """Raises InputError that names every missing figure of energy."""
    needs_dims(design.network, "energy", written=True)
    missing = [path for name in KINDS for path in without(design, name)]
    missing += [f"network.dims[{place}].energy" for place, dim in enumerate(design.network.dims)
                if getattr(dim, "energy", None) is None]
    refuse_without("energy", missing, "such as 700 W, 80 W and 2 pJ/bit")


ENERGY = Figure(of_both=lambda design, result: energy(design, result).total, record=True, check=check_powers,
                label="energy", shown=lambda value: f"{plain_number(value)} J")
