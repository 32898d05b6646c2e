"""`with collect("out/"):` records what a process does with PyTorch, and links it."""

from __future__ import annotations

import os
import secrets
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from astrarium.errors import InputError
from astrarium.profile.collector.flight import Flight, completed
from astrarium.profile.link import LinkReport, link, write_linked
from astrarium.profile.link.records import ALONE
from astrarium.profile.link.unrecorded import Clock
from astrarium.trace._torch import torch_module

__all__ = ["Recording", "collect"]

TIMED = 3       # steps that are timed without the profilers; their median counts
LATE = 0.01     # s in which CPU back ends' threads end the records of operations that are done


class Recording(Struct):
    """What is recorded of this process. The files exist, and `trace` and `report` are set, when the block has ended.

    `notes` says what could not be recorded.
    """

    folder: Path
    rank: int = 0
    host: Path | None = None            # ExecutionTraceObserver's file
    device: Path | None = None          # Kineto's
    trace: Path | None = None           # the linked one
    report: LinkReport | None = None
    notes: list[str] = field(default_factory=list)
    _steps: Any = None

    def step(self) -> None:
        """Ends one step and begins the next: annotations `ProfilerStep#0`, `#1`, … as PyTorch's profiler makes them."""
        self._steps.next()


class _Steps:
    def __init__(self, record_function: Any) -> None:
        self._make, self._number = record_function, 0
        self._open: Any = None

    def next(self) -> None:
        self.close()
        self._open = self._make(f"ProfilerStep#{self._number}")
        self._open.__enter__()
        self._number += 1

    def close(self) -> None:
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None


@contextmanager
def collect(folder: str | os.PathLike[str], *, linked: bool = True, prefix: str = "trace",
            step: Callable[[], object] | None = None, clock: Clock | None = None) -> Iterator[Recording]:
    """Records the block: host operators, times, kernels where there is a GPU, collectives and their groups.

    Writes `host.<rank>.json`, `device.<rank>.json` and, unless `linked` is False, `<prefix>.<rank>.et` into `folder`,
    which is made. Every process of a `torchrun` records into the same folder. Warm up before the block. With `step`,
    which runs one step, a few are timed before the profilers start: the linked trace then says how long a step takes
    without them as it was measured, and not as the recording lets one estimate. `clock` as in `link`. Nothing is
    written where the block raises. Raises InputError where PyTorch is not installed, or the folder cannot be made.
    """
    torch = torch_module()
    profiler = torch_module("torch.profiler")
    where = Path(folder)
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(where), f"cannot be made ({error.strerror})", expected="a folder to write to") from None
    alone = None if step is None else _timed(torch, step)
    mark = secrets.token_hex(6)
    host, device = where / f".host.{mark}.json", where / f".device.{mark}.json"
    recording, flight = Recording(where), Flight()
    try:
        with ExitStack() as stack:
            profile = stack.enter_context(_profile(torch, profiler, host))
            recording._steps = _Steps(profiler.record_function)
            stack.callback(_settle, torch, recording._steps)
            recording.step()
            yield recording
        profile.export_chrome_trace(str(device))
        recording.rank = _rank()
        _finish(recording, flight, host, device)
        if alone is not None:
            _say(recording, alone)
    finally:
        for path in (host, device):
            with suppress(FileNotFoundError):
                path.unlink()
    if linked:
        result = link(recording.host, recording.device, rank=recording.rank, clock=clock)
        recording.trace = Path(write_linked(where / prefix, result))
        recording.report = result.report


def _profile(torch: Any, profiler: Any, host: Path) -> Any:
    """Both profilers; with a GPU its kernels and synchronisation too."""
    activities = [profiler.ProfilerActivity.CPU]
    settings = None
    if torch.cuda.is_available():
        activities.append(profiler.ProfilerActivity.CUDA)
        settings = profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    observer = profiler.ExecutionTraceObserver().register_callback(str(host))
    return profiler.profile(activities=activities, execution_trace_observer=observer, experimental_config=settings)


def _timed(torch: Any, step: Callable[[], object]) -> float:
    """us of a step without the profilers, until the GPU is done with it."""
    taken = []
    for _ in range(TIMED):
        begin = time.perf_counter()
        step()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1e6


def _say(recording: Recording, alone: float) -> None:
    """Writes what a step takes alone into the device trace, where linking finds it."""
    assert recording.device is not None
    document: dict[str, Any] = msgspec.json.decode(recording.device.read_bytes())
    document[ALONE] = alone
    recording.device.write_bytes(msgspec.json.encode(document))


def _settle(torch: Any, steps: _Steps) -> None:
    """What is still on its way belongs to the block: kernels, and ends of operations on other threads."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    steps.close()
    distributed = torch_module("torch.distributed")
    if distributed.is_available() and distributed.is_initialized():
        time.sleep(LATE)


def _rank() -> int:
    """This process's rank: the process group's, else torchrun's, else 0."""
    distributed = torch_module("torch.distributed")
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    text = os.environ.get("RANK", "0")
    return int(text) if text.isascii() and text.isdigit() else 0


def _finish(recording: Recording, flight: Flight, host: Path, device: Path) -> None:
    """The files under their names; the device trace with what Kineto leaves out of gloo's collectives."""
    issued = flight.since()
    if issued is None:
        recording.notes.append("more collectives than PyTorch's flight recorder keeps (TORCH_FR_BUFFER_SIZE): "
                               "groups and sizes of gloo's are not recorded")
    elif issued:
        data, note = completed(device.read_bytes(), issued)
        device.write_bytes(data)
        recording.notes += [note] if note else []
    recording.host = recording.folder / f"host.{recording.rank}.json"
    recording.device = recording.folder / f"device.{recording.rank}.json"
    os.replace(host, recording.host)
    os.replace(device, recording.device)
