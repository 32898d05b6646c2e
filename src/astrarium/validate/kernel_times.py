"""What the models of kernels say of rows of measured kernels, all of a device and framework at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from astrarium.compute import kernels
from astrarium.compute.kernels.machine import BYTES
from astrarium.compute.kernels.power import Load, chip_of, clocked, effective
from astrarium.errors import InputError
from astrarium.validate.kernel_rows import Asked, asked_of, identity
from astrarium.validate.rows import Row
from astrarium.validate.systems import system_of

__all__ = ["KernelTime", "Meant", "fitted_kernels", "kernel_times"]

RESULT = 2.0        # bytes of an element of a product's result


class Meant(Struct, frozen=True):
    """What a row of a kernel was taken for: its `group`; the rest as in designs.Candidate."""

    group: str
    device: str
    stack: str = "none"
    assumed: tuple[str, ...] = ()
    stated: bool = True


class KernelTime(Struct, frozen=True):
    """Prediction of a row: the time, ns, in a long run the mean clock (cycle/ns; 0: it was a short run), and the time
    of copies beside a product, ns (0: there are none)."""

    meant: Meant
    ns: float
    clock: float = 0.0
    copies: float = 0.0


def kernel_times(rows: Sequence[Row]) -> list[KernelTime | InputError]:
    """The time of each row's kernel, or why it has none."""
    found: list[KernelTime | InputError | None] = [None] * len(rows)
    groups: dict[tuple[str, str], list[tuple[int, Asked]]] = {}
    for number, row in enumerate(rows):
        try:
            device, asked = system_of(row).device, asked_of(row.values)
            if asked.sustained:
                found[number] = _sustained(device, asked)
            else:
                groups.setdefault((device, asked.framework), []).append((number, asked))
        except InputError as error:
            found[number] = error
    for (device, framework), several in groups.items():
        for number, each in zip([number for number, _ in several], _times(device, framework, several), strict=True):
            found[number] = each
    return [each for each in found if each is not None]


def _times(device: str, framework: str, several: Sequence[tuple[int, Asked]]) -> Sequence[KernelTime | InputError]:
    """Times of one device and framework; if they cannot be timed together, one by one."""
    try:
        ns = kernels.latency_ns(kernels.load(device), [asked.kernel for _, asked in several], framework)
    except InputError as error:
        return [error] if len(several) == 1 else [_times(device, framework, [each])[0] for each in several]
    return [KernelTime(Meant(asked.group, device), float(each)) for (_, asked), each in zip(several, ns, strict=True)]


def _sustained(device: str, asked: Asked) -> KernelTime:
    """A product that runs again and again at the clock that the power limit leaves."""
    model, kernel = kernels.load(device), asked.kernel
    chip, machine = chip_of(device), model.machine

    def busy(clock: float) -> float:
        return float(kernels.latency_ns(model, [kernel], asked.framework, clock)[0])

    batch, m, n, k = kernel.shape
    moved = batch * (BYTES[kernel.precision] * k * (m + n) + RESULT * m * n)
    flops = kernel.flops * machine.peak("bf16") / machine.peak(kernel.precision)
    own = clocked(chip, machine.units, chip.limit, Load(flops, moved, busy))
    return KernelTime(Meant(asked.group, device), busy(effective(own.share)), own.clock)


def fitted_kernels(rows: Iterable[Row]) -> list[bool]:
    """Whether each row is one of a kernel on which its device's model was fitted."""
    found = []
    for row in rows:
        try:
            found.append(row.kind == "kernel" and identity(row.values) in kernels.load(system_of(row).device).seen)
        except InputError:
            found.append(False)
    return found
