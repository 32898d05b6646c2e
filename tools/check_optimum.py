#!/usr/bin/env python3
"""What a certificate of `astrarium report --certificate` proves, checked without Astrarium's search.

usage: check_optimum.py FILE [--simulate N]        (default 100 of the designs in it, drawn with seed 0; -1: all)

1. Every design of the space is looked at: all combinations of the knobs, kept where the constraints hold.
2. Its objective cannot be below its floor. For one collective of all N NPUs with payload S (native rules: no NPU sends
   more than its bandwidth), blocks of m NPUs inside the first d dims, B = N / m of them, the NPUs of a block send on
   average at least 2 (B - 1) / B S / m bytes (all_reduce) over the dims from d on; the cost is LIBRA's table.
3. The least floor among designs that are not in the certificate bounds the optimum from below.
4. The best design and some others are simulated again: the values have to be those of the certificate.

For generated workloads the floor of the makespan is that of optimum_work.py, workload by workload (optimum_runs.py);
designs whose floor is too high without collectives are left out by the million.

Only the simulator is trusted, and these files. They know all_reduce, reduce_scatter and all_gather on rings (both
ways), switches and fully connected dims, objectives over makespan, network_cost, network_bandwidth and knobs, and
requirements on these and on peak_memory (they raise no floor: designs that fail are in the list of what was simulated).
"""

from __future__ import annotations

import argparse
import ast
import gzip
import itertools
import json
import math
import random
import re
import sys
from typing import Any

import numpy as np
from optimum_runs import Runs, floor_of, least_open_run

import astrarium as ar
from astrarium.config import decode
from astrarium.units import Bandwidth, Bytes, FlopRate, Time

SENT = {"all_reduce": 2.0, "reduce_scatter": 1.0, "all_gather": 1.0}
TIERS = {1: "B", 2: "BD", 3: "BCD", 4: "ABCD"}
LINK = {"A": 2.0, "B": 4.0, "C": 4.0, "D": 7.8}
SWITCH = {"B": 13.0, "C": 13.0, "D": 18.0 + 31.6}      # the outermost tier has NICs
BLOCK = 200_000
SAFE = 1 - 1e-9      # floors are floats, makespans are whole picoseconds
OPERATORS: dict[type, Any] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide, ast.Mod: np.mod, ast.LtE: np.less_equal, ast.Lt: np.less,
    ast.GtE: np.greater_equal, ast.Gt: np.greater,
    ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b, ast.And: np.logical_and, ast.Or: np.logical_or}
CALLS = {"choose": lambda values: np.where(*values), "product": math.prod, "sum": sum,
         "max": lambda values: np.maximum.reduce(np.broadcast_arrays(*values)),
         "min": lambda values: np.minimum.reduce(np.broadcast_arrays(*values))}


