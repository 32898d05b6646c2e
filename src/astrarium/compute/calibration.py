"""A device model corrected by a user's own timings, of PyTorch's kernels and of others."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import F64, I16, Bool
from astrarium.compute.kernels import DeviceModel, Machine, from_sheet, latency_ns, load, with_torch
from astrarium.compute.kernels.asked import SIXTEEN, STREAMS, in_torch, normalised
from astrarium.compute.kernels.choice import TORCH
from astrarium.compute.kernels.correction import corrected_by
from astrarium.compute.kernels.model import FamilyModel
from astrarium.compute.kernels.power import Chip
from astrarium.compute.kernels.predict import no_rates
from astrarium.compute.kernels.rowwise import FEW
from astrarium.compute.kernels.table import Curve, between
from astrarium.compute.timings import Timing
from astrarium.engine.plugins.kernels import tabled
from astrarium.vocab import Kernel

__all__ = ["Calibration", "calibrated", "refusal", "unseen_errors", "unseen_times"]

FOLDS = 5
"""Parts into which rows are cut to judge a calibration; a class with fewer rows is not judged."""
LIKE = "h100_sxm"
"""The device whose rows of PyTorch's kernels replace those of a device without."""
STREAM, STREAMED = "stream/", "streams"
Rows = tuple[F64, F64]


class Calibration(Struct, frozen=True, eq=False):
    """`base`: a measured device, or a data sheet. `rows`: "family/precision", of a stated backend of PyTorch
    "family/precision/backend" -> (shape [columns, n], ns [n]); "stream/operator" -> ([3, n]: rows, columns (0: unknown)
    and bytes, ns [n])."""

    base: str | Machine
    rows: Mapping[str, Rows]
    stream: float = 1.0     # measured / predicted time of kernels that move bytes
    as_base: frozenset[str] = frozenset()   # classes and operators that rows left out do not call for a correction of
    framework: str = ""     # whose kernels answer where a design names none
    chip: Chip | None = None    # what the device draws

    @property
    def counts(self) -> dict[str, int]:
        """"family/precision" -> rows of all backends; "streams" -> those of all operators."""
        streams = sum(ns.size for name, (_, ns) in self.rows.items() if name.startswith(STREAM))
        found = {name: sum(ns.size for _, ns in each.values()) for name, each in _classes(self.rows).items()}
        return found | ({STREAMED: streams} if streams else {})

    def model(self) -> DeviceModel:
        """The base with its corrections."""
        plain = _plain(self.base, self.rows)
        found = {name: corrected_by(*_residual(plain, name, rows)) for name, rows in _classes(self.rows).items()
                 if name not in self.as_base}
        scaled = _scaled(plain, self.stream)
        slower = {name.removeprefix(STREAM): _slower(rows[0][-1], _exponents(scaled, name, rows))
                  for name, rows in self.rows.items() if name.startswith(STREAM) and name not in self.as_base}
        others = {op: ((1.0, self.stream),) for op in {*plain.streams, *plain.rowwise}
                  if f"{STREAM}{op}" not in self.rows}
        return replace(scaled, corrections=MappingProxyType(found), slower=MappingProxyType({**others, **slower}),
                       chip=self.chip, framework=self.framework)


def refusal(base: str | Machine) -> Callable[[Kernel], str]:
    """Why a base cannot be corrected by a kernel: it has neither rows nor a peak at its precision; else ""."""
    plain = _plain(base)
    return functools.cache(lambda kernel: no_rates(plain, kernel))


def _plain(base: str | Machine, rows: Iterable[str] = ()) -> DeviceModel:
    """The base without a correction. If it has no rows of PyTorch's kernels, then those of LIKE answer on its data
    sheet, in classes and operators that `rows` name. A backend that alone was measured is the usual one."""
    plain = load(base) if isinstance(base, str) else from_sheet(base)
    named, backends = set(rows), defaultdict[str, set[str]](set)
    for name in named:
        backends["/".join(name.split("/")[:2])].add("/".join(name.split("/")[2:]))
    like = with_torch(replace(plain, parts={}, streams={}), LIKE)
    parts = dict(plain.parts)
    for name in backends:
        family, _, precision = name.partition("/")
        held = f"{family}/{SIXTEEN.get(precision, precision)}"
        if held in like.parts and held not in parts:
            parts[held] = replace(like.parts[held], device="")
        if held in parts and len(backends[name]) == 1:
            parts[held] = replace(parts[held], default=_variant(parts[held], *backends[name]))
    ops = {name.removeprefix(STREAM) for name in named if name.startswith(STREAM)}
    ops |= {FEW[op][1] for op in ops if op in FEW}
    return replace(plain, parts=MappingProxyType(parts), seen=frozenset(),
                   streams={op: curve for op, curve in like.streams.items() if op in ops} | dict(plain.streams),
                   rowwise={op: each for op, each in like.rowwise.items() if op in ops} | dict(plain.rowwise))


