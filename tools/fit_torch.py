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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fit_kernels import OUT, SEED, boost, forest, machine_of, stream
from msgspec.structs import replace

from astrarium.compute.kernels import FAMILIES, DeviceModel, Machine, Part, write
from astrarium.compute.kernels.forest import Forest, fixed_point
from astrarium.compute.kernels.fused import BACKENDS, fused_ns
from astrarium.compute.kernels.fused import CONSTANTS as FUSED
from astrarium.compute.kernels.fused import Constants as Fused
from astrarium.compute.kernels.predict import stream_ns
from astrarium.compute.kernels.rows import Rows
from astrarium.compute.kernels.rowwise import FEW as FEW_ROWS
from astrarium.compute.kernels.rowwise import Rowwise, rowwise_ns
from astrarium.compute.kernels.table import Curve
from astrarium.compute.kernels.tiles import CONSTANTS as TILES
from astrarium.compute.kernels.tiles import Constants as Tiles
from astrarium.compute.kernels.tiles import base_ns
from astrarium.validate.kernel_rows import identity
from astrarium.validate.rows import read_rows

TORCH = "torch/2.11"
SOURCE = "PyTorch 2.11 (CUDA 13.0, driver 580.159) on one H100 SXM, measured 2026-11-27"
NOTICE = "Fitted on kernels that Astrarium's authors timed in CUDA graphs."
RECORDED = {"rms_norm": ((16.0, 4096.0, 270336.0, 6300.0),),
            "transpose_copy": ((16.0, 1024.0, 65536.0, 3000.0), (16.0, 14336.0, 917504.0, 4600.0))}
"""(rows, columns, bytes, ns) of small kernels of a recorded step of decoding (traces/h100; the last two: copies to a
cache, silu of half a row), 0.6 us longer than recorded: the time to the next in a CUDA graph."""
START = {
    "rms_norm": Rowwise(2200, 1.0, 0.3, 0, 2.5e-4, 3.8e-4, 0.1),
    "layer_norm": Rowwise(2200, 1.0, 0.3, 0, 2.5e-4, 3.8e-4, 0.1),
    "rms_norm_backward": Rowwise(5000, 1.0, 3, 0, 2.5e-4, 4.5e-4, 0.2),
    "layer_norm_backward": Rowwise(5000, 1.0, 3, 0, 2.5e-4, 4.5e-4, 0.2),
    "sum_rows": Rowwise(5000, 1.0, 1, 0, 2e-4, 2.5e-4, 0.1),
    "embedding_backward": Rowwise(1e5, 0, 6, 0.012, 3.5e-4, 3.5e-4, 0),
    "embedding_backward_few": Rowwise(5000, 0, 45, 0, 3.5e-4, 3.5e-4, 0)}
"""Where constants of operators by rows and columns start, which is half a prior: an operator has 2 to 14 rows."""
PRIOR = 0.002
LAYOUT = {"NT": 0.0, "dgrad": 1.0, "wgrad": 2.0}
TREES, RATE, FEW = 400, 0.1, 64
Table = Sequence[dict[str, str]]


def numbers(table: Table, *names: str) -> list[Any]:
    """Columns as numbers, an empty cell as 0."""
    return [np.array([float(row[name] or 0) for row in table]) for name in names]


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


def part_of(rows: Rows, family: str, precision: str, machine: Machine, error: dict[str, Any]) -> Part:
    """One part; attention's has its constants alone."""
    variants = tuple(np.unique(rows.variant).tolist())
    trees = nothing() if family.startswith("fused") else fitted(rows, family, precision, machine, variants)
    return Part(trees, variants, variants[0], len(rows.ns), error)


def off(rows: Rows, part: Part, family: str, precision: str, machine: Machine) -> Any:
    """predicted / measured - 1."""
    model, out = DeviceModel(machine, {f"{family}/{precision}": part}, "", ""), np.empty(len(rows.ns))
    for name in np.unique(rows.variant):
        at = rows.variant == name
        out[at] = model.fastest_ns(family, precision, rows.shape[:, at], (str(name),)) / rows.ns[at] - 1
    return out


def told(name: str, errors: Any) -> list[float]:
    """Median and 90th percentile, per cent, printed."""
    found = np.percentile(np.abs(errors) * 100, [50, 90]).round(2).tolist()
    print(f"{name}: {len(errors)} rows, {found[0]:.1f} / {found[1]:.1f} %, bias {np.median(errors) * 100:+.1f} %",
          flush=True)
    return [float(each) for each in found]


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


def curves(table: Table, machine: Machine) -> dict[str, Curve]:
    """Operator -> rising (bytes, ns): through its rows, or a straight line among them (reductions depend on the length
    of a row, too), whichever foretells rows that are left out better."""
    found = {}
    for op in sorted({row["op"] for row in table if row["kind"] == "stream"}):
        size, us = numbers([row for row in table if row["kind"] == "stream" and row["op"] == op], "bytes", "us")
        more = np.array(RECORDED.get(op, np.zeros((0, 4)))).T
        size, ns = np.append(size, more[2]), np.append(us * 1e3, more[3])
        errors = {form: missed(form, size, ns, machine) for form in (through, line)}
        found[op] = min(errors, key=errors.__getitem__)(size, ns, machine)
    return found