class Design:
    """The space's designs as columns: a knob's values where it is chosen, else the base's."""

    def __init__(self, certificate: dict[str, Any]):
        self.base = decode(ar.Design, certificate["space"]["base"])
        self.knob_of = {path: index for index, knob in enumerate(certificate["knobs"]) for path in knob["paths"]}
        self.dims = len(self.base.network.dims)
        technologies = [path for path in self.knob_of if re.fullmatch(r".*\.(link|links|technology|pieces)", path)]
        technologies += [f"network.dims[{d}].link" for d, dim in enumerate(self.base.network.dims) if dim.link]
        if technologies:
            raise SystemExit(f"{technologies[0]}: this checker knows no technologies")

    def value(self, path: str, columns: list[Any]) -> Any:
        """The column of one path."""
        if path == "network.npus":
            return math.prod(self.value(f"network.dims[{d}].npus", columns) for d in range(self.dims))
        if path in self.knob_of:
            return columns[self.knob_of[path]]
        found = ar.get(self.base, path)
        return found if isinstance(found, str) or found is None else float(found)

    def evaluated(self, text: str, columns: list[Any], figures: dict[str, Any]) -> Any:
        """An expression on columns; [*] is written out."""
        text = re.sub(r"([\w.]+)\[\*\]([\w.]*)", lambda match: ", ".join(
            f"{match[1]}[{d}]{match[2]}" for d in range(self.dims)), text)
        text = re.sub(r"\bif\(", "choose(", text.strip())
        return self._walk(ast.parse(text, mode="eval").body, columns, figures)

    def _walk(self, node: ast.AST, columns: list[Any], figures: dict[str, Any]) -> Any:
        def inner(part: ast.AST) -> Any:
            return self._walk(part, columns, figures)

        if isinstance(node, ast.Constant):
            return quantity(node.value) if isinstance(node.value, str) else node.value
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](inner(node.left), inner(node.right))
        if isinstance(node, ast.BoolOp):
            found = [inner(part) for part in node.values]
            return OPERATORS[type(node.op)].reduce(np.broadcast_arrays(*found))
        if isinstance(node, ast.Compare):
            sides = [inner(node.left), *map(inner, node.comparators)]
            return np.logical_and.reduce(np.broadcast_arrays(*(
                OPERATORS[type(op)](a, b) for op, a, b in zip(node.ops, sides, sides[1:]))))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            return CALLS[node.func.id]([inner(part) for part in node.args])
        path = ast.unparse(node)
        if path in figures:
            return figures[path]
        try:
            return self.value(path, columns)
        except ar.InputError:
            raise SystemExit(f"{path}: this checker knows no such figure, and designs have no such field") from None

    def per_npu(self, d: int, columns: list[Any]) -> Any:
        """Byte/ns of an NPU in a dim, and of one link."""
        path, n = f"network.dims[{d}]", self.value(f"network.dims[{d}].npus", columns)
        shape = self.value(f"{path}.shape", columns)
        legal = (shape == "ring") | (shape == "switch") | (shape == "fully_connected")
        if not np.all(legal):
            raise SystemExit(f"{path}.shape: this checker knows ring, switch and fully_connected")
        links = np.where(shape == "ring", 2, np.where(shape == "switch", 1, np.maximum(1, n - 1)))
        total = self.value(f"{path}.bandwidth_per_npu", columns)
        if total is None:
            total = self.value(f"{path}.bandwidth", columns) * links
        return total, total / links

    def floors(self, columns: list[Any]) -> dict[str, Any]:
        """Floors of the figures, as columns; of one collective the makespan's too."""
        npus = self.value("network.npus", columns)
        rates = [self.per_npu(d, columns) for d in range(self.dims)]
        cost = sum(self.price(d, columns) * link * npus for d, (_, link) in enumerate(rates))
        found = {"network_cost": cost, "network_bandwidth": sum(total for total, _ in rates)}
        if isinstance(self.base.workload, ar.SingleCollective):
            found["makespan"] = self.collective(columns, npus, rates)
        return found

    def collective(self, columns: list[Any], npus: Any, rates: list[Any]) -> Any:
        """The floor of the makespan of one collective, ns."""
        work = self.base.workload
        if work.op not in SENT or self.base.compat != "none":
            raise SystemExit("this checker knows all_reduce, reduce_scatter and all_gather of all NPUs, native rules")
        time, inside = np.zeros(1), np.ones(1)
        for d in range(self.dims):
            blocks = npus / inside
            sent = SENT[work.op] * (blocks - 1) / blocks * float(work.payload) / inside
            time = np.maximum(time, sent / sum(total for total, _ in rates[d:]))
            inside = inside * self.value(f"network.dims[{d}].npus", columns)
        return time

    def price(self, d: int, columns: list[Any]) -> Any:
        """Dollars per NPU and GB/s of one link."""
        tier, n = TIERS[self.dims][d], self.value(f"network.dims[{d}].npus", columns)
        shape = self.value(f"network.dims[{d}].shape", columns)
        switch = 2 * LINK[tier] + SWITCH[tier] if tier in SWITCH else math.inf      # no such switch: refused
        return np.where(shape == "ring", 2 * LINK[tier], np.where(shape == "switch", switch, LINK[tier] * (n - 1)))


def quantity(text: str) -> Any:
    """Text such as '80 GiB' in base units; other text as it is."""
    for kind in (Bytes, Time, Bandwidth, FlopRate):
        try:
            return float(kind(text))
        except ar.InputError:
            continue
    return text


def numbers_of(choice: Any) -> list[Any]:
    """The values of a choice of the space, in base units."""
    if isinstance(choice, list) or "values" in choice:
        return [quantity(value) if isinstance(value, str) else value
                for value in (choice if isinstance(choice, list) else choice["values"])]
    low, high, step = (quantity(each) if isinstance(each, str) else each
                       for each in (choice["from"], choice["to"], choice.get("step", 1)))
    found, highest = [low], high * (1 + 1e-12)
    if "factor" in choice:
        while found[-1] * choice["factor"] <= highest:
            found.append(found[-1] * choice["factor"])
        return found
    return [low + index * step for index in range(int((highest - low) / step) + 1)]


