"""Fit what the package ships of PyTorch's kernels on a device, from a CSV of measured ones. Needs catboost.

    python tools/fit_torch.py h100_sxm kernels.csv [--folds] [--constants]

The rows are one CUDA graph's (columns: kind, op, layout, precision, m, n, k, groups, batch, heads, kv_heads, queries,
keys, head_length, causal, bytes, us; kinds gemm, grouped_gemm, attention, attention_backward, stream). Products are
boosted as in `fit_kernels.py`; attention has few rows, so constants alone (`fused.CONSTANTS`), and a stream a curve.
`--folds` prints errors of fits without a fifth of the sites (n, k), `--constants` the constants that fit best.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fit_kernels import OUT, SEED, boost, forest, machine_of, stream
from msgspec.structs import replace
from torch_streams import Table, curves, descended, numbers, rowwise, told

from astrarium.compute.kernels import FAMILIES, DeviceModel, FamilyModel, Machine, write
from astrarium.compute.kernels.forest import Forest, fixed_point
from astrarium.compute.kernels.fused import BACKENDS, fused_ns
from astrarium.compute.kernels.fused import CONSTANTS as FUSED
from astrarium.compute.kernels.fused import Constants as Fused
from astrarium.compute.kernels.rows import Rows
from astrarium.compute.kernels.scaled import CONSTANTS as SCALED
from astrarium.compute.kernels.scaled import Constants as Scaled
from astrarium.compute.kernels.scaled import base_ns as scaled_ns
from astrarium.compute.kernels.tiles import CONSTANTS as TILES
from astrarium.compute.kernels.tiles import Constants as Tiles
from astrarium.compute.kernels.tiles import base_ns
from astrarium.validate.kernel_rows import identity
from astrarium.validate.rows import read_rows

TORCH = "torch/2.11"
SOURCE = "PyTorch 2.11 (CUDA 13.0, driver 580.159) on one H100 SXM, measured 2026-11-27"
NOTICE = "Fitted on kernels that Astrarium's authors timed in CUDA graphs."
LAYOUT = {"NT": 0.0, "dgrad": 1.0, "wgrad": 2.0}
TREES, RATE, FEW = 400, 0.1, 64


def rows_of(table: Table, family: str) -> Rows:
    """The rows of a class. The result of a weight's gradient has the weight's outputs along m; in a kernel's shape its
    inputs come first."""
    kinds = {"product": "gemm", "grouped": "grouped_gemm", "fused_backward": "attention_backward"}
    ops = ("decode",) if family == "fused_decode" else ("", "tensor", "row")
    some = [row for row in table if row["kind"] == kinds.get(family, "attention") and row["op"] in ops]
    us, = numbers(some, "us")
    if family in ("product", "grouped"):
        m, n, k, groups = numbers(some, "m", "n", "k", "groups")
        layout, batch = np.array([LAYOUT[row["layout"]] for row in some]), np.maximum(1, groups)
        turned = layout == LAYOUT["wgrad"]
        shape = [batch, np.where(turned, n, m) / batch, np.where(turned, m, n), k, layout]
        variant = [TORCH + ("/row" if row["op"] == "row" else "") for row in some]
    else:
        shape = numbers(some, "batch", "heads", "kv_heads", "queries", "keys", "head_length", "head_length", "causal")
        queries, causal = shape[3], shape.pop()
        shape += [np.where(causal > 0, (queries + 1) / (2 * queries), 1.0), np.full(len(some), 2.0)]
        variant = [f"{TORCH}/{row['layout']}" for row in some]
    return Rows(np.array(shape), np.array([row["precision"] for row in some]), np.array(variant), us * 1e3)


def fitted(rows: Rows, family: str, precision: str, machine: Machine, variants: tuple[str, ...]) -> Forest:
    """The forest of products."""
    option = np.searchsorted(np.array(variants), rows.variant).astype(np.float64)
    described = FAMILIES[family][1](rows.shape, precision, machine, option)
    x, y = fixed_point(described.features), np.log2(rows.ns / described.base)
    return forest(boost(x, y, np.ones(len(y)), TREES, "MAE", rate=RATE))


def seen(path: str) -> frozenset[int]:
    """Numbers of the rows of a fit; what ran `short` is in none."""
    return frozenset(identity(row.values) for row in read_rows(path) if row.text("op") != "short")


def nothing() -> Forest:
    """A forest that adds nothing."""
    return Forest(np.zeros((1, 6), np.uint8), np.full((1, 6), 32767, np.int16), np.zeros((1, 64), np.int16), 0.0)


def part_of(rows: Rows, family: str, precision: str, machine: Machine, error: dict[str, Any]) -> FamilyModel:
    """One part; attention's has its constants alone."""
    variants = tuple(np.unique(rows.variant).tolist())
    trees = nothing() if family.startswith("fused") else fitted(rows, family, precision, machine, variants)
    return FamilyModel(trees, variants, variants[0], len(rows.ns), error)


