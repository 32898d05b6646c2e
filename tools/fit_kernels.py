"""Fit the kernel models that the package ships, from the rows of `astrarium[measured]`. Needs catboost.

    python tools/fit_kernels.py [DEVICE ...] [--family gemm ... | --missing]

Symmetric trees are boosted on log2(measured / base) of every row; half of the weight goes to products of at least
1024 in each dimension, where training spends its time. Products and experts are fitted by the sum of absolute errors,
for rows of equal work are often 5 % and sometimes 20 % apart; the rest, and what has few rows, by the sum of squares.
A first, short fit finds rows more than 2x off their neighbours; these are left out. The error in each file comes from
a second fit that never saw 20 % of the shapes. Equal rows and an equal catboost make equal files.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from kernel_casts import casts_of
from msgspec.structs import replace

from astrarium.compute.kernels import FAMILIES, DeviceModel, FamilyModel, Machine, write
from astrarium.compute.kernels import read as load
from astrarium.compute.kernels.correction import corrected_by
from astrarium.compute.kernels.forest import LEAF_UNIT, Forest, fixed_point
from astrarium.compute.kernels.machine import BYTES, WEIGHT_ONLY
from astrarium.compute.kernels.power import PER_JOULE, TYPICAL, sustained
from astrarium.compute.kernels.rows import PRECISIONS, SHAPES, Rows, devices, read, streams
from astrarium.compute.kernels.table import Curve

SEED = 20260722
OUT = Path(__file__).parents[1] / "src/astrarium/catalog/kernels"
SHEETS = json.loads((Path(__file__).parent / "kernel_machines.json").read_text(encoding="utf-8"))
MOST, LEAST = 200_000, 1000     # rows of a part: more are sampled, fewer make none
COMMON, CORRECTED = 3000, 500   # rows of a device, large and small each, in the model of all; rows that correct it
OTHERS = ("b60",)               # devices that the model of all is tried on, not fitted on: another maker's
SMALL = {"sparse": 50, "bmm": 300}          # fewer, where time is nearly in proportion to one size
TREES = {"gemm": 500, "attention": 500, "decode": 400, "mla": 250, "experts": 300, "delta": 150, "sparse": 60,
         "indexer": 100, "bmm": 150, "latent": 150}
ABSOLUTE = ("gemm", "experts")   # fitted by absolute errors where a part has so many rows:
ENOUGH = 30_000
CACHES = ("bf16", "fp8")        # formats of caches in the tables
DEFAULTS = {"gemm": "trtllm", "attention": "sglang", "decode": "trtllm", "mla": "trtllm", "experts": "trtllm",
            "delta": "sglang", "sparse": "sglang", "indexer": "sglang", "bmm": "trtllm", "latent": "trtllm"}
SOURCE = f"aiconfigurator-core {importlib.metadata.version('aiconfigurator-core')}"
NOTICE = ("Fitted on measured kernel latencies of aiconfigurator-core (Copyright (c) 2025-2026 NVIDIA CORPORATION & "
          "AFFILIATES, Apache-2.0, https://github.com/ai-dynamo/aiconfigurator). See NOTICE beside this file.")


def boost(x: Any, y: Any, weight: Any, trees: int, loss: str = "RMSE", depth: int = 6, rate: float = 0.0) -> Any:
    """Boosted symmetric trees; equal input gives equal trees."""
    import catboost

    rate = rate or (0.5 if loss == "MAE" else 0.3 if trees >= 200 else 0.4)
    model = catboost.CatBoostRegressor(
        iterations=trees, depth=depth, learning_rate=rate, loss_function=loss, random_seed=SEED, thread_count=1,
        bootstrap_type="No", random_strength=0, l2_leaf_reg=1, border_count=254, verbose=0, allow_writing_files=False)
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
    at least 1024 rows in all, scans of at least 1024 tokens, absorbed products of at least 256."""
    if family == "gemm":
        return (rows.shape[1:4] >= 1024).all(0)
    if family == "bmm":
        return rows.shape[1] >= 256
    if family == "delta":
        return rows.shape[2] >= 1024
    return rows.shape[1] >= 1024 if family == "experts" else rows.shape[4] >= 1024


