"""Files of `astrarium calibrate` that are recordings: which those are, and what was and was not used of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from astrarium.cli.paths import file_form
from astrarium.errors import InputError

if TYPE_CHECKING:
    from astrarium.compute.recorded import Recorded
    from astrarium.profile.launches import Launches

__all__ = ["plain", "recordings", "sentences"]

REASONS = 12        # that are printed; --json has all
TABLES = (".csv", ".json", ".txt", ".gz")


def recordings(paths: Sequence[str]) -> tuple[list[str], list[Launches]]:
    """(files of timings, what ran on the GPU of each recording). A recording is a trace, or a Kineto file, alone
    or with the execution trace of the same run: the first of these belongs to the first Kineto file, and so on."""
    from astrarium.profile.launches import launches_of_trace
    from astrarium.profile.link.launches import launches
    from astrarium.trace.read import find_traces

    kinds: dict[str, list[str]] = {"timings": [], "traces": [], "host": [], "kineto": []}
    for path in paths:
        kinds[_kind(path)].append(path)
    hosts, devices = kinds["host"], kinds["kineto"]
    if hosts and len(hosts) != len(devices):
        raise InputError("calibrate", f"there are {len(hosts)} execution traces and {len(devices)} Kineto files",
                         expected="as many, in the same order; or what `astrarium trace link` made of them")
    found = [launches_of_trace(file) for path in kinds["traces"] for file in find_traces(path)]
    found += [launches(hosts[number] if hosts else None, device) for number, device in enumerate(devices)]
    return kinds["timings"], found


def _kind(path: str) -> str:
    if not os.path.isfile(path):
        return "timings" if path.endswith(TABLES) else "traces"
    name = file_form(path)
    return name if name in ("host", "kineto") else "traces" if name else "timings"


def sentences(found: Recorded) -> Iterator[str]:
    """What was used of the recordings' GPU time, and what was not, most time first."""
    from astrarium.profile.launches import COMMUNICATION, COPY

    total, used = _total(found), found.used
    computing = total[1] - sum(share.ns for why, share in found.unused.items() if why in (COMMUNICATION, COPY))
    yield (f"{total[0]:,} GPU operations, {total[1] / 1e6:,.3f} ms: {used.operations:,}, {_part(used.ns, total[1])}, "
           f"make {len(found.times):,} rows; {100 * used.ns / max(computing, 1):.1f} % of the time of kernels that "
           "compute")
    shares = list(found.unused.items())
    for why, share in shares[:REASONS]:
        yield f"not used: {share.operations:,}, {_part(share.ns, total[1])}: {why}"
    if rest := shares[REASONS:]:
        yield (f"not used: {sum(share.operations for _, share in rest):,}, "
               f"{_part(sum(share.ns for _, share in rest), total[1])}: {len(rest)} further reasons (--json has all)")


def plain(found: Recorded) -> dict[str, Any]:
    """What was used of the recordings, as plain data for --json."""
    operations, ns = _total(found)
    return {"operations": operations, "recorded_ns": ns, "used_operations": found.used.operations,
            "used_ns": found.used.ns, "rows": len(found.times),
            "unused": [{"why": why, "operations": share.operations, "recorded_ns": share.ns}
                       for why, share in found.unused.items()]}


def _total(found: Recorded) -> tuple[int, int]:
    shares = (found.used, *found.unused.values())
    return sum(share.operations for share in shares), sum(share.ns for share in shares)


def _part(ns: int, total: int) -> str:
    return f"{ns / 1e6:,.3f} ms ({100 * ns / max(total, 1):.1f} %)"
