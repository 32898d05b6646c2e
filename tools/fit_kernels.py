"""Fit the kernel models that the package ships, from the rows of `astrarium[measured]`. Needs catboost.

    python tools/fit_kernels.py [DEVICE ...] [--family gemm ...]

Symmetric trees are boosted on log2(measured / base) of every row; half of the weight goes to products of at least
1024 in each dimension, where training spends its time. A first, short fit finds rows more than 2x off their
neighbours; these are left out. The error in each file comes from a second fit that never saw 20 % of the shapes.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from astrarium.compute.kernels import FAMILIES, DeviceModel, Machine, Part, write
from astrarium.compute.kernels import read as load
from astrarium.compute.kernels.forest import LEAF_UNIT, Forest, fixed_point
from astrarium.compute.kernels.rows import Rows, devices, read, streams

SEED = 20260722
OUT = Path(__file__).parents[1] / "src/astrarium/catalog/kernels"
SHEETS = json.loads((Path(__file__).parent / "kernel_machines.json").read_text(encoding="utf-8"))
MOST, LEAST = 200_000, 1000     # rows of a part: more are sampled, fewer make none
TREES = {"gemm": 500, "attention": 500, "decode": 400, "mla": 250, "experts": 400}
DEFAULTS = {"gemm": "trtllm", "attention": "sglang", "decode": "trtllm", "mla": "trtllm", "experts": "trtllm"}
NOTICE = ("Fitted on measured kernel latencies of aiconfigurator-core (Copyright (c) 2025-2026 NVIDIA CORPORATION & "
          "AFFILIATES, Apache-2.0, https://github.com/ai-dynamo/aiconfigurator). See NOTICE beside this file.")


def boost(x: Any, y: Any, weight: Any, trees: int, depth: int = 6) -> Any:
    """Boosted symmetric trees; equal input gives equal trees."""
    import catboost

    model = catboost.CatBoostRegressor(
        iterations=trees, depth=depth, learning_rate=0.3 if trees >= 200 else 0.4, loss_function="RMSE",
        random_seed=SEED, thread_count=2, bootstrap_type="No", random_strength=0, l2_leaf_reg=1, border_count=254,
        verbose=0, allow_writing_files=False)
    return model.fit(x.T, y, sample_weight=weight)


def forest(model: Any, depth: int = 6) -> Forest:
    """The trees of a fitted CatBoost model as arrays; missing questions are answered no."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        data = json.loads(path.read_text(encoding="utf-8"))
    trees = data["oblivious_trees"]
    feature = np.zeros((len(trees), depth), np.uint8)
    threshold = np.full((len(trees), depth), 32767, np.int16)
    leaf = np.zeros((len(trees), 2**depth))
    for t, tree in enumerate(trees):
        for bit, split in enumerate(tree["splits"] or ()):
            feature[t, bit] = split["float_feature_index"]
            threshold[t, bit] = np.floor(split["border"])
        leaf[t, :len(tree["leaf_values"])] = tree["leaf_values"]
    scale, (bias,) = data["scale_and_bias"]
    order = np.lexsort((feature[:, 0],))
    fixed = np.clip(np.rint(leaf * scale / LEAF_UNIT), -32767, 32767).astype(np.int16)
    return Forest(feature[order], threshold[order], fixed[order], float(bias))


def target(rows: Rows, family: str, precision: str, machine: Machine, variants: tuple[str, ...]) -> tuple[Any, Any]:
    """(features i16 [features, n], log2(measured / base) [n])."""
    option = np.searchsorted(np.array(variants), rows.variant).astype(np.float64)
    described = FAMILIES[family][1](rows.shape, precision, machine, option)
    return fixed_point(described.features), np.log2(rows.ns / described.base)


def large(rows: Rows, family: str) -> Any:
    """Rows that weigh more: products of at least 1024 a side, attention over at least 1024 keys, experts of
    at least 1024 rows in all."""
    if family == "gemm":
        return (rows.shape[1:4] >= 1024).all(0)
    return rows.shape[1] >= 1024 if family == "experts" else rows.shape[4] >= 1024


def fit(rows: Rows, family: str, precision: str, machine: Machine) -> tuple[Forest, tuple[str, ...]]:
    """The forest of rows of one class and precision, rows far from their neighbours left out."""
    variants = tuple(np.unique(rows.variant).tolist())
    x, y = target(rows, family, precision, machine, variants)
    big = large(rows, family)
    weight = np.where(big, max(1.0, (~big).sum() / max(1, big.sum())), 1.0)
    rough = boost(x, y, weight, 60)
    keep = np.abs(y - rough.predict(x.T)) < 1
    return forest(boost(x[:, keep], y[keep], weight[keep], TREES[family])), variants