def loss_of(family: str, rows: int) -> str:
    """What a part of so many rows, held-out ones too, is fitted by."""
    return "MAE" if family in ABSOLUTE and rows >= ENOUGH else "RMSE"


def fit(rows: Rows, family: str, precision: str, machine: Machine, loss: str) -> tuple[Forest, tuple[str, ...]]:
    """The forest of rows of one class and precision, rows far from their neighbours left out."""
    variants = tuple(np.unique(rows.variant).tolist())
    x, y = target(rows, family, precision, machine, variants)
    big = large(rows, family)
    weight = np.where(big, max(1.0, (~big).sum() / max(1, big.sum())), 1.0)
    rough = boost(x, y, weight, 60)
    keep = np.abs(y - rough.predict(x.T)) < 1
    return forest(boost(x[:, keep], y[keep], weight[keep], TREES[family], loss)), variants


def caches_of(rows: Rows, family: str) -> dict[str, tuple[str, ...]]:
    """Variant -> formats of the cache in its rows of attention."""
    if family not in ("attention", "latent", "decode", "mla"):
        return {}
    held = {name: rows.shape[8][rows.variant == name] for name in np.unique(rows.variant).tolist()}
    return {name: tuple(kind for kind in CACHES if (size == BYTES[kind]).sum() >= LEAST)
            for name, size in held.items()}


def about(rows: Rows, family: str, device: str) -> dict[str, Any]:
    """What a part says of its variants: caches, numbers of rows, layers of experts, casts."""
    names, counts = np.unique(rows.variant, return_counts=True)
    columns = {"experts": (0, 5, 3), "attention": (5, 6), "decode": (5, 6)}.get(family, ())
    sites = {name: tuple(sorted({(round(first[0] * (first[1] if len(first) > 1 else 1)), round(last)) for *first, last
                                 in rows.shape[list(columns)][:, rows.variant == name].T}))
             for name in (names.tolist() if columns else ())}
    return {"caches": caches_of(rows, family), "counts": dict(zip(names.tolist(), counts.tolist())), "sites": sites,
            "casts": casts_of(rows, device) if family == "gemm" else {}}


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


def fit_part(rows: Rows, family: str, precision: str, machine: Machine) -> FamilyModel:
    """One part: fitted on all rows, its error from a fit without a fifth of the shapes."""
    loss = loss_of(family, len(rows.ns))

    def part(some: Rows, error: Any) -> FamilyModel:
        trees, variants = fit(some, family, precision, machine, loss)
        likely = [v for v in variants if v.startswith(DEFAULTS[family])] or variants
        default = max(likely, key=lambda v: ((some.variant == v).sum(), v))
        return FamilyModel(trees, variants, default, len(some.ns), error, **about(some, family, machine.name))

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
        return machine_of(name).streaming_like(replace(machine_of("h100_sxm"), stream=stream("h100_sxm"))).stream
    octave = np.rint(np.log2(size))
    points = [(float(2.0**o), float(np.median(ns[octave == o] / size[octave == o])) * 2.0**o)
              for o in np.unique(octave) if (octave == o).sum() >= 10]
    bytes_, time_ = np.array(points).T
    rising = np.maximum.accumulate(np.maximum(time_, time_[0] + bytes_ / bytes_[-1] * (time_[-1] - time_[0])))
    return tuple((float(b), round(float(t), 1)) for b, t in zip(bytes_, rising))


def machine_of(name: str) -> Machine:
    """A device's data sheet."""
    return Machine(name=name, **{key: value for key, value in SHEETS[name].items() if key not in ("watts", "matrix")})