def _variant(part: FamilyModel, backend: str) -> str:
    return next((name for name in part.variants if backend and name.endswith(f"/{backend}")), part.default)


def _scaled(plain: DeviceModel, stream: float) -> DeviceModel:
    """A model whose kernels that move bytes take so much longer, but for PyTorch's operators."""
    curve = tuple((size, ns * stream) for size, ns in plain.machine.stream)
    return replace(plain, machine=replace(plain.machine, stream=curve))


def _classes(rows: Mapping[str, Rows]) -> dict[str, dict[str, Rows]]:
    """"family/precision" -> backend -> rows, without streams."""
    found: dict[str, dict[str, Rows]] = {}
    for name, each in rows.items():
        if not name.startswith(STREAM):
            family, precision, *backend = name.split("/")
            found.setdefault(f"{family}/{precision}", {})["/".join(backend)] = each
    return found


def _residual(plain: DeviceModel, name: str, rows: Mapping[str, Rows]) -> tuple[I16, F64]:
    """(features, log2(measured / predicted)) of a class's rows by backend."""
    family, precision = name.split("/")
    part = plain.part(family, precision)
    found = [plain.residual(family, precision, *each, _variant(part, backend), alone=True)
             for backend, each in rows.items()]
    return np.concatenate([columns for columns, _ in found], axis=1), np.concatenate([rest for _, rest in found])


def _exponents(scaled: DeviceModel, name: str, rows: Rows) -> F64:
    """log2(measured / predicted) of an operator's rows."""
    shapes, ns = rows
    kernels = [Kernel("pointwise", "bf16", (int(m), int(n)) if m and n else (), 1.0, 0.0, int(moved),
                      op=name.removeprefix(STREAM)) for m, n, moved in shapes.T]
    return np.asarray(np.log2(ns / latency_ns(scaled, kernels, TORCH)))


def _slower(moved: F64, exponents: F64) -> Curve:
    """Bytes -> measured / predicted of an operator; of equal sizes the geometric mean."""
    return tuple((float(size), float(np.exp2(exponents[moved == size].mean()))) for size in np.unique(moved))


def calibrated(base: str | Machine, timings: Sequence[Timing], framework: str = "",
               chip: Chip | None = None) -> Calibration:
    """A calibration by timings. A class or operator stays as the base has it where rows left out are not nearer with a
    correction by the others than without."""
    plain = _plain(base)
    groups: dict[str, list[tuple[F64, float]]] = defaultdict(list)
    streams = []
    for kernel, ns, backend in timings:
        if kernel.kind in STREAMS:
            streams.append(ns / latency_ns(plain, [kernel])[0])
            if kernel.op:
                sides = kernel.shape if len(kernel.shape) == 2 else (0, 0)
                groups[f"{STREAM}{kernel.op}"].append((np.array([*sides, kernel.bytes], np.float64), ns))
            continue
        for name, shape, each in _asked(kernel, ns, backend):
            groups[name].append((shape, each))
    rows = {name: (np.array([shape for shape, _ in found]).T, np.array([ns for _, ns in found]))
            for name, found in sorted(groups.items())}
    found = Calibration(base, MappingProxyType(rows), float(np.median(streams)) if streams else 1.0,
                        framework=framework, chip=chip)
    return replace(found, as_base=frozenset(name for name, (rest, told) in _judged(found).items() if told is not None
                                            and sum(_two(told - rest)) >= sum(_two(-rest))))


@functools.cache
def _torch_classes() -> frozenset[str]:
    return frozenset(name for name, part in load(LIKE).parts.items() if part.default.startswith(TORCH))


