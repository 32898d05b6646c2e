"""How far back ends are from packets with credits, and what they cost, on designs that nobody chose.

usage: agreement.py [--first SEED] [--count COUNT] [--backend NAME ...] [--reference NAME ...] [--limit CPU_S]
       agreement.py --case SEED [--design FILE]

A seed gives a design (`_drawn_agreement.py`): a network of one to three dims or a fabric of a blueprint, and one or two
jobs, each of them a collective with a drawn algorithm or a pattern of messages, on drawn NPUs. A design runs with every
back end, in one process, which is ended beyond `--limit` CPU seconds.

The tables have the makespan of each back end relative to that of a reference (`packets`: credits), the CPU seconds of
its runs relative to those of the reference, and how many it refused. `heads` are packets whose switches forward heads,
so no link after the first stores a packet; `whole` is contention whose links store messages. Behind them are the worst
cases with their seeds: `--case SEED` repeats one, and `--design FILE` writes it as a design file for `packets`.

Targets: `fluid` within 3 % of packets on collectives and no slower.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from _drawn_agreement import draw
from _measure import machine, median, process_s

import astrarium as ar

BACKENDS: Mapping[str, Mapping[str, Any]] = {
    "packets": {"network.backend": "packets"},
    "heads": {"network.backend": "packets", "network.switching": "cut_through"},
    "roce": {"network.backend": "packets", "network.packets.transport": "roce", "network.packets.deadlock": "allow"},
    "contention": {"network.backend": "contention"},
    "whole": {"network.backend": "contention", "network.switching": "store_and_forward"},
    "closed_form": {"network.backend": "closed_form"},
    "fluid": {"network.backend": "fluid"},
}
WORST = 5
LEAST_S = 1e-3      # CPU seconds below which a run counts as this long
Rows = Mapping[str, Mapping[str, Any]]      # by back end: its makespan and CPU seconds, or why it refused
OTHERS = ("mesh", "hypercube", "fully_connected")       # the target is about switches, rings and fabrics


def runs(seed: int, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """In this process: a row of each back end on the design of a seed."""
    _, design = draw(seed)
    for name in names:
        before = process_s()
        try:
            result = ar.simulate(ar.replace_all(design, BACKENDS[name]), record=False)
            yield {"name": name, "us": result.makespan_ps / 1e6, "cpu": process_s() - before}
        except ar.AstrariumError as error:
            yield {"name": name, "refused": str(error).splitlines()[0]}


def apart(seed: int, names: Sequence[str], limit: int) -> dict[str, dict[str, Any]]:
    """The rows of a seed by back end, from a process that is ended beyond `limit` CPU seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        with os.fdopen(writing, "w") as pipe:
            for row in runs(seed, names):
                print(json.dumps(row), file=pipe, flush=True)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        rows = {row["name"]: row for row in map(json.loads, pipe)}
    _, status = os.waitpid(child, 0)
    if status and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)):
        print(f"seed {seed}: ended with status {status}", file=sys.stderr)
    return rows


def quantile(values: list[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def off(rows: Rows, name: str, reference: str) -> float:
    """How far a makespan is from the reference's: 0 is equal."""
    return float(rows[name]["us"] / rows[reference]["us"] - 1)


def both(found: Mapping[int, Rows], name: str, reference: str) -> dict[int, Rows]:
    """The cases that a back end and the reference ran."""
    return {seed: rows for seed, rows in found.items()
            if "us" in rows.get(name, {}) and rows.get(reference, {}).get("us")}


def ran_by(found: Mapping[int, Rows]) -> list[str]:
    """The back ends that were asked for."""
    return [name for name in BACKENDS if any(name in rows for rows in found.values())]


def table(found: Mapping[int, Rows], reference: str) -> None:
    """Print makespans and CPU seconds relative to the reference, and refusals."""
    print(f"{'':12} {'cases':>5} {'refused':>7} {'over':>5}   {'median':>7} {'p90':>7} {'worst':>8}   "
          f"{'CPU s':>7} {'median':>7} {'p90':>7} {'worst':>8}")
    for name in ran_by(found):
        ran = both(found, name, reference).values()
        refused = sum("refused" in rows.get(name, {}) for rows in found.values())
        over = sum(name not in rows for rows in found.values())
        line = f"{name:12} {len(ran):5} {refused:7} {over:5}"
        if ran:
            far = [abs(off(rows, name, reference)) for rows in ran]
            cost = [rows[name]["cpu"] / max(rows[reference]["cpu"], LEAST_S) for rows in ran]
            cpu = sum(rows[name]["cpu"] for rows in ran)
            line += (f"   {median(far):7.2%} {quantile(far, 0.9):7.2%} {max(far):8.2%}   {cpu:7.1f} "
                     f"{median(cost):7.2f} {quantile(cost, 0.9):7.2f} {max(cost):8.2f}")
        print(line)


def targeted(words: str) -> bool:
    """Whether a case is one of collectives over switches, rings or a fabric."""
    network, jobs = words.split("; ", 1)
    return not network.startswith(OTHERS) and not any(f" x {each}" in network for each in OTHERS) and (
        "messages" not in jobs)


def bound(seed: int) -> str:
    """The busiest link of the design: no back end with links can be faster."""
    result = ar.simulate(ar.replace_all(draw(seed)[1], BACKENDS["contention"]), fold="off")
    return f"busiest link: {result.outcome.link_busy.max(initial=0) / 1e6:.1f} us"


def worst(found: Mapping[int, Rows], reference: str) -> None:
    """Print the cases in which a back end is furthest from the reference."""
    for name in ran_by(found):
        ran = both(found, name, reference)
        for seed in sorted(ran, key=lambda seed: -abs(off(found[seed], name, reference)))[:WORST]:
            rows = found[seed]
            if name != reference:
                print(f"{name:12} {off(rows, name, reference):+8.2%}  {rows[name]['us']:10.1f} us, {reference} "
                      f"{rows[reference]['us']:10.1f}  --case {seed}: {draw(seed)[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--backend", choices=list(BACKENDS), nargs="*", default=list(BACKENDS))
    parser.add_argument("--reference", choices=list(BACKENDS), nargs="*", default=["packets"])
    parser.add_argument("--verbose", action="store_true", help="print every run")
    parser.add_argument("--case", type=int)
    parser.add_argument("--design", metavar="FILE")
    options = parser.parse_args()
    if options.case is not None:
        words, design = draw(options.case)
        print(words)
        if options.design:
            ar.dump_design(design, options.design)
        for row in runs(options.case, options.backend):
            print(json.dumps(row), flush=True)
        print(bound(options.case))
        return
    print(machine())
    ar.simulate(ar.replace_all(draw(0)[1], BACKENDS["fluid"]))      # imports are not of a case
    found = {}
    for seed in range(options.first, options.first + options.count):
        found[seed] = apart(seed, options.backend, options.limit)
        if options.verbose:
            print(seed, draw(seed)[0], json.dumps(found[seed]), flush=True)
    for reference in options.reference:
        print(f"\nrelative to {reference}:")
        table(found, reference)
        print("\ncollectives over switches, rings and fabrics:")
        table({seed: rows for seed, rows in found.items() if targeted(draw(seed)[0])}, reference)
        print()
        worst(found, reference)


if __name__ == "__main__":
    main()