def off(rows: Rows, part: FamilyModel, family: str, precision: str, machine: Machine) -> Any:
    """predicted / measured - 1."""
    model, out = DeviceModel(machine, {f"{family}/{precision}": part}, "", ""), np.empty(len(rows.ns))
    for name in np.unique(rows.variant):
        at = rows.variant == name
        out[at] = model.fastest_ns(family, precision, rows.shape[:, at], (str(name),)) / rows.ns[at] - 1
    return out


def folds(rows: Rows, family: str, precision: str, machine: Machine) -> dict[str, Any]:
    """Errors of rows whose sites (n, k) a fit did not see, five fits."""
    _, site = np.unique(rows.shape[2:4], axis=1, return_inverse=True)
    fold, errors = np.random.default_rng(SEED).integers(0, 5, site.max() + 1)[site.ravel()], np.empty(len(rows.ns))
    for each in range(5):
        seen = fold != each
        part = part_of(rows.where(seen), family, precision, machine, {})
        if (~seen).any():
            errors[~seen] = off(rows.where(~seen), part, family, precision, machine)
    tokens = np.where(rows.shape[4] == LAYOUT["wgrad"], rows.shape[3], rows.shape[1] * rows.shape[0])
    found: dict[str, Any] = {"held_out_rows": len(errors)}
    for name, number in LAYOUT.items():
        at = (rows.shape[4] == number) & (tokens >= FEW)
        if at.any():
            found[name] = told(f"{family}/{precision} {name}, {FEW} tokens and more", errors[at])
            found["large"] = [max(one, other) for one, other in zip(found.get("large", (0, 0)), found[name])]
    found["all"] = told(f"{family}/{precision}, all", errors)
    return found


def constants(table: Table, machine: Machine) -> None:
    """Print the constants that fit best, of attention with the errors of rows, each by the constants of the others."""
    rows = rows_of(table, "product")
    plain = rows.variant == TORCH
    for precision, start in TILES.items():
        made = product_constants(rows.where(plain & (rows.precision == precision)), start, base_ns, machine)
        print(precision, Tiles(*made))
    print("a scale a row", Scaled(*product_constants(rows.where(~plain), SCALED, scaled_ns, machine)))
    for way, family in (("forward", "fused"), ("backward", "fused_backward")):
        rows = rows_of(table, family)
        for name in BACKENDS:
            some = rows.where(rows.variant == f"{TORCH}/{name}")
            print(way, name, attention_constants(some, way, name, machine))
            each = [np.arange(len(some.ns)) == row for row in range(len(some.ns))]
            ratios = [fused_ns(way, some.where(one).shape, "bf16", machine, attention_constants(
                some.where(~one), way, name, machine)) / some.ns[one] - 1 for one in each]
            told(f"{way} {name}, each row left out", np.concatenate(ratios))


def product_constants(rows: Rows, start: Any, base: Callable[..., Any], machine: Machine) -> list[float]:
    """The constants of a base that fit rows of one precision best."""
    precision, limits = str(rows.precision[0]), {"late": 1.0, "sharp": 12.0}

    def loss(point: Any) -> float:
        off = np.log(base(rows.shape, precision, machine, type(start)(*point)) / rows.ns)
        return float(np.minimum(np.abs(off), 0.35).mean())

    most = {start._fields.index(name): limit for name, limit in limits.items()}
    return [float(each) for each in descended(start, loss, most).round(3)]


def attention_constants(rows: Rows, way: str, name: str, machine: Machine) -> Fused:
    """The constants that fit rows of attention best."""
    *start, last = FUSED[way, name]

    def loss(point: Any) -> float:
        off = np.log(fused_ns(way, rows.shape, "bf16", machine, Fused(*point, last)) / rows.ns)
        return float(np.minimum(np.abs(off), 0.5).mean() + 0.02 * (off**2).mean())

    return Fused(*descended(start, loss, {6: 1.0}).round(3).tolist(), last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device")
    parser.add_argument("rows")
    parser.add_argument("--folds", action="store_true")
    parser.add_argument("--constants", action="store_true")
    given = parser.parse_args()
    with Path(given.rows).open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    machine = replace(machine_of(given.device), stream=stream(given.device))
    if given.constants:
        constants(table, machine)
        return
    parts, start = {}, time.process_time()
    for family in ("product", "grouped", "fused", "fused_backward", "fused_decode"):
        rows = rows_of(table, family)
        for precision in np.unique(rows.precision).tolist():
            some = rows.where(rows.precision == precision)
            products = not family.startswith("fused")
            error = folds(some, family, precision, machine) if given.folds and products else {}
            part = part_of(some, family, precision, machine, error)
            if not products:
                for name in part.variants:
                    at = some.variant == name
                    told(f"{family}/{precision} {name}", off(some.where(at), part, family, precision, machine))
            parts[f"{family}/{precision}"] = part
    model = DeviceModel(machine, parts, SOURCE, NOTICE, streams=curves(table, machine),
                        rowwise=rowwise(table), seen=seen(given.rows))
    path = OUT / "torch" / f"{given.device}.npz"
    path.parent.mkdir(exist_ok=True)
    write(model, path)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB, {time.process_time() - start:.0f} CPU s")


if __name__ == "__main__":
    main()