def _asked(kernel: Kernel, ns: float, backend: str) -> Iterator[tuple[str, F64, float]]:
    """(class of rows, shape, ns) that a kernel corrects: PyTorch's, and unless the row says that PyTorch's backend or
    pass ran, that of the other frameworks, too."""
    asked, = normalised(tabled((kernel,)).parts)
    own = in_torch(asked)
    if own is not asked and f"{own.family}/{SIXTEEN.get(own.precision, own.precision)}" in _torch_classes():
        name = f"{own.family}/{own.precision}" + (f"/{backend}" if backend else "")
        yield name, own.shape[:, 0], ns / own.times[0]
    if not backend and not kernel.op:
        yield f"{asked.family}/{asked.precision}", asked.shape[:, 0], ns / asked.times[0]


def unseen_errors(given: Calibration) -> dict[str, tuple[tuple[float, float], tuple[float, float]]]:
    """"family/precision", "streams" (of all operators) -> ((median, p90) as the base has it, (median, p90) corrected),
    per cent; every row is predicted by a calibration without its fifth of the rows. Classes with fewer than five rows
    have no errors."""
    exponents, streams = dict[str, tuple[F64, F64]](), list[tuple[F64, F64]]()
    for name, (rest, told) in _judged(given).items():
        if told is not None:
            pair = -rest, (0 if name in given.as_base else told) - rest
            if name.startswith(STREAM):
                streams.append(pair)
            else:
                exponents[name] = pair
    if streams:
        before, after = zip(*streams, strict=True)
        exponents[STREAMED] = np.concatenate(before), np.concatenate(after)
    return {name: (_two(before), _two(after)) for name, (before, after) in exponents.items()}


def unseen_times(given: Calibration) -> dict[str, tuple[F64, F64, F64]]:
    """Class or "stream/operator" -> (measured, as the base has it, corrected) ns of its rows, in one order; of classes
    with at least five rows, each predicted as in `unseen_errors`."""
    classes = _classes(given.rows)
    found = dict[str, tuple[F64, F64, F64]]()
    for name, (rest, told) in _judged(given).items():
        if told is not None:
            ns = given.rows[name][1] if name.startswith(STREAM) else np.concatenate(
                [ns for _, ns in classes[name].values()])
            base = ns / np.exp2(rest)
            found[name] = ns, base, base if name in given.as_base else base * np.exp2(told)
    return found


def _judged(given: Calibration) -> dict[str, tuple[F64, F64 | None]]:
    """Class or operator -> log2(measured / predicted) of its rows, and what a correction by the other rows says of it;
    None for too few."""
    plain, found = _plain(given.base, given.rows), dict[str, tuple[F64, F64 | None]]()
    for name, rows in _classes(given.rows).items():
        columns, rest = _residual(plain, name, rows)
        found[name] = rest, _left_out(len(rest), functools.partial(_corrected, columns, rest))
    scaled = _scaled(plain, given.stream)
    for name, each in given.rows.items():
        if name.startswith(STREAM):
            rest = _exponents(scaled, name, each)
            found[name] = rest, _left_out(len(rest), functools.partial(_interpolated, each[0][-1], rest))
    return found


def _corrected(columns: I16, rest: F64, seen: Bool) -> F64:
    return corrected_by(columns[:, seen], rest[seen])(columns[:, ~seen])


def _interpolated(moved: F64, rest: F64, seen: Bool) -> F64:
    return np.log2(between(_slower(moved[seen], rest[seen]), moved[~seen]))


def _left_out(count: int, fit: Callable[[Bool], F64]) -> F64 | None:
    """[count] what `fit`(rows that it sees) says of the others; None for too few rows."""
    if count < FOLDS:
        return None
    found, fold = np.empty(count), np.random.default_rng(0).permutation(count) % FOLDS
    for each in range(FOLDS):
        found[fold == each] = fit(fold != each)
    return found


def _two(exponents: F64) -> tuple[float, float]:
    """Median and 90th percentile of errors, per cent, from log2(predicted / measured)."""
    errors = np.abs(np.exp2(exponents) - 1) * 100
    return round(float(np.median(errors)), 2), round(float(np.percentile(errors, 90)), 2)