@functools.cache
def joule_of(name: str) -> float:
    """1e12 flops a joule of a device's power limit: the median rate of bf16 products that take more than 200 us at the
    peak."""
    rows, peak = common_rows(name, "gemm", "bf16"), machine_of(name).peak("bf16")
    flops = 2 * np.prod(rows.shape, axis=0)
    long = flops / peak > 200e3
    return float(np.median(flops[long] / rows.ns[long]) / SHEETS[name]["watts"] / 1e3)


def per_joule(names: Sequence[str]) -> dict[str, float]:
    """Instruction -> flops a joule: geometric mean of the devices that have it."""
    known = [name for name in names if "watts" in SHEETS[name]]
    return {matrix: float(np.exp(np.mean([np.log(joule_of(name)) for name in known
                                          if SHEETS[name]["matrix"] == matrix])))
            for matrix in sorted({SHEETS[name]["matrix"] for name in known})}


def part_of(name: str, joules: Mapping[str, float]) -> float:
    """What is left of a device's peak."""
    sheet = SHEETS[name]
    return sustained(sheet["peaks"]["bf16"], sheet["watts"], sheet["matrix"], joules) if "watts" in sheet else TYPICAL


@functools.cache
def common_rows(name: str, family: str, precision: str) -> Rows:
    """Rows of a device's default framework for the model of all devices: as many large as small ones, sampled."""
    rows = read(name, family)
    rows = rows.where(rows.precision == precision)
    likely = [v for v in np.unique(rows.variant) if v.startswith(DEFAULTS[family])] or np.unique(rows.variant).tolist()
    if not likely:
        return rows
    rows = rows.where(rows.variant == max(likely, key=lambda v: ((rows.variant == v).sum(), v)))
    draw, big = np.random.default_rng(SEED), large(rows, family)
    chosen = np.concatenate([draw.permutation(np.flatnonzero(each))[:COMMON] for each in (big, ~big)])
    return replace(rows.where(np.sort(chosen)), variant=np.full(len(chosen), "any"))


def fit_common(family: str, precision: str, names: Sequence[str]) -> tuple[Forest, int] | None:
    """(forest, rows) of several devices together, each seen from what power leaves of its own data sheet; None where
    none has rows."""
    joules = per_joule(names)
    some = [(machine_of(name).at(part_of(name, joules)), common_rows(name, family, precision)) for name in names]
    pairs = [target(rows, family, precision, machine, ("any",)) for machine, rows in some if len(rows.ns) >= LEAST]
    if not pairs:
        return None
    x, y = np.concatenate([x for x, _ in pairs], 1), np.concatenate([y for _, y in pairs])
    return forest(boost(x, y, np.ones(len(y)), 150)), len(y)


def left_out(name: str, family: str, precision: str, names: Sequence[str]) -> dict[str, Any] | None:
    """Errors on a device's large rows of a model of the other devices, as it is and with 500 of the device's rows."""
    others = [other for other in names if other != name]
    common = fit_common(family, precision, others)
    rows = common_rows(name, family, precision)
    rows = rows.where(large(rows, family)) if len(rows.ns) >= LEAST else rows
    if common is None or len(rows.ns) < LEAST:
        return None
    part = FamilyModel(common[0], ("any",), "any", 0, {})
    model = DeviceModel(machine_of(name), {f"{family}/{precision}": part}, "", "",
                        sustained=part_of(name, per_joule(others)))
    order = np.random.default_rng(SEED).permutation(len(rows.ns))
    own, rest = rows.where(order[:CORRECTED]), rows.where(order[CORRECTED:])
    fixed = replace(model, corrections={f"{family}/{precision}": corrected_by(*model.residual(
        family, precision, own.shape, own.ns))})
    found = {key: np.percentile(errors(each, rest, family, precision), [50, 90]).round(1).tolist()
             for key, each in (("data sheet", model), (f"{CORRECTED} rows", fixed))}
    print("left out:", name, family, precision, found, flush=True)
    return found


