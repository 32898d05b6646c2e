"""Collectives that run as GPU kernels (`collective.kernels`): which kernel, and how long it takes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from astrarium import catalog
from astrarium.cache import Cache
from astrarium.collective.bandwidth import payload
from astrarium.collective.groups import SubDim
from astrarium.config import decode
from astrarium.design import Design
from astrarium.engine.plan import Chunk, CollectivePlan, Phase
from astrarium.errors import InputError, UnsupportedError, nearest
from astrarium.gpu import Gpu, Kernels
from astrarium.units import format_bytes
from astrarium.vocab import CommOp, PeerMode, Schedule

__all__ = ["KernelTimer", "kernel_gpu", "kernels_of"]

PATH = "collective.kernels"


class KernelTimer:
    """The kernels of a design. `kept`: times of kernels that were simulated before."""

    def __init__(self, design: Design, kept: Cache[Any]) -> None:
        assert design.collective.kernels is not None
        self._times, self._kept = design.collective.kernels, kept
        self._libraries: tuple[str, ...] = tuple(self._times.libraries)
        self._device, self._gpu = kernel_gpu(design)
        _needs_innermost(design)
        _needs_steady_links(design)

    def plan(self, op: CommOp, size: int, shape: Sequence[SubDim], members: int) -> CollectivePlan | None:
        """A collective of a given time, that of its kernel; None: it has none. `size` counts as an operation's in a
        trace does."""
        chosen, library = self._times.of(op), ""
        if any(part.dim != 0 for part in shape):
            self._needs_one_host(op, members, chosen)
            return None
        if chosen is None:
            library = next((each for each in self._libraries if _has(each, op, size, members)), "")
        if chosen is None and not library:
            return None
        lasts, kernels = self._fastest(op, size, members, (chosen,) if chosen else self._of(library, op, size, members))
        words = f"{kernels.name} of {library}{self._beyond(library, op, size, members)}" if library else kernels.name
        return CollectivePlan(int(op), size, (), lasts=lasts, how=f"kernel: {words}")

    def with_phases(self, plan: CollectivePlan, shape: Sequence[SubDim]) -> CollectivePlan:
        """A collective by messages: its phases in the innermost dim last as long as their kernels, if they are given by
        operation. A group inside that dim says that no library has a kernel for it."""
        numbers = {phase for chunk in plan.chunks for phase in chunk.phases
                   if phase.dim == 0 and phase.n > 1 and self._times.of(CommOp(phase.op)) is not None}
        if not numbers and self._libraries and all(part.dim == 0 for part in shape):
            return replace(plan, how=f"{plan.how}; no kernel of {', '.join(self._libraries)}".removeprefix("; "))
        if not numbers:
            return plan
        timed = {phase: self._phase(phase) for phase in numbers}
        names = sorted({f"{CommOp(phase.op).name.lower()} {chosen.name}" for phase in numbers
                        if (chosen := self._times.of(CommOp(phase.op))) is not None})
        chunks = [Chunk(chunk.repeat, tuple([timed.get(phase, phase) for phase in chunk.phases]))
                  for chunk in plan.chunks]
        return replace(plan, chunks=tuple(chunks), how=f"{plan.how}; innermost: kernel {', '.join(names)}")

    def _phase(self, phase: Phase) -> Phase:
        """The phase without messages, of a given time."""
        op = CommOp(phase.op)
        chosen = self._times.of(op)
        assert chosen is not None
        lasts, _ = self._fastest(op, phase.size, phase.n, (chosen,))
        quiet = self._kept.get(("kernel without messages", phase.op, phase.n), lambda: _quiet(op, phase.n))
        return replace(phase, schedule=quiet, in_switch=None, lasts=lasts)

    def _needs_one_host(self, op: CommOp, members: int, kernels: Kernels | None) -> None:
        """Raise UnsupportedError for a program that is for all GPUs of a group over several dims."""
        if kernels is None or kernels.program is None:
            return
        from astrarium.gpu.kernels.programs import digest, program_gpus

        name, path = kernels.program, f"{PATH}.{op.name.lower()}"
        gpus: int = self._kept.get(("program for", name, digest(kernels, path=path)),
                                   lambda: program_gpus(name, path=path))
        if gpus == members:
            raise UnsupportedError(f"{path}.program", f"{name} is for {gpus} GPUs, and this group of {members} lies "
                                   "over several hosts: links between hosts are not part of a kernel's GPU",
                                   expected="a program for the GPUs of one host (network.dims[0])")

    def _fastest(self, op: CommOp, size: int, members: int, choices: Sequence[Kernels]) -> tuple[int, Kernels]:
        """(ps, kernel) of the fastest one, the first of equal ones."""
        return min([(self._lasts(op, size, members, each), each) for each in choices], key=lambda found: found[0])

    def _lasts(self, op: CommOp, size: int, members: int, kernels: Kernels) -> int:
        """Time of a kernel in ps."""
        from astrarium.gpu import kernel_time
        from astrarium.gpu.kernels.programs import digest

        path = f"{PATH}.{op.name.lower()}"

        def simulated() -> int:
            return kernel_time(op, payload(op, size, members), members, self._gpu, kernels, units=units,
                               path=path).makespan

        units = self._times.units
        lasts: int = self._kept.get(("kernel", op, size, members, self._gpu, kernels, units,
                                     digest(kernels, path=path)), simulated)
        return lasts

    def _of(self, library: str, op: CommOp, size: int, members: int) -> tuple[Kernels, ...]:
        from astrarium.gpu import library_kernels

        return library_kernels(library, self._device, op, payload(op, size, members), members,
                               path=f"{PATH}.libraries[{self._libraries.index(library)}]")

    def _beyond(self, library: str, op: CommOp, size: int, members: int) -> str:
        """What lies outside the measured collectives with which the kernels of a library were compared."""
        from astrarium.gpu.kernels.libraries import measured

        if self._times.gpu is not None:
            return f" (unvalidated: the GPU is not the catalog's {self._device})"
        rows = measured(library, self._device, op, members)
        if rows is None:
            return f" (unvalidated: not measured on {members} GPUs of {self._device})"
        if rows.least <= payload(op, size, members) <= rows.most:
            return ""
        return f" (unvalidated: measured from {format_bytes(rows.least)} to {format_bytes(rows.most)})"


def kernels_of(design: Design, kept: Cache[Any]) -> KernelTimer | None:
    """The kernels of a design; None: it has none."""
    return None if design.collective.kernels is None else KernelTimer(design, kept)


def kernel_gpu(design: Design) -> tuple[str, Gpu]:
    """(row of the catalog, GPU) on which a design's kernels run. The row is empty for a GPU of no catalog without
    libraries. Raises InputError where the design does not say it."""
    times = design.collective.kernels
    assert times is not None
    name, known = times.device, catalog.load("gpus")
    if name is None:
        device = getattr(design.compute, "device", None)
        name = next((row for row, columns in known.items() if columns["device"] == device), None)
        if name is not None and any(kind.compute not in (None, design.compute) for kind in design.npu_types):
            raise InputError(f"{PATH}.device", "is missing, and npu_types have other devices", expected="the one on "
                             "which kernels run")
    elif name not in known:
        raise InputError(f"{PATH}.device", f"{name[:60]!r} is not known", expected="one of " + ", ".join(known),
                         did_you_mean=nearest(name, known))
    if times.gpu is not None and (name is not None or not times.libraries):
        return name or "", times.gpu
    if name is None:
        raise InputError(f"{PATH}.device", "is missing, and compute names no device with one", expected="one of "
                         + ", ".join(known))
    return name, decode(Gpu, {"like": name})


def _has(library: str, op: CommOp, size: int, members: int) -> bool:
    from astrarium.gpu.kernels.libraries import has_kernels

    return has_kernels(library, op, payload(op, size, members), members)


def _needs_innermost(design: Design) -> None:
    """Raise UnsupportedError on a graph without dims: all NPUs, of every host, are its one dim."""
    if design.network.fabric is None or design.network.dims:
        return
    from astrarium.network.planned import on_graph

    if on_graph(design.network):
        raise UnsupportedError(PATH, "on a graph no dim is the innermost one", expected="network.dims "
                               "together with network.fabric: kernels run in the first dim")


def _needs_steady_links(design: Design) -> None:
    """Raise UnsupportedError for links of the innermost dim whose speed changes, which a kernel would not notice."""
    for place, change in enumerate(design.network.changes):
        ends = change.link or ()
        if all(isinstance(end, int) for end in ends) and len(
                {int(end) // design.network.flat[0].npus for end in ends}) == 1:
            raise UnsupportedError(f"network.changes[{place}].link", f"{list(ends)} inside the innermost dim, whose "
                                   "kernels (collective.kernels) know of no changes", expected="links of other dims")


def _quiet(op: CommOp, n: int) -> Schedule:
    """A schedule without messages."""
    none, pointer = np.zeros(0, np.int32), np.zeros(2, np.int32)
    return Schedule(op=op, algorithm="kernel", n=n, blocks=1, peer_mode=PeerMode.RELATIVE,
                    program=np.zeros(n, np.int32), send_ptr=pointer, send_peer=none, send_needs=none, send_match=none,
                    send_block_ptr=np.zeros(1, np.int32), send_block=none, recv_ptr=pointer, recv_peer=none,
                    recv_reduce=np.zeros(0, np.bool_))
