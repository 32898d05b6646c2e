"""The software stack of a plan that names none: a current one that runs the job, the best validated on the device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from astrarium import catalog
from astrarium.compute import kernels
from astrarium.cost.interval import ANYWHERE, FEWEST
from astrarium.cost.support import Support, format_of, kind_of
from astrarium.planner.job import Job
from astrarium.stack import layouts_of

__all__ = ["Chosen", "limited", "needs_of", "other_stack", "usual_stack"]

STAGES = (0, 1, 2, 3)
RUNS = ("model", "precision", "zero")      # axes that a stack may not run every value of


class Chosen(Struct, frozen=True):
    """`stack`: its name in the catalog, None: none; `why`: a sentence about the choice, empty where none was made."""

    stack: str | None
    why: str = ""


def needs_of(job: Job, fixed: Mapping[str, Sequence[Any]] | None = None) -> Support:
    """What a stack has to run: the model, the format of products, and the ZeRO stages that layouts may have (`fixed`:
    part of a layout -> its only values)."""
    zero = tuple((fixed or {}).get("zero", STAGES))
    return Support(model=(kind_of(job.base.model),), precision=(format_of(job.base),), zero=zero)


def limited(stack: str | None, fixed: Mapping[str, Sequence[Any]] | None
            ) -> tuple[dict[str, Sequence[Any]], str]:
    """(the only values of parts of a layout, a sentence about those that are the stack's): what the caller says, else
    what a stack that the caller names has: stages of ZeRO that it runs, and other parts (column `layout`)."""
    theirs = {part: tuple(values) for part, values in layouts_of(stack).items() if part not in (fixed or {})}
    said = ", ".join(f"{part} {' or '.join(map(str, values))}" for part, values in theirs.items())
    why = f"stack {stack} has {said} (to change: --fix)" if theirs else ""
    return {**theirs, **(fixed or {})}, why


def usual_stack(devices: Sequence[str], compute: str | None, collectives: str | None,
                needs: Support | None = None) -> Chosen:
    """The stack of a plan that leaves it open: of those that are current and run all that is needed, the one whose
    measured rows lie nearest to the job (on the fewest axes outside them, of which the first measured device is one),
    and among these the one with the narrowest interval. None where times are not measured: constants of stacks are
    factors of measured times."""
    device = next((each for each in devices if kernels.named(each) is not None), None)
    if (compute or "measured") != "measured" or (collectives or "measured") != "measured" or device is None:
        return Chosen(None)
    wanted = needs or Support(zero=STAGES)
    names = [name for name, row in catalog.load("stacks").items() if "not_default" not in row
             and all(set(getattr(wanted, axis)) <= set(row.get("runs", {}).get(axis, getattr(wanted, axis)))
                     for axis in RUNS)]
    ranked = sorted(_ranked(names, kernels.named(device) or device, wanted))
    if not ranked:
        return Chosen(None, f"stack: none, as no current one with measured rows runs {_words(wanted)}")
    axes, _, name, rows = ranked[0]
    rest = "of the current stacks that run the job"
    if rows < FEWEST:
        return Chosen(name, f"stack: {name}, the nearest {rest}; not validated on {device} ({rows} unseen measured "
                            "rows)")
    unlike = f", not with {_words(wanted)}" if axes else ""
    return Chosen(name, f"stack: {name}, the best validated on {device} {rest} ({rows} unseen measured rows{unlike})")


def other_stack(chosen: str | None, devices: Sequence[str], compute: str | None, collectives: str | None, job: Job,
                fixed: Mapping[str, Sequence[Any]] | None) -> str:
    """A note that stages of ZeRO that are `fixed` changed the stack to `chosen`; empty if a plan without them has the
    same."""
    zero = (fixed or {}).get("zero", ())
    usual = usual_stack(devices, compute, collectives, needs_of(job)).stack
    if not zero or chosen is None or usual in (None, chosen):
        return ""
    said = ",".join(map(str, zero))
    return (f"stack {chosen}, as its measured rows are the nearest to --fix zero={said}; without that it is {usual}, "
            f"under which the same layouts take other times: --stack {usual} keeps it")


def _ranked(names: Sequence[str], device: str, wanted: Support) -> Iterator[tuple[int, float, str, int]]:
    """(axes on which its rows lack the job, width of its interval, name, rows on the device) of every stack with rows
    enough on some device. Stages of ZeRO count where they are fixed to one."""
    job = Support(wanted.model, wanted.precision, wanted.zero if len(wanted.zero) == 1 else ())
    for name in names:
        devices = catalog.load("intervals").get(name, {})
        own = devices.get(device, {}).get("rows", 0)
        row = devices.get(device if own >= FEWEST else ANYWHERE)
        if row is not None and row["rows"] >= FEWEST:
            axes = len(job.outside(Support(**row["support"]))) + (own < FEWEST)
            yield axes, row["high"] / row["low"], name, own


def _words(wanted: Support) -> str:
    zero = "" if wanted.zero == STAGES else f", ZeRO {', '.join(map(str, wanted.zero))}"
    return ", ".join([*wanted.model, *wanted.precision]) + zero