def held_out(rows: Rows, seed: int) -> Any:
    """True for the rows of a random fifth of the distinct shapes."""
    _, number = np.unique(rows.shape, axis=1, return_inverse=True)
    number = number.ravel()
    return np.random.default_rng(seed).random(number.max() + 1)[number] < 0.2


def errors(model: DeviceModel, rows: Rows, family: str, precision: str) -> Any:
    """|predicted / measured - 1|, per cent."""
    out = np.empty(len(rows.ns))
    for name in np.unique(rows.variant):
        at = rows.variant == name
        out[at] = np.abs(model.latency_ns(family, precision, rows.shape[:, at], str(name)) / rows.ns[at] - 1) * 100
    return out


def fit_part(rows: Rows, family: str, precision: str, machine: Machine) -> Part:
    """One part: fitted on all rows, its error from a fit without a fifth of the shapes."""
    def part(some: Rows, error: Any) -> Part:
        trees, variants = fit(some, family, precision, machine)
        likely = [v for v in variants if v.startswith(DEFAULTS[family])] or variants
        default = max(likely, key=lambda v: ((some.variant == v).sum(), v))
        return Part(trees, variants, default, len(some.ns), error)

    test = held_out(rows, SEED)
    tried = DeviceModel(machine, {f"{family}/{precision}": part(rows.where(~test), {})}, "", "")
    unseen = rows.where(test)
    off, big = errors(tried, unseen, family, precision), large(unseen, family)
    figures = {name: [round(float(v), 2) for v in np.percentile(off[at], [50, 90])]
               for name, at in (("large", big), ("all", np.full(len(off), True))) if at.any()}
    return part(rows, {**figures, "held_out_rows": int(test.sum())})


def stream(name: str) -> tuple[tuple[float, float], ...]:
    """Rising (bytes, ns): the median of each octave of sizes. Devices without rows take the curve of H100, its time
    above the smallest kernel's in inverse proportion to bandwidth. The tables replay one kernel, whose operands stay in
    the cache where they fit; in a program they come from memory, so no size moves faster than the largest."""
    size, ns = streams(name)
    if not len(size):
        size, ns = streams("h100_sxm")
        ns = ns.min() + (ns - ns.min()) * SHEETS["h100_sxm"]["bandwidth"] / SHEETS[name]["bandwidth"]
    octave = np.rint(np.log2(size))
    points = [(float(2.0**o), float(np.median(ns[octave == o] / size[octave == o])) * 2.0**o)
              for o in np.unique(octave) if (octave == o).sum() >= 10]
    bytes_, time_ = np.array(points).T
    rising = np.maximum.accumulate(np.maximum(time_, time_[0] + bytes_ / bytes_[-1] * (time_[-1] - time_[0])))
    return tuple((float(b), round(float(t), 1)) for b, t in zip(bytes_, rising))


def fit_device(name: str, families: Sequence[str], old: Mapping[str, Part]) -> DeviceModel:
    """All parts of a device that have rows: those of `families` fitted, the others as they are in `old`."""
    machine = Machine(name=name, stream=stream(name), **SHEETS[name])
    parts = {key: part for key, part in old.items() if key.split("/", maxsplit=1)[0] not in families}
    for family in families:
        rows = read(name, family)
        for precision in np.unique(rows.precision).tolist():
            start, chosen = time.process_time(), np.flatnonzero(rows.precision == precision)
            if len(chosen) < LEAST:
                continue
            some = np.random.default_rng(SEED).permutation(chosen)[:MOST]
            part = fit_part(rows.where(np.sort(some)), family, precision, machine)
            parts[f"{family}/{precision}"] = part
            print(name, family, precision, part.rows, dict(part.error), part.variants, part.default,
                  f"{time.process_time() - start:.0f} CPU s", flush=True)
    version = f"aiconfigurator-core {importlib.metadata.version('aiconfigurator-core')}"
    return DeviceModel(machine, dict(sorted(parts.items())), version, NOTICE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", nargs="*")
    parser.add_argument("--family", nargs="+", choices=list(FAMILIES), help="fit these, keep the others as they are")
    given = parser.parse_args()
    for name in given.device or devices():
        path = OUT / f"{name}.npz"
        old = load(path).parts if given.family and path.exists() else {}
        write(fit_device(name, given.family or list(FAMILIES), old), path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
