"""Compute models that predict kernels: what `measured`, `analytic` and `calibrated` share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium.arrays import F64, I64, Bool
from astrarium.compute.checked import to_ps
from astrarium.compute.config import Compute, near
from astrarium.compute.in_situ import CLASS as PRODUCTS
from astrarium.compute.in_situ import InSitu, factors_of
from astrarium.compute.replay import replayed
from astrarium.config import Knob, default
from astrarium.engine.plugins.kernels import KernelTable, tabled
from astrarium.errors import InputError, InternalError
from astrarium.units import OptionalTime, Time

if TYPE_CHECKING:
    from astrarium.compute.kernels import DeviceModel
    from astrarium.compute.kernels.power import Chip, Clocked, Load, Mix
    from astrarium.engine.plugins.compute import ComputeNodes
    from astrarium.vocab import Kernel

__all__ = ["Predicted", "Work", "durations", "load_of", "split", "with_operators"]

SLOW = 0.7      # a clock at which kernels are also timed
Predict = Callable[["Sequence[Kernel]", float], F64]


class Predicted(Compute, frozen=True, kw_only=True):
    """What every model that predicts kernels takes."""

    clock: Annotated[float | Literal["sustained"], Knob(
        "Clock as a part of that of short runs, in which kernels were measured: products that are bound by arithmetic "
        "take 1 / clock of the time. sustained: the highest at which the mean of what a rank's kernels draw keeps to "
        "`power`; left out: the limit of the data sheet.", gt=0)] = 1.0
    launch_gap: Annotated[Time, Knob("Time between a kernel and the next on the NPU, added to each launch. The kernels "
                                     "were measured in CUDA graphs: 0 for a program that replays graphs.")] = default(0)
    in_situ: Annotated[InSitu, Knob("What kernels take in a long run of a software stack, over the time of one alone.")
                       ] = InSitu()
    unknown: Annotated[Literal["refuse", "roofline", "recorded"], Knob(
        "A node that names no kernel: refused; or its flops at the bf16 peak or its bytes, the longer; or what was "
        "recorded, which then is the time of kernels without rates, too.")] = "refuse"
    missing: Annotated[OptionalTime, Knob("Time of a host node without a recorded one; left out: it is refused.")
                       ] = default(None)

    @property
    def sustained(self) -> bool:
        """Whether its clock follows from what a rank runs."""
        return self.clock == "sustained"

    @property
    def on_products(self) -> float:
        """The factor on products in a long run of a software stack."""
        return self.in_situ.gemm

    def at(self, clock: float) -> Predicted:
        """This model at a clock, where its own one follows from what a rank runs."""
        return replace(self, clock=clock) if self.sustained else self

    def timed_by(self, nodes: ComputeNodes) -> tuple[DeviceModel, Predict]:
        """The device's model, and the times of kernels alone at a clock, ns."""
        raise InternalError(f"{type(self).__name__} predicts no kernels of {len(nodes)} nodes")

    def durations(self, nodes: ComputeNodes) -> I64:
        """Predicted times of kernels, recorded times of host nodes."""
        return durations(self, nodes, *self.timed_by(nodes))

    def clocked(self, nodes: ComputeNodes) -> Clocked | None:
        """The clock of a rank that runs these nodes, and what it draws; None: its clock is given."""
        if not self.sustained:
            return None
        model, predict = self.timed_by(nodes)
        return _clocked(self, model, _timing(self, nodes, model, predict))

    def mix(self, nodes: ComputeNodes) -> Mix | None:
        """What each of these nodes loads the chip with; None: no clock follows from that alone."""
        if not self.sustained or self.unknown == "recorded":
            return None
        model, predict = self.timed_by(nodes)
        return _mix(self, model, _timing(self, nodes, model, predict))


class Work(Struct, frozen=True, eq=False):
    """The nodes of a class by what times them: indexes of hosts, of nodes with a kernel, of the others."""

    host: I64
    known: I64
    number: I64         # [known] of the node's kernel
    unknown: I64


def split(nodes: ComputeNodes, skipped: Bool) -> Work:
    """The nodes by what times them. `skipped` [kernels]: those that nothing predicts."""
    number = np.full(len(nodes), -1) if nodes.kernel is None else np.asarray(nodes.kernel, np.int64)
    number = np.where(np.append(skipped, False)[number], -1, number)
    host = nodes.host | np.append(tabled(nodes.kernels).column("kind") == "host", False)[number]
    known = np.flatnonzero(~host & (number >= 0))
    return Work(np.flatnonzero(host), known, number[known], np.flatnonzero(~host & (number < 0)))


class Timing(Struct, frozen=True, eq=False):
    """Nodes of a class by what times them; the table of their kernels, and ns of each of these at a clock."""

    nodes: ComputeNodes
    work: Work
    table: KernelTable
    each: Callable[[float], F64]


def _timing(setting: Predicted, nodes: ComputeNodes, model: DeviceModel, predict: Predict) -> Timing:
    _bandwidth_agrees(nodes, model)
    nodes = with_operators(nodes)
    skipped = (_without_rates(nodes, model) if setting.unknown == "recorded"
               else np.zeros(len(nodes.kernels), np.bool_))
    # Every kernel, used by this class of ranks or not: other classes have the same tuple, and the cache answers.
    table = tabled(nodes.kernels)
    timed = (table.column("kind") != "host") & ~skipped
    kernels = nodes.kernels if timed.all() else tuple(itertools.compress(nodes.kernels, timed.tolist()))
    gaps, factors = table.column("launches") * float(setting.launch_gap), factors_of(table, setting.in_situ)

    def each(clock: float) -> F64:
        found = np.zeros(len(table))
        found[timed] = predict(kernels, clock) * factors[timed] + gaps[timed]
        return found

    return Timing(nodes, split(nodes, skipped), table, each)


