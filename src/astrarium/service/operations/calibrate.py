"""Make a device, a fabric, or the constants of an engine of what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from astrarium.errors import InputError
from astrarium.report.tables.table import Table
from astrarium.service.answer import Answer
from astrarium.service.context import Context
from astrarium.service.operations.fields import command
from astrarium.service.operations.validate import Measured

__all__ = ["Calibrate", "calibrate", "command_of"]

Made = tuple[str, str, Table, Sequence[str]]        # text, its ending, errors before and after, notes


class Calibrate(Struct, frozen=True, forbid_unknown_fields=True):
    """Calibrate by measurements; the answer has the errors before and after. With `base`: timings of kernels (CSV)
    correct a device, and a design names the file as its compute. With `fabric` and `link_bandwidth`: logs of
    nccl-tests give times of collectives. With `serving`: the log of an engine gives the overhead of its policy."""

    files: Measured
    base: Annotated[str, Meta(description="Device with measured kernels.", examples=["h100_sxm"])] = ""
    fabric: Annotated[str, Meta(description="Name of the new fabric.", examples=["mine"])] = ""
    link_bandwidth: Annotated[str, Meta(description="Of one NPU (several hosts: of its NIC), from the data sheet.",
                                        examples=["450 GB/s"])] = ""
    inside: Annotated[str, Meta(description="Logs of several hosts: the fabric inside them.")] = ""
    serving: Annotated[str, Meta(description="A serving file of the folder.")] = ""
    save: Annotated[str, Meta(description="Save the result under this name, without an ending.")] = ""


def command_of(request: Calibrate, context: Context) -> str:
    """The command line of a calibration. Raises InputError for a file that is not there, and for wrong parts."""
    for name in (*request.files, *([request.serving] if request.serving else [])):
        context.folder.path(name, "files")
    ways = [name for name in ("base", "fabric", "serving") if getattr(request, name)]
    if len(ways) != 1:
        raise InputError(ways[1] if ways else "base", "is one too many" if ways else "is missing",
                         expected="base (of kernels), fabric (of collectives) or serving (of an engine)")
    if bool(request.fabric) != bool(request.link_bandwidth) or (request.inside and not request.fabric):
        raise InputError("link_bandwidth", "goes with fabric", expected='such as "450 GB/s"')
    words = []
    for name in ("base", "fabric", "link_bandwidth", "inside", "serving"):
        words += [f"--{name.replace('_', '-')}", value] if (value := getattr(request, name)) else []
    words += ["-o", request.save + (".yaml" if request.serving else ".toml")] if request.save else []
    return command("calibrate", request.files, words)


def calibrate(request: Calibrate, context: Context) -> Answer:
    """See `Calibrate`."""
    from astrarium.report.pages.about import About
    from astrarium.report.pages.page import ShownTables

    said = command_of(request, context)
    make = _engine if request.serving else _fabric if request.fabric else _device
    text, ending, table, notes = make(request)
    name, title = request.save + ending, f"calibration by {', '.join(request.files)}"
    files = (context.folder.write(name, text),) if request.save else ()
    about = About({"files": ", ".join(request.files)}, {name if request.save else f"calibrated{ending}": text})
    shown = ShownTables("Calibration", "Errors of the model on the rows that were measured.", [table], None, notes,
                        about)
    return Answer(title=title, tables=(table,), notes=tuple(notes), files=files, command=said, found={"text": text},
                  page="calibrate", result=shown)


def _device(request: Calibrate) -> Made:
    from astrarium.compute.kernels import load
    from astrarium.compute.timings import read_timings
    from astrarium.report.tables.calibration import class_table
    from astrarium.validate.calibrate import device_by_timings

    load(request.base)
    made = device_by_timings(request.base, [timing for name in request.files for timing in read_timings(name)])
    return made.text, ".toml", class_table(made.found.counts, made.errors), made.notes


def _fabric(request: Calibrate) -> Made:
    from astrarium.report.tables.calibration import error_table
    from astrarium.validate.calibrate import fabric_by_logs

    made = fabric_by_logs(request.fabric, request.link_bandwidth, request.files, request.inside)
    return made.text, ".toml", error_table(made.errors), ()


def _engine(request: Calibrate) -> Made:
    from astrarium.report.tables.calibration import engine_table
    from astrarium.validate.calibrate import engine_by_log

    if len(request.files) > 1:
        raise InputError("files", f"{len(request.files)} logs", expected="one log of one engine")
    made = engine_by_log(request.files[0], request.serving)
    return made.text, ".yaml", engine_table(made.found), made.notes
