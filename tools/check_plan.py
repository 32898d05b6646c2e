#!/usr/bin/env python3
"""What a certificate of `astrarium plan --certificate` proves, checked without Astrarium's planner.

usage: check_plan.py FILE [--simulate N] [--again N]
    --simulate  layouts outside the certificate to simulate at most (default 10,000), the lowest floors first
    --again     layouts of the certificate to simulate again, drawn with seed 0 (default 100; -1: all)

1. Every layout is looked at: all divisors of the NPUs, of the batch, of the experts, under the rules that this file
   states; rules that the certificate lifts do not count.
2. A layout that the workload refuses, or that needs more memory than the certificate's room, is out.
3. A layout of which the compute and the chains of nodes alone (optimum_work.py) take as long as the best one, is out.
4. The rest is simulated. None may be better than the best; what is left out bounds the best from below (the proof gap).
5. The layouts of the certificate are simulated again: memory and values have to be those.

The proof is about the model. The certificate's interval, which is printed, says how far measured runs lay from it.
Only the simulator, the footprint and the figures of cost are trusted, and these files.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import math
import random
import sys
from collections.abc import Iterator
from typing import Any

from optimum_work import Run

import astrarium as ar
from astrarium.config import decode
from astrarium.cost import FIGURES
from astrarium.workload.footprint import footprints
from astrarium.workload.training import recipe_of

SAFE = 1 - 1e-9      # floors are floats, makespans are whole picoseconds
RULES = ("host", "cp", "micro_batch", "zero", "stages")


class Wrong(SystemExit):
    """A certificate that is not true."""


def divisors(number: int, most: int | None = None) -> list[int]:
    """Of a number, up to `most`."""
    return [each for each in range(1, min(number, most or number) + 1) if number % each == 0]


class Machine:
    """NPUs of one kind, and the layouts of the job on them. `base`: the design of one of its layouts."""

    def __init__(self, row: dict[str, Any], certificate: dict[str, Any]):
        self.row, self.npus, self.room = row, row["npus"], row["room"]
        self.parts, self.fixed, self.lifted = certificate["parts"], certificate["fixed"], set(certificate["lifted"])
        self.figure = FIGURES[certificate["objective"]]
        if row["design"] is None:
            raise Wrong(f"{row['device']}: no layout of it was looked at, so that there is no design to check")
        if not self.lifted <= set(RULES):
            raise Wrong(f"{sorted(self.lifted - set(RULES))}: this checker knows no such rules")
        self.base = decode(ar.Design, row["design"])
        work = self.base.workload
        self.batch, self.layers = work.global_batch, getattr(work.model, "layers", 1)
        self.seq = int(work.seq or getattr(work.model, "seq", None) or 1)
        self.experts = work.model.ep_units() or 0
        if self.base.network.npus != self.npus or self.base.network.flat[0].npus != row["host"]:
            raise Wrong(f"{row['device']}: the design has {self.base.network.npus} NPUs in hosts of "
                        f"{self.base.network.flat[0].npus}, the certificate says {self.npus} and {row['host']}")
        if self.base.memory.capacity is not None and self.room > float(self.base.memory.capacity):
            raise Wrong(f"{row['device']}: the room is larger than the memory")

    def layouts(self) -> Iterator[dict[str, Any]]:
        """Every layout under the rules, legal or not for the workload."""
        experts = [each for each in divisors(self.experts) if self.npus % each == 0] if self.experts else [1]
        choices: dict[str, list[Any]] = {
            "tp": divisors(self.npus), "cp": divisors(self.npus, self.seq), "pp": divisors(self.npus, self.layers),
            "dp": divisors(self.npus), "ep": experts, "zero": [0, 1, 2, 3], "micro_batch": divisors(self.batch),
            "recompute": ["none", "selective", "full"],
            "virtual_stages": list(range(1, max(1, self.layers // 2) + 1)), "tp_sequence": [False, True]}
        schedules = self.fixed.get("schedule")
        choices |= {name: values for name, values in self.fixed.items() if name != "schedule"}
        shape = ("tp", "cp", "pp", "dp")
        for sizes in itertools.product(*(choices[name] for name in shape)):
            if math.prod(sizes) != self.npus:
                continue
            for rest in itertools.product(*(values for name, values in choices.items() if name not in shape)):
                found = dict(zip(shape, sizes)) | dict(zip([name for name in choices if name not in shape], rest))
                if self.allowed(found):
                    usual = "1f1b" if found["virtual_stages"] == 1 else "interleaved"
                    yield from ({**found, "schedule": each} for each in schedules or [usual])

    def allowed(self, found: dict[str, Any]) -> bool:
        """Whether a layout keeps the rules."""
        parts, layers = found["pp"] * found["virtual_stages"], self.layers
        plain = (parts <= max(1, layers), found["tp"] > 1 or not found["tp_sequence"],
                 found["dp"] * found["cp"] > 1 or found["zero"] == 0,
                 found["dp"] * found["micro_batch"] <= self.batch)
        rules = {
            "host": found["tp"] <= self.row["host"],
            "cp": found["cp"] == 1 or found["cp"] <= min(16, self.seq // 1024),
            "micro_batch": found["micro_batch"] <= max(8, 32768 // self.seq),
            "zero": found["pp"] == 1 or found["zero"] <= 1,
            "stages": found["pp"] == 1 or layers % parts == 0 or ((layers + 2) % parts == 0
                                                                 and (layers + 2) // parts > 1)
            or (layers % 2 == 1 and found["virtual_stages"] <= 2)}     # no power of two divides an odd number
        return all(plain) and all(rules[name] for name in RULES if name not in self.lifted)

    def design(self, found: dict[str, Any]) -> Any:
        """The design of a layout; None where the workload refuses it."""
        parts, layers, stages = found["pp"] * found["virtual_stages"], self.layers, None
        if layers % parts and (layers + 2) % parts == 0 and (layers + 2) // parts > 1 \
                and self.base.workload.stage_balance != "cost":      # embedding and head count as a layer each
            each = (layers + 2) // parts
            stages = [each - 1, *[each] * (parts - 2), each - 1]
        try:
            return ar.replace_all(self.base, {f"workload.{name}": value for name, value in found.items()}
                                  | {"workload.stage_layers": stages})
        except ar.InputError:
            return None

    def memory(self, design: Any) -> float:
        """Bytes of the fullest rank; infinite where the sizes do not divide."""
        try:
            return max(float(each.total) for each in footprints(recipe_of(design.workload)))
        except ar.InputError:
            return math.inf

    def floor(self, design: Any) -> float:
        """What the objective is at least; 0 where it is not the makespan."""
        if self.figure is not FIGURES["makespan"]:
            return 0.0
        try:
            return Run(design).least() * SAFE
        except ar.InputError:
            return math.inf

    def value(self, design: Any) -> float:
        """The objective by simulation; infinite where the design is refused."""
        try:
            if self.figure is FIGURES["makespan"]:
                return ar.simulate(design).at_least_ps / 1000
            return float(self.figure.measure(design, ar.simulate(design, record=True)))
        except ar.InputError:
            return math.inf


def named(row: list[Any], parts: list[str]) -> tuple[int, dict[str, Any], float, Any]:
    """(machine, layout, memory, value) of a row."""
    place, *rest = row
    found = dict(zip(parts, rest[:len(parts)]))
    found["schedule"] = found["schedule"] or ("1f1b" if found["virtual_stages"] == 1 else "interleaved")
    return place, found, rest[-2], rest[-1]


def key_of(place: int, layout: dict[str, Any]) -> tuple[Any, ...]:
    """A key of a layout on a machine."""
    return (place, *(layout[name] for name in sorted(layout)))


def again(machines: list[Machine], row: list[Any], parts: list[str]) -> None:
    """Simulate a row of the certificate again. Raises Wrong if it is another value."""
    place, layout, memory, value = named(row, parts)
    machine = machines[place]
    design = machine.design(layout)
    held = math.inf if design is None else machine.memory(design)
    said = f"{machine.row['device']} x {machine.npus}: {layout}"
    if not machine.allowed(layout) or design is None:
        raise Wrong(f"{said} is no layout of the space")
    if memory is not None and not math.isclose(held, memory, rel_tol=1e-12):
        raise Wrong(f"{said} needs {held!r} bytes, not {memory!r}")
    if value is None:       # it does not fit, or was not finished: then it is simulated here
        return
    found = machine.value(design)
    if held > machine.room or not math.isclose(found, value, rel_tol=1e-12):
        raise Wrong(f"{said} is worth {found!r} with {held!r} of {machine.room!r} bytes, not {value!r}")


def open_layouts(machines: list[Machine], done: set[tuple[Any, ...]], best: float
                 ) -> tuple[list[tuple[float, int, dict[str, Any]]], dict[str, int]]:
    """(floor, machine, layout) of those that may be better than the best, lowest floor first; and how many are what."""
    left: list[tuple[float, int, dict[str, Any]]] = []
    counts = dict.fromkeys(("layouts", "do not fit", "have a floor that is no better"), 0)
    for place, machine in enumerate(machines):
        for layout in machine.layouts():
            design = machine.design(layout)
            held = math.inf if design is None else machine.memory(design)
            if math.isinf(held):
                continue
            counts["layouts"] += 1
            if held > machine.room:
                counts["do not fit"] += 1
            elif key_of(place, layout) not in done:
                floor = machine.floor(design)
                if floor < best:
                    left.append((floor, place, layout))
                else:
                    counts["have a floor that is no better"] += 1
    return sorted(left, key=lambda each: each[:2]), counts


def checked(certificate: dict[str, Any], simulate: int, samples: int) -> tuple[float, float, dict[str, int]]:
    """(value of the best layout, what no layout is below, counts). Raises Wrong for a certificate that is not true."""
    if certificate.get("format") != "astrarium plan 1":
        raise Wrong("this checker knows certificates of plans of format 1")
    parts, rows = certificate["parts"], certificate["evaluated"]
    machines = [Machine(row, certificate) for row in certificate["machines"]]
    best, claimed = certificate["best"][-1], certificate["bound"]
    if claimed > best:
        raise Wrong(f"the bound {claimed!r} is above the best value {best!r}")
    values = [row[-1] for row in rows if row[-1] is not None]
    if certificate["best"] not in rows or best * SAFE > min(values):      # equal to rounding
        raise Wrong("the best layout is not the best of those that were looked at")
    again(machines, certificate["best"], parts)
    for row in rows if samples < 0 else random.Random(0).sample(rows, min(len(rows), samples)):
        again(machines, row, parts)
    done = {key_of(place, layout) for place, layout, _, value in (named(row, parts) for row in rows)
            if value is not None}
    left, counts = open_layouts(machines, done, best)
    for _, place, layout in left[:simulate]:
        value = machines[place].value(machines[place].design(layout))
        if value < best * SAFE:
            raise Wrong(f"{machines[place].row['device']} x {machines[place].npus}: {layout} is worth {value!r}, "
                        f"better than {best!r}")
    counts["simulated here"] = min(len(left), simulate)
    bound = left[simulate][0] if len(left) > simulate else best
    return best, bound, counts


def main() -> int:
    """Print what is proved; 1 where the certificate is wrong."""
    parser = argparse.ArgumentParser(description="What a certificate of a plan proves.")
    parser.add_argument("file")
    parser.add_argument("--simulate", type=int, default=10_000, help="layouts to simulate at most")
    parser.add_argument("--again", type=int, default=100, help="layouts of the certificate to simulate again; -1: all")
    options = parser.parse_args()
    with (gzip.open if options.file.endswith(".gz") else open)(options.file, "rb") as stream:
        certificate = json.loads(stream.read())
    best, bound, counts = checked(certificate, options.simulate, options.again)
    print(", ".join(f"{count:,} {what}" for what, count in counts.items())
          + f", {len(certificate['evaluated']):,} in the certificate")
    for row in certificate["machines"]:
        print(f"{row['npus']:,} x {row['device']}, {row['room']:.6g} bytes of each for a layout")
    if certificate["fixed"]:
        print("among layouts with " + ", ".join(f"{name} {values}" for name, values in certificate["fixed"].items()))
    print(f"optimal in the model: no layout has a {certificate['objective']} below {best!r}" if bound >= best else
          f"no layout has a {certificate['objective']} below {bound!r}, {(best - bound) / best:.4%} under the best")
    interval = certificate["interval"]
    print("model error, not a part of the proof: " + ("unvalidated" if interval["low_ns"] is None else
          f"{interval['low_ns']:.6g} to {interval['high_ns']:.6g} ns of a step hold {interval['share']:.0%} of "
          f"{interval['rows']} unseen measured rows" + (" (extrapolated)" if interval["extrapolated"] else "")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