def through(size: Any, ns: Any, machine: Machine) -> Curve:
    """Geometric means of rows of one size; below the smallest a straight line to the machine's smallest kernel."""
    sizes, least = np.unique(size), machine.stream[0][1]
    means = np.array([np.exp(np.log(ns[size == each]).mean()) for each in sizes])
    below = sizes[0] / np.exp2(np.arange(10, 0, -1))
    start = least + (means[0] - least) * below / sizes[0]
    return rising(np.concatenate([below, sizes]), np.concatenate([start, means]), least)


def line(size: Any, ns: Any, machine: Machine) -> Curve:
    """The line with the least squares of relative errors, by octaves."""
    start, slope = np.linalg.lstsq(np.stack([1 / ns, size / ns], axis=1), np.ones(len(ns)))[0]
    octaves = size.min() / 2.0**10 * np.exp2(np.arange(np.log2(size.max() / size.min()) + 11))
    return rising(octaves, start + slope * octaves, machine.stream[0][1])


def rising(size: Any, ns: Any, least: float) -> Curve:
    """A curve that starts at a time."""
    times = np.maximum.accumulate(np.maximum(ns, least))
    return tuple((float(each), round(float(time), 1)) for each, time in zip(size, times))


def missed(form: Callable[[Any, Any, Machine], Curve], size: Any, ns: Any, machine: Machine) -> float:
    """Mean error of the logarithms of rows, each foretold by the others."""
    each = np.eye(len(ns), dtype=bool)
    told = [stream_ns(machine, size[one], form(size[~one], ns[~one], machine))[0] for one in each]
    return float(np.abs(np.log(told / ns)).mean())


def rowwise(table: Table) -> dict[str, Rowwise]:
    """Constants of operators by rows and columns; errors of rows, each by the constants of the others, are printed."""
    found = {}
    for name, start in START.items():
        op = next((op for op, (_, few) in FEW_ROWS.items() if few == name), name)
        m, n, size, us = numbers([row for row in table if row["kind"] == "stream" and row["op"] == op],
                                 "m", "n", "bytes", "us")
        here = (m <= FEW_ROWS[op][0]) == (op != name) if op in FEW_ROWS else m > 0
        given = np.stack([m, n, size, us * 1e3])[:, here]
        more = np.array(RECORDED.get(name, np.zeros((0, 4)))).T
        errors = []
        for one in np.eye(given.shape[1], dtype=bool):
            others = rowwise_constants(np.concatenate([given[:, ~one], more], axis=1), start)
            errors.append(rowwise_ns(given[:2, one], given[2, one], others) / given[3, one] - 1)
        told(f"{name}, each row left out", np.concatenate(errors))
        found[name] = rowwise_constants(np.concatenate([given, more], axis=1), start)
    return found


def rowwise_constants(given: Any, start: Rowwise) -> Rowwise:
    """The constants that fit (rows, columns, bytes, ns) f64 [4, n] best."""
    first = np.array(start)
    free = first > 0

    def loss(point: Any) -> float:
        off = np.log(rowwise_ns(given[:2], given[2], Rowwise(*point)) / given[3])
        return float(np.sqrt(off**2 + 1e-4).mean() + PRIOR * (np.log(np.asarray(point)[free] / first[free])**2).sum())

    return Rowwise(*(float(f"{each:.4g}") for each in descended(start, loss, {})))


def descended(start: Sequence[float], loss: Callable[[Any], float], most: dict[int, float]) -> Any:
    """Coordinate descent on factors of the constants."""
    draw, best, point, steps = np.random.default_rng(SEED), loss(start), np.array(start), np.full(len(start), 0.3)
    for _ in range(60):
        for place in draw.permutation(len(point)):
            for factor in (1 + steps[place], 1 / (1 + steps[place])):
                other = point.copy()
                other[place] = min(other[place] * factor, most.get(place, np.inf))
                if loss(other) < best:
                    best, point, steps[place] = loss(other), other, min(0.5, steps[place] * 1.5)
                    break
            else:
                steps[place] = max(0.005, steps[place] * 0.6)
    return point


def constants(table: Table, machine: Machine) -> None:
    """Print the constants that fit best, of attention with the errors of rows, each by the constants of the others."""
    rows = rows_of(table, "product")
    rows = rows.where(rows.precision == "bf16")

    def products(point: Any) -> float:
        off = np.log(base_ns(rows.shape, "bf16", machine, Tiles(*point)) / rows.ns)
        return float(np.minimum(np.abs(off), 0.35).mean())

    print(Tiles(*descended(TILES, products, {7: 1.0, 8: 12.0}).round(3).tolist()))
    for way, family in (("forward", "fused"), ("backward", "fused_backward")):
        rows = rows_of(table, family)
        for name in BACKENDS:
            some = rows.where(rows.variant == f"{TORCH}/{name}")
            print(way, name, attention_constants(some, way, name, machine))
            each = [np.arange(len(some.ns)) == row for row in range(len(some.ns))]
            ratios = [fused_ns(way, some.where(one).shape, "bf16", machine, attention_constants(
                some.where(~one), way, name, machine)) / some.ns[one] - 1 for one in each]
            told(f"{way} {name}, each row left out", np.concatenate(ratios))


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