def common_casts(precision: str) -> dict[str, Curve]:
    """The cast in the default framework's rows of products, at H100's bandwidth; of a precision that H100 lacks,
    B200's."""
    for name in ("h100_sxm", "b200_sxm"):
        part = load(OUT / f"{name}.npz").parts.get(f"gemm/{precision}")
        if part is not None and part.default in part.casts:
            there = replace(machine_of(name), stream=part.casts[part.default])
            return {"any": machine_of("h100_sxm").streaming_like(there).stream}
    return {}


def fit_generic(old: Mapping[str, FamilyModel]) -> DeviceModel:
    """The model of all NVIDIA devices but for what is in `old`; its errors are those of devices left out, one at a
    time."""
    names = [name for name in devices() if name not in OTHERS]
    found, parts = per_joule(names), {}
    print("1e12 flops a joule:", found, "part of the peak:", {name: part_of(name, found) for name in names}, flush=True)
    if any(abs(found[key] / value - 1) > 1e-3 for key, value in PER_JOULE.items()):
        raise SystemExit("astrarium.compute.kernels.power.PER_JOULE says otherwise")
    for family in SHAPES:
        for precision in [each for each in PRECISIONS.values() if each not in WEIGHT_ONLY.values()]:
            key = f"{family}/{precision}"
            common = None if key in old else fit_common(family, precision, names)
            if common is not None:
                each = {name: left_out(name, family, precision, names) for name in (*names, *OTHERS)}
                parts[key] = FamilyModel(common[0], ("any",), "any", common[1], {
                    "left out": {name: found for name, found in each.items() if found}})
            elif key in old:
                parts[key] = old[key]
            if key in parts:
                cached = [caches_of(common_rows(name, family, precision), family).get("any", ()) for name in names]
                parts[key] = replace(parts[key], caches={"any": tuple(
                    kind for kind in CACHES if any(kind in each for each in cached))} if any(cached) else {},
                    casts=common_casts(precision) if family == "gemm" else {})
    machine = replace(machine_of("h100_sxm"), stream=stream("h100_sxm"))
    return DeviceModel(machine, parts, SOURCE, NOTICE)


def fit_device(name: str, old: Mapping[str, FamilyModel]) -> DeviceModel:
    """All parts of a device that have rows: those in `old` as they are, the others fitted."""
    machine, parts = replace(machine_of(name), stream=stream(name)), dict(old)
    for family in SHAPES:
        rows = read(name, family)
        for precision in np.unique(rows.precision).tolist():
            key, start = f"{family}/{precision}", time.process_time()
            chosen = np.flatnonzero(rows.precision == precision)
            if len(chosen) < SMALL.get(family, LEAST):
                continue
            some = rows.where(np.sort(np.random.default_rng(SEED).permutation(chosen)[:MOST]))
            if key in old:
                parts[key] = replace(old[key], **about(rows.where(chosen), family, name))
                continue
            part = parts[key] = fit_part(some, family, precision, machine)
            print(name, family, precision, part.rows, dict(part.error), part.variants, part.default,
                  f"{time.process_time() - start:.0f} CPU s", flush=True)
    return DeviceModel(machine, dict(sorted(parts.items())), SOURCE, NOTICE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", nargs="*")
    parser.add_argument("--family", nargs="+", choices=list(SHAPES), help="fit these, keep the others as they are")
    parser.add_argument("--missing", action="store_true", help="keep all parts that the files have, and fit the others")
    given = parser.parse_args()
    for name in given.device or (*devices(), "generic"):
        path = OUT / f"{name}.npz"
        old = load(path).parts if (given.family or given.missing) and path.exists() else {}
        old = {key: part for key, part in old.items() if key.split("/", maxsplit=1)[0] not in (given.family or ())}
        write(fit_generic(old) if name == "generic" else fit_device(name, old), path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
