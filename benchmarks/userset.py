"""CPU time of 40 training designs as users write them, with and without a record, each run in a process of its own.

usage: userset.py [--designs 40] [--seed 0] [--first 0] [--limit 200] [--check] [--oracle 0]

Draws models of 8B to 175B parameters from the catalog, 64 to 1,024 GPUs in hosts of 8, tp within a host, pp, dp,
ZeRO 0 to 3, recomputation, schedules, 1 to 3 communication streams, collectives chosen or named. Even numbers run on
`closed_form`, odd ones on `contention`. Prints a line per design: CPU seconds of `simulate` with a record (as `run`)
and without one (as a search), their ratio, events of both (those that periods left out in brackets), peak memory of
both, and which attempt gave the answer (`Outcome.how`); then totals.

A figure is the least of three runs, or of one that takes more than 5 s. `--check` fails where a run without a record
takes more than 1.1 times the recorded one and 20 ms more (runs of a few ms differ by that from one to the next), or
gives other times. `--oracle S` also compares every rank's end with the run of every rank and every message
(`fold="off"`), where this takes at most S CPU seconds.
Target: at most 1.1, no difference.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
import zlib
from typing import Any

from _measure import machine

# layers, tp, pp
MODELS = {"llama3-8b": (32, (1, 2, 4, 8), (1, 1, 2, 4)), "llama2-13b": (40, (1, 2, 4, 8), (1, 2, 4)),
          "qwen3-32b": (64, (2, 4, 8), (1, 2, 4, 8)), "llama3-70b": (80, (4, 8), (1, 2, 4, 8)),
          "gpt3-175b": (96, (8,), (2, 4, 8, 16))}
GPUS = (64, 128, 256, 512, 1024)
COLLECTIVES: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {"choice": "none"}, {"all_reduce": ["ring"], "all_gather": ["ring"], "reduce_scatter": ["ring"]},
    {"all_reduce": ["direct"], "chunks": 4},
    {"all_reduce": ["direct", "halving_doubling"], "composition": "blueconnect"})
MOST, FLOOR_S, LONG_S = 1.1, 0.02, 5.0


def draw(number: int, seed: int = 0) -> dict[str, Any]:
    """One design as plain values; the same for the same number and seed."""
    chance = random.Random(1000 * seed + number)
    while True:
        model, gpus = chance.choice(list(MODELS)), chance.choice(GPUS)
        layers, tps, pps = MODELS[model]
        tp, pp = chance.choice(tps), chance.choice(pps)
        schedules = ("1f1b", "1f1b", "1f1b", "interleaved", "gpipe", "zero_bubble") if pp > 1 else ("1f1b",)
        schedule, recompute = chance.choice(schedules), chance.choice(("none", "selective", "full"))
        virtual = 2 if schedule == "interleaved" else 1
        dp = gpus // (tp * pp)
        if dp < 2 or layers % (pp * virtual) or (recompute == "full" and schedule == "zero_bubble"):
            continue
        workload = {"model": model, "tp": tp, "pp": pp, "dp": dp, "schedule": schedule, "virtual_stages": virtual,
                    "zero": chance.choice((0, 1, 1, 2, 3) if pp == 1 else (0, 1, 1)), "recompute": recompute,
                    "seq": chance.choice((2048, 4096, 8192)), "micro_batch": 1,
                    "global_batch": dp * max(pp, 2) * chance.choice((1, 2, 4, 8)),
                    "tp_sequence": tp > 1 and chance.random() < 0.7}
        collective = chance.choice(COLLECTIVES)
        flat = gpus < 256 or len(collective.get("all_reduce", ())) == 2 or chance.random() < 0.7
        return {"workload": workload, "dims": [8, gpus // 8] if flat else [8, 8, gpus // 64],
                "streams": chance.choice((1, 1, 2, 3)), "collective": collective,
                "host": chance.choice(("switch", "switch", "switch", "fully_connected", "ring")),
                "backend": ("closed_form", "contention")[number % 2]}


def design(drawn: dict[str, Any]) -> Any:
    """The Design of drawn values."""
    import astrarium as ar

    kinds = {"switch": ar.Switch, "fully_connected": ar.FullyConnected, "ring": ar.Ring}
    dims = [kinds[drawn["host"]](8, bandwidth_per_npu="450 GB/s", latency="500 ns"),
            *(ar.Switch(npus, bandwidth="50 GB/s", latency="2 us") for npus in drawn["dims"][1:])]
    return ar.Design(workload=ar.Transformer(**drawn["workload"]), compute=ar.Roofline(peak="989 TFLOP/s"),
                     memory=ar.Memory(capacity="80 GB", bandwidth="3.35 TB/s"),
                     network=ar.Network(dims, backend=drawn["backend"]),
                     collective=ar.Collective(**drawn["collective"]), system=ar.System(comm_streams=drawn["streams"]))


def words(drawn: dict[str, Any]) -> str:
    """A design in a few words."""
    w = drawn["workload"]
    collective = " ".join(f"{name} {value}" for name, value in drawn["collective"].items()) or "auto"
    return (f"{drawn['backend']} {w['model']} tp {w['tp']} pp {w['pp']} dp {w['dp']} zero {w['zero']} {w['schedule']} "
            f"{w['global_batch'] // w['dp']} micro-batches, {drawn['streams']} streams, {drawn['host']} "
            f"{drawn['dims']}, {collective}")


def measure(drawn: dict[str, Any], mode: str) -> dict[str, Any]:
    """Runs it here. `mode`: record, search (without a record), or off (nor folded)."""
    import astrarium as ar

    made, cpu = design(drawn), []
    while not cpu or (len(cpu) < 3 and cpu[0] < LONG_S and mode != "off"):
        before = time.process_time()
        result = ar.simulate(made, record=mode == "record", fold="off" if mode == "off" else "auto")
        cpu.append(time.process_time() - before)
    outcome = result.outcome
    return {"cpu": min(cpu), "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "events": outcome.events,
            "counted": outcome.counted, "how": outcome.how, "ends": zlib.crc32(outcome.finish[outcome.row].tobytes())}


def measured(number: int, seed: int, mode: str, limit: int) -> dict[str, Any] | None:
    """The same in a process of its own; None where it does not end in time."""
    command = [sys.executable, __file__, "--one", mode, "--first", str(number), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_CPU, (limit, limit + 1)))
    if done.returncode == 0:
        return dict(json.loads(done.stdout))
    if done.returncode > 0:
        raise SystemExit(f"design {number}: {done.stderr}")
    return None


def line(number: int, drawn: dict[str, Any], record: dict[str, Any] | None, search: dict[str, Any] | None) -> str:
    """What is printed of a design."""
    def both(format_: str, name: str) -> str:
        return " ".join(format(found[name], format_) if found else "-" for found in (record, search))
    ratio = f"{search['cpu'] / record['cpu']:.2f}" if record and search else "-"
    how = "; ".join((search or record or {"how": ["over the limit"]})["how"])
    return (f"{number:3} {both('6.2f', 'cpu')} s {ratio} {both(',', 'events')} events ({both(',', 'counted')}) "
            f"{both('.0f', 'mb')} MB  {words(drawn)}: {how}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("designs", 40), ("seed", 0), ("first", 0), ("limit", 200), ("oracle", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--one", choices=("record", "search", "off"), help="run number `first` here and print JSON")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(draw(options.first, options.seed), options.one)))
        return
    print(machine())
    totals, worst, slower, differ, compared = {"record": 0.0, "search": 0.0}, 0.0, [], [], 0
    for number in range(options.first, options.first + options.designs):
        drawn = draw(number, options.seed)
        record, search = (measured(number, options.seed, mode, options.limit) for mode in totals)
        print(line(number, drawn, record, search), flush=True)
        cpu = [found["cpu"] if found else float(options.limit) for found in (record, search)]
        totals = {"record": totals["record"] + cpu[0], "search": totals["search"] + cpu[1]}
        worst = max(worst, cpu[1] / cpu[0])
        if cpu[1] > MOST * cpu[0] and cpu[1] > cpu[0] + FLOOR_S:
            slower.append(number)
        every = measured(number, options.seed, "off", options.oracle) if options.oracle else None
        compared += every is not None
        if len({found["ends"] for found in (record, search, every) if found}) > 1:
            differ.append(number)
    print(f"{options.designs} designs: {totals['record']:.1f} CPU s with a record, {totals['search']:.1f} without, "
          f"worst ratio {worst:.2f}; slower without: {slower or 'none'}; compared with every message: {compared}; "
          f"times that differ: {differ or 'none'}")
    if options.check and (slower or differ):
        sys.exit(1)


if __name__ == "__main__":
    main()
