"""Fit PyTorch's operators that move bytes for `fit_torch.py`: curves of time over bytes, and constants of those whose
time depends on rows and columns. What the fits share is here, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fit_kernels import SEED

from astrarium.compute.kernels import Machine
from astrarium.compute.kernels.model import Curve
from astrarium.compute.kernels.predict import stream_ns
from astrarium.compute.kernels.rowwise import FEW, Rowwise, rowwise_ns

Table = Sequence[dict[str, str]]
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
    "embedding_backward_few": Rowwise(5000, 0, 45, 0, 3.5e-4, 3.5e-4, 0),
    "adamw_fused": Rowwise(5000, 0, 2e-3, 0, 3.1e-4, 3.1e-4, 0)}
"""Where constants of operators by rows and columns start, which is half a prior: an operator has 2 to 14 rows."""
PRIOR = 0.002


def numbers(table: Table, *names: str) -> list[Any]:
    """Columns as numbers, an empty cell as 0."""
    return [np.array([float(row[name] or 0) for row in table]) for name in names]


def told(name: str, errors: Any) -> list[float]:
    """Median and 90th percentile, per cent, printed."""
    found = np.percentile(np.abs(errors) * 100, [50, 90]).round(2).tolist()
    print(f"{name}: {len(errors)} rows, {found[0]:.1f} / {found[1]:.1f} %, bias {np.median(errors) * 100:+.1f} %",
          flush=True)
    return [float(each) for each in found]


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
        op = next((op for op, (_, few) in FEW.items() if few == name), name)
        m, n, elements, size, us = numbers([row for row in table if row["kind"] == "stream" and row["op"] == op],
                                           "m", "n", "elements", "bytes", "us")
        m, n = np.where(m > 0, m, elements), np.maximum(n, 1)
        here = (m <= FEW[op][0]) == (op != name) if op in FEW else m > 0
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