def check_knobs(certificate: dict[str, Any], dims: int) -> None:
    """The knobs are the choices of the space, each with its values; [*] stands for the dims of the network."""
    left: dict[frozenset[str], list[Any]] = {}
    for path, choice in certificate["space"]["choices"].items():
        paths = [path.replace("[*]", f"[{d}]") for d in range(dims)] if "[*]" in path else [path]
        together = [paths] if isinstance(choice, dict) and choice.get("shared") else [[each] for each in paths]
        left |= {frozenset(each): numbers_of(choice) for each in together}
    for knob in certificate["knobs"]:
        wanted = left.pop(frozenset(knob["paths"]), None)
        for found in (knob["numbers"], numbers_of(knob["values"])):
            if wanted is None or len(found) != len(wanted) or not all(map(alike, found, wanted)):
                raise SystemExit(f"knob {knob['name']} is not that of the space")
    if left:
        raise SystemExit(f"{min(map(min, left))} of the space is no knob")


def alike(one: Any, other: Any) -> bool:
    """Equal, as numbers up to rounding."""
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return type(one) is type(other) is bool or math.isclose(one, other, rel_tol=1e-12)
    return bool(one == other)


def check_rows(certificate: dict[str, Any], design: Design) -> None:
    """Designs that were simulated are of the space, each once, and the best is the best of them."""
    knobs, rows, best = certificate["knobs"], certificate["evaluated"], certificate["best"]
    for row in rows:
        if len(row) != len(knobs) + 1 or not all(type(index) is int and 0 <= index < len(knob["numbers"])
                                                 for index, knob in zip(row, knobs)):
            raise SystemExit(f"{row} is no design of the space")
    if len({tuple(row[:-1]) for row in rows}) != len(rows):
        raise SystemExit("a design is there twice")
    if min((row[-1] for row in rows if row[-1] is not None), default=None) != best[-1] or best not in rows:
        raise SystemExit("the best design is not the best of those simulated")
    columns = [np.array(knob["numbers"])[[row[index] for row in rows]] for index, knob in enumerate(knobs)]
    for text in certificate["space"].get("constraints", []):
        good = np.broadcast_to(design.evaluated(text, columns, {}), (len(rows),))
        if not good.all():
            raise SystemExit(f"design {rows[int(np.argmin(good))][:-1]} does not meet {text}")


def used(texts: list[str], design: Design) -> set[int]:
    """Knobs that the floors, the objective or a constraint can depend on."""
    found = {index for path, index in design.knob_of.items() if path.startswith("network.dims")}
    for text in texts:
        for path, index in design.knob_of.items():
            if path in text or re.sub(r"\[\d+\]", "[*]", path) in text:
                found.add(index)
    return found


def least_open_floor(certificate: dict[str, Any], design: Design, best: float) -> tuple[float, int, int]:
    """(least floor of a design that was not simulated, at most `best`; designs looked at; designs below `best`)."""
    knobs, objective = certificate["knobs"], certificate["objective"]
    where = certificate["space"].get("constraints", [])
    matters = sorted(used([objective, *where], design))
    rest = [index for index in range(len(knobs)) if index not in matters]
    done: dict[tuple[int, ...], int] = {}
    for row in certificate["evaluated"]:
        key = tuple(row[index] for index in matters)
        done[key] = done.get(key, 0) + 1
    each = math.prod(len(knobs[index]["values"]) for index in rest)
    split = len(matters)
    while split and math.prod(len(knobs[index]["values"]) for index in matters[split - 1:]) <= BLOCK:
        split -= 1
    grids = np.indices([len(knobs[index]["values"]) for index in matters[split:]]).reshape(len(matters) - split, -1)
    least, looked, below = best, 0, 0
    for outer in itertools.product(*(range(len(knobs[index]["values"])) for index in matters[:split])):
        columns: list[Any] = [None] * len(knobs)
        for index, place in zip(matters[:split], outer):
            columns[index] = np.array([knobs[index]["numbers"][place]])
        for index, places in zip(matters[split:], grids):
            columns[index] = np.array(knobs[index]["numbers"])[places]
        good = np.broadcast_to(True, grids.shape[1:])
        for text in where:
            good = good & design.evaluated(text, columns, {})
        if not good.any():
            continue
        floor = np.broadcast_to(design.evaluated(objective, columns, design.floors(columns)), good.shape) * SAFE
        looked += int(good.sum()) * each
        for at in np.nonzero(good & ~(floor >= best))[0]:
            below += each
            if done.get((*outer, *(int(places[at]) for places in grids)), 0) < each:
                least = min(least, float(floor[at]))
    return least, looked, below


