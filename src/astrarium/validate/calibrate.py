"""Calibrate a device, a fabric or an engine by measurements: one path for the command line and the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from astrarium.errors import InputError
from astrarium.units import Bandwidth, format_time

if TYPE_CHECKING:
    from astrarium.compute.calibration import Calibration
    from astrarium.compute.kernels import Machine
    from astrarium.compute.timings import Timing
    from astrarium.validate.serving.calibrate import Constants

__all__ = ["Device", "Engine", "Fabric", "class_sentence", "device_by_timings", "engine_by_log", "fabric_by_logs"]

Errors = Mapping[str, tuple[tuple[float, float], tuple[float, float]]]


class Device(Struct, frozen=True):
    """A calibrated device: `text` of its file, errors per class before and after, and `notes` beside the `sentences`
    of its classes."""

    text: str
    found: Calibration
    errors: Errors
    sentences: tuple[str, ...]
    notes: tuple[str, ...]


class Fabric(Struct, frozen=True):
    """A calibrated fabric: `text` of its row, median error per operation."""

    text: str
    errors: Mapping[str, float]

    @property
    def notes(self) -> list[str]:
        """The errors in words."""
        return [f"{name}: median error {100 * error:.1f} %" for name, error in self.errors.items()]


class Engine(Struct, frozen=True):
    """Constants of an engine's host: `text` of its policy; `notes` on the log and the times."""

    text: str
    found: Constants
    notes: tuple[str, ...]


def device_by_timings(base: str | Machine, timings: Sequence[Timing], used: Sequence[str] = ()) -> Device:
    """Correct a device, or a data sheet, by timings of kernels. `used`: what they were taken from, in words."""
    from astrarium.compute.calibration import calibrated, unseen_errors
    from astrarium.compute.calibration_file import dumps

    found = calibrated(base, timings)
    errors = unseen_errors(found)
    sentences = tuple(class_sentence(name, count, errors.get(name)) for name, count in found.counts.items())
    streams = () if found.stream == 1 else (f"streams take {found.stream:.3g} times the predicted time",)
    return Device(dumps(found, "\n".join((*used, *sentences, *streams))), found, errors, sentences, (*used, *streams))


def class_sentence(name: str, rows: int, errors: tuple[tuple[float, float], tuple[float, float]] | None) -> str:
    """A class of kernels: how many rows, and the errors of rows left out."""
    if errors is None:
        return f"{name}: {rows} rows, too few to state an error"
    (median, p90), (median_after, p90_after) = errors
    if errors[0] == errors[1]:
        return (f"{name}: {rows} rows; error median {median:g} %, p90 {p90:g} %; not corrected, as rows left out are "
                "no nearer with a correction")
    return (f"{name}: {rows} rows; error median {median:g} %, p90 {p90:g} % before, {median_after:g} %, "
            f"{p90_after:g} % after (on rows left out)")


def fabric_by_logs(name: str, link: str, paths: Sequence[str], inside: str | None, dashes: str = "") -> Fabric:
    """A fabric of logs of nccl-tests.

    Args:
        name: of the new fabric.
        link: bandwidth out of one NPU, or of its NIC, of the data sheet.
        paths: logs, all inside one host, or all over several.
        inside: the fabric inside the hosts, of logs over several.
        dashes: what stands before the names of fields in messages: "--" on the command line.

    Raises:
        InputError: for a wrong name or `inside`, and for logs of both kinds.
    """
    from astrarium.collective.fabrics import fabric, names
    from astrarium.collective.nccl_hosts import hosts_text
    from astrarium.collective.nccl_log import fabric_text, read_log

    if not name.isidentifier():
        raise InputError(f"{dashes}fabric", f"{name[:60]!r} is no name", expected="letters and digits")
    logs, rate = [read_log(path) for path in paths], float(Bandwidth(link))
    several = {log.hosts > 1 for log in logs}
    if len(several) > 1:
        raise InputError(f"{dashes}fabric", "the logs are of one host and of several",
                         expected=f"those of one host first, then the others with {dashes}inside")
    if several != {True}:
        if inside:
            raise InputError(f"{dashes}inside", "has no effect here", expected="with logs of several hosts")
        return Fabric(*fabric_text(name, link, rate, logs))
    host = fabric(inside, f"{dashes}inside") if inside else None
    if host is not None and host.kind != "host":
        raise InputError(f"{dashes}inside", f"{host.name} lies between hosts",
                         expected="one of " + ", ".join(names("host")))
    return Fabric(*hosts_text(name, link, rate, logs, host))


def engine_by_log(path: str, serving: str) -> Engine:
    """The constants of an engine's host with which a serving file gives the mean times of a log. Raises InputError."""
    from astrarium.design import load_design
    from astrarium.serving.serve import load_serving
    from astrarium.validate.serving.calibrate import fitted
    from astrarium.validate.serving.log import log_notes, read_log

    file = load_serving(serving)
    log, design = read_log(path), load_design(file.alone)
    found = fitted(log, design, file.policy)
    text = f"policy: {{overhead: {found.overhead:.4g} us, stream_offset: {found.offset:.4g} ms}}\n"
    notes = list(log_notes(path, log))
    times = [(name, *(getattr(getattr(found, when), name) for when in ("measured", "before", "after")))
             for name in ("tpot", "ttft")]
    notes += [f"mean {name}: measured {_ms(measured)}, predicted {_ms(before)}, with these constants {_ms(after)}"
              for name, measured, before, after in times]
    notes += [f"mean {name} is predicted too long without any host time: no constant makes it shorter (compute, memory "
              "and network of the design, or the log's units)"
              for name, measured, _, after in times if after > 1.01 * measured]
    return Engine(text, found, tuple(notes))


def _ms(value: float) -> str:
    return format_time(value * 1e6)