def load_of(setting: Predicted, nodes: ComputeNodes, model: DeviceModel, predict: Predict) -> Load:
    """What the nodes of a rank load its chip with (arguments: see `durations`)."""
    return _load(setting, model, _timing(setting, nodes, model, predict))


def _load(setting: Predicted, model: DeviceModel, timing: Timing) -> Load:
    """The mix of a class's kernels. Between two clocks the time of all goes with 1 / clock."""
    from astrarium.compute.kernels.power import Load

    nodes, work = timing.nodes, timing.work
    runs = np.bincount(work.number, minlength=len(timing.table))
    flops = float(runs @ _flops(model, timing.table, runs))
    other = work.unknown if setting.unknown == "recorded" else work.unknown[:0]
    hosts, others = (float(nodes.duration[some].sum()) / 1000 for some in (work.host, other))
    fast, slow = (float(runs @ timing.each(clock)) for clock in (1.0, SLOW))
    return Load(flops, float(runs @ timing.table.column("bytes")),
                lambda clock: others + fast + (slow - fast) * (1 / clock - 1) / (1 / SLOW - 1), hosts)


def _flops(model: DeviceModel, table: KernelTable, runs: I64) -> F64:
    """[kernels] flops of the products that run, in bf16 ones."""
    found, peak = np.zeros(len(table)), model.machine.peak("bf16")
    for part in table.parts:
        if part.kind in PRODUCTS and runs[part.place].any():
            found[part.place] = part.flops * (peak / model.machine.peak(part.precision))
    return found


def _mix(setting: Predicted, model: DeviceModel, timing: Timing) -> Mix:
    from astrarium.compute.kernels.power import FOLLOWS, Mix

    fast, slow = (timing.each(clock) for clock in (1.0, SLOW))
    kernels = np.stack([_flops(model, timing.table, np.bincount(timing.work.number, minlength=len(timing.table))),
                        timing.table.column("bytes"), fast, (slow - fast) * FOLLOWS / (1 / SLOW - 1)])
    found = np.zeros((4, len(timing.nodes)))
    found[:, timing.work.known] = kernels[:, timing.work.number]
    return Mix(*_limit(setting, model), found)


def _limit(setting: Predicted, model: DeviceModel) -> tuple[Chip, int, float]:
    """A chip, its units, and the power (W) that it keeps to."""
    from astrarium.compute.kernels.power import chip_of

    chip = model.chip or chip_of(model.machine.name)
    return chip, model.machine.units, chip.limit if setting.power is None else float(setting.power)


def _clocked(setting: Predicted, model: DeviceModel, timing: Timing) -> Clocked:
    from astrarium.compute.kernels.power import clocked

    return clocked(*_limit(setting, model), _load(setting, model, timing))


def durations(setting: Predicted, nodes: ComputeNodes, model: DeviceModel, predict: Predict) -> I64:
    """ps [nodes]: kernels as `predict` says (ns of each kernel at a clock), the hosts' nodes as recorded, and what
    names no kernel by `setting.unknown`."""
    from astrarium.compute.kernels.power import effective

    timing = _timing(setting, nodes, model, predict)
    nodes, work, ns = timing.nodes, timing.work, np.zeros(len(nodes))
    clock = effective(_clocked(setting, model, timing).share) if setting.clock == "sustained" else setting.clock
    ns[work.known] = timing.each(clock)[work.number]
    keeps = setting.unknown == "recorded"
    if not keeps:
        ns[work.unknown] = _roofline(setting, nodes, model, work.unknown, clock) + float(setting.launch_gap)
    found = to_ps(ns)
    if keeps:
        found[work.unknown] = replayed(nodes, None, work.unknown)
    found[work.host] = replayed(nodes, setting.missing, work.host)
    return found


def with_operators(nodes: ComputeNodes) -> ComputeNodes:
    """Recorded nodes with the kernels that their operators say."""
    if nodes.kernel is not None or nodes.operators is None:
        return nodes
    kernel, kernels = nodes.operators()
    return replace(nodes, kernel=kernel, kernels=kernels)


def _without_rates(nodes: ComputeNodes, model: DeviceModel) -> Bool:
    """[kernels] whether the device cannot predict them."""
    from astrarium.compute.kernels.predict import no_rates

    return np.array([kernel.kind != "host" and bool(no_rates(model, kernel)) for kernel in nodes.kernels], np.bool_)


def _bandwidth_agrees(nodes: ComputeNodes, model: DeviceModel) -> None:
    given, measured = nodes.memory.bandwidth, model.machine.bandwidth
    if given is not None and not near(given, measured):
        raise InputError("memory.bandwidth", f"{given:g} GB/s is not the memory of {model.machine.name}, whose kernels "
                         "were measured", expected=f"{measured:g} GB/s within 10 %, or compute.model: analytic")


def _roofline(setting: Predicted, nodes: ComputeNodes, model: DeviceModel, chosen: I64, clock: float) -> F64:
    from astrarium.compute.kernels.predict import stream_ns

    if setting.unknown == "refuse":
        for node in chosen[:1].tolist():
            raise nodes.refusal(node, "names no kernel, so nothing measured is its time",
                                "a workload that Astrarium makes, compute.unknown: recorded or roofline, or the data "
                                "sheet (compute: {like: DEVICE, model: roofline})")
    if not len(chosen):
        return np.zeros(0)
    moved = np.asarray(nodes.tensor_bytes[chosen], np.float64)
    peak = model.machine.peak("bf16") * clock
    return np.maximum(np.nan_to_num(nodes.num_ops[chosen]) / peak, stream_ns(model.machine, moved))

