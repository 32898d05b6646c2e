"""Measured steps of PyTorch on one GPU beside what is predicted, with and without each of clock, host and rows of
PyTorch: what each is worth; mean clocks of the steps; with KERNELS.csv the power of the chip, fitted on products.

usage: pytorch_steps.py [STEPS.json [KERNELS.csv]] [--stack NAME] [--set path=value]
(JSON as `astrarium validate` reads it; kernels with columns op, m, n, k, us, clock: rows whose op is `sustained`)
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from astrarium.compute.kernels.power import Chip, Clocked, Load, chip_of, clocked, effective
from astrarium.compute.measured import Measured
from astrarium.compute.timed import load_of
from astrarium.config import assignments, replace_all
from astrarium.design import Design
from astrarium.engine.plugins import ComputeNodes
from astrarium.lower.compute_nodes import compute_nodes
from astrarium.simulate import simulate
from astrarium.validate.designs import candidates
from astrarium.validate.rows import read_rows, with_stack
from astrarium.vocab import Kernel, NodeKind

F64 = npt.NDArray[np.float64]
WITHOUT: Mapping[str, Mapping[str, object]] = {
    "all": {}, "clock off": {"compute.clock": 1.0}, "host off": {"workload.software.host_launch": "0 ns"},
    "both off": {"compute.clock": 1.0, "workload.software.host_launch": "0 ns"},
    "torch off": {"compute.framework": None}}


class Case(Struct, frozen=True):
    """A run that was measured: what it loads the chip with, how long it took (ns), at which mean clock (MHz)."""

    units: int
    load: Load
    took: float
    mhz: float

    def found(self, chip: Chip) -> Clocked:
        """The clock that a chip's constants leave, the time at the measured clock being the measured one."""
        own = self.load.busy(effective(min(1.0, self.mhz / 1000 / chip.highest)))
        busy = lambda clock: self.took * self.load.busy(clock) / own       # noqa: E731
        return clocked(chip, self.units, chip.limit, replace(self.load, busy=busy, least=0.0))


def summed(errors: Sequence[float]) -> str:
    """Median, 90th percentile, mean of errors, per cent."""
    found = np.array(errors) * 100
    return f"{np.median(abs(found)):5.1f} {np.percentile(abs(found), 90):5.1f} {found.mean():+5.1f}"


def nodes_of(design: Design) -> ComputeNodes:
    """The compute nodes of a design of one rank."""
    trace = simulate(design, record=True).traces.classes[0]      # type: ignore[union-attr]
    return compute_nodes(trace, np.flatnonzero(trace.type == NodeKind.COMP), design.memory, 0)


def steps(path: str, stack: str | None, changes: Mapping[str, object]) -> list[Case]:
    """Prints the errors of every step with and without each part; the steps as cases."""
    with open(path) as file:
        measured = json.load(file)
    cases, errors = list[Case](), {name: list[float]() for name in WITHOUT}
    print(f"{'step':<42}{'ms':>7}  " + "".join(f"{name:>10}" for name in WITHOUT) + "   MHz, predicted   W")
    for row, step in zip(with_stack(read_rows(path), stack), measured, strict=True):
        design = replace_all(candidates(row)[0].design, {"compute.clock": "sustained", **changes})
        took = float(row.number("step_s") or 0) * 1e9
        line = f"{row.case:<42}{took / 1e6:7.1f}  "
        for name, off in WITHOUT.items():
            errors[name].append(simulate(replace_all(design, off), record=False).makespan_ps / 1e3 / took - 1)
            line += f"{errors[name][-1]:+10.1%}"
        case = case_of(design.compute, nodes_of(design), took, step["clock"][0])
        own = clocked(chip_of("h100_sxm"), case.units, 700.0, case.load)
        mhz = own.clock * 1000
        print(f"{line}  {case.mhz:5.0f} {mhz:5.0f} {mhz / case.mhz - 1:+6.1%} {own.watts:4.0f}")
        cases.append(case)
    print(f"{'median, p90, bias (%)':<42}" + "".join(f"\n  {name:<40}{summed(errors[name])}" for name in WITHOUT))
    return cases


def case_of(compute: Any, nodes: ComputeNodes, took: float, mhz: float) -> Case:
    """A measured run of nodes."""
    device, predict = compute.timed_by(nodes)
    return Case(device.machine.units, load_of(compute, nodes, device, predict), took, mhz)


def products(path: str) -> list[Case]:
    """Prints times of sustained products beside the predicted ones; the products as cases."""
    compute, cases = Measured(device="h100_sxm", clock="sustained"), []
    with open(path) as file:
        rows = [row for row in csv.DictReader(file) if row["op"] == "sustained"]
    for row in rows:
        m, n, k = (int(row[name]) for name in "mnk")
        kernel = Kernel("gemm", "bf16", (1, m, n, k), 1.0, 2.0 * m * n * k, 2 * (m * n + n * k + m * k))
        nodes = ComputeNodes(np.ones(1), np.ones(1, np.int64), np.zeros(1, np.int64), [""], np.zeros(1, np.bool_), 0,
                             np.zeros(1, np.int32), (kernel,))
        found, ns = compute.clocked(nodes), float(compute.durations(nodes)[0]) / 1e3
        assert found is not None
        took, mhz = float(row["us"]) * 1e3, float(row["clock"])
        print(f"{m:>6} x {n} x {k}: {took / 1e3:7.1f} us, predicted {ns / took - 1:+6.1%}; {mhz:.0f} MHz, predicted "
              f"{found.clock * 1000 / mhz - 1:+6.1%}")
        cases.append(case_of(compute, nodes, took, mhz))
    return cases


def fitted(cases: Sequence[Case], chip: Chip) -> Chip:
    """The chip with `flop` and `active` by least squares of the clocks' relative errors."""
    from scipy.optimize import least_squares

    def made(values: F64) -> Chip:
        return replace(chip, flop=float(values[0]) * 1e-3, active=float(values[1]))

    def errors(values: F64) -> list[float]:
        return [each.found(made(values)).clock * 1000 / each.mhz - 1 for each in cases]

    found = least_squares(errors, [chip.flop * 1e3, chip.active], x_scale=[1.0, 0.3], diff_step=1e-3,
                          bounds=([0.1, 0.0], [10.0, 5.0]))
    return made(found.x)


def main() -> None:
    """Print it all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="?")
    parser.add_argument("kernels", nargs="?")
    parser.add_argument("--stack", help="a software stack, or none")
    parser.add_argument("--set", metavar="path=value", action="append", default=[], help="a change to every design")
    options = parser.parse_args()
    if options.steps is None:
        print("no rows: they are not in the checkout")
        return
    cases = steps(options.steps, options.stack, assignments(options.set))
    chip = chip_of("h100_sxm")
    clocks("clocks of steps at measured times", cases, chip)
    if options.kernels:
        seen = products(options.kernels)
        clocks("clocks of products", seen, chip)
        made = fitted(seen, chip)
        print(f"fitted on products: flop {made.flop * 1e3:.3f} pJ, active {made.active:.3f} W")
        clocks("clocks of steps at measured times by these", cases, made)


def clocks(what: str, cases: Sequence[Case], chip: Chip) -> None:
    """Prints the errors of clocks."""
    said = [each.found(chip).clock * 1000 / each.mhz - 1 for each in cases]
    print(f"{what}, {len(cases)} cases: {summed(said)}, worst {max(said, key=abs):+.1%}")


if __name__ == "__main__":
    main()