def floor_here(certificate: dict[str, Any], design: Design, runs: Runs | None, row: list[Any]) -> float:
    """The floor of one design."""
    columns: list[Any] = [np.array([knob["numbers"][index]]) for knob, index in zip(certificate["knobs"], row)]
    if runs is not None:
        return floor_of(runs, columns)
    return float(np.ravel(design.evaluated(certificate["objective"], columns, design.floors(columns)))[0]) * SAFE


def simulated(certificate: dict[str, Any], design: Design, row: list[Any]) -> float | None:
    """The objective of one design by simulation; None where it is refused, or does not meet a requirement."""
    knobs = certificate["knobs"]
    changes = {path: knob["values"][index] for knob, index in zip(knobs, row) for path in knob["paths"]}
    columns: list[Any] = [np.array([knob["numbers"][index]]) for knob, index in zip(knobs, row)]
    for pattern, text in certificate["space"].get("derived", {}).items():
        changes |= {path: plain(value) for path, value in derived(pattern, text, design, columns).items()}
    try:
        made = ar.replace_all(design.base, changes)
        figures = design.floors(columns)
        memory = any("peak_memory" in text for text in certificate["requirements"])
        result = ar.simulate(made, record=memory)
        figures["makespan"] = result.makespan_ps / 1000
        if memory:
            figures["peak_memory"] = math.inf if result.peak_memory is None else float(result.peak_memory)
    except ar.InputError:
        return None
    if not all(np.all(design.evaluated(text, columns, figures)) for text in certificate["requirements"]):
        return None
    found = float(np.ravel(design.evaluated(certificate["objective"], columns, figures))[0])
    return found if math.isfinite(found) else None


def derived(pattern: str, text: str, design: Design, columns: list[Any]) -> dict[str, Any]:
    """Columns of the derived paths; [*] is one dim after the other."""
    if "[*]" not in pattern:
        return {pattern: design.evaluated(text, columns, {})}
    return {pattern.replace("[*]", f"[{d}]"): design.evaluated(text.replace("[*]", f"[{d}]"), columns, {})
            for d in range(design.dims)}


def plain(column: Any) -> Any:
    """The value of a column of one row, as designs take it."""
    value = np.ravel(column)[0].item() if isinstance(column, (np.ndarray, np.generic)) else column
    return int(value) if isinstance(value, float) and value.is_integer() else value


def main() -> int:
    """Print what is proved; 1 where the certificate is wrong."""
    parser = argparse.ArgumentParser(description="What a certificate of an optimum proves.")
    parser.add_argument("file")
    parser.add_argument("--simulate", type=int, default=100, help="designs to simulate again; -1: all")
    options = parser.parse_args()
    with (gzip.open if options.file.endswith(".gz") else open)(options.file, "rb") as stream:
        try:
            certificate = json.loads(stream.read())
        except ValueError as error:
            raise SystemExit(f"{options.file} is no JSON ({error})") from None
    if not isinstance(certificate, dict) or certificate.get("format") != "astrarium optimum 1":
        raise SystemExit("this checker knows certificates of format 1")
    if any("when" in choice for choice in certificate["space"]["choices"].values() if isinstance(choice, dict)):
        raise SystemExit("this checker knows no conditional knobs")
    if certificate["space"].get("variables"):
        raise SystemExit("this checker knows no variables")
    design, rows = Design(certificate), certificate["evaluated"]
    check_knobs(certificate, design.dims)
    check_rows(certificate, design)
    runs = None if isinstance(design.base.workload, ar.SingleCollective) else Runs(certificate, design, derived)
    best = certificate["best"][-1]
    picked = rows if options.simulate < 0 else random.Random(0).sample(rows, min(len(rows), options.simulate))
    for row in [certificate["best"], *picked]:
        again = simulated(certificate, design, row)
        same = again == row[-1] or (None not in (again, row[-1]) and math.isclose(again, row[-1], rel_tol=1e-12))
        if not same:
            raise SystemExit(f"design {row[:-1]} is worth {again}, not {row[-1]}")
        if row[-1] is not None and (floor := floor_here(certificate, design, runs, row)) > row[-1]:
            raise SystemExit(f"design {row[:-1]} is worth {row[-1]}, below its floor of {floor}")
    bound, looked, below = least_open_floor(certificate, design, best) if runs is None else least_open_run(runs, best)
    print(f"{looked:,} feasible designs, {below:,} with a lower bound below {best!r}, {len(rows):,} simulated, "
          f"{len(picked) + 1:,} of them again")
    print("optimal: no design of the space is better" if bound >= best else
          f"no design is below {bound!r}, {(best - bound) / best:.4%} under the best")
    return 0


if __name__ == "__main__":
    sys.exit(main())
