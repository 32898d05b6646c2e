"""CPU time and memory of training layouts drawn with a seed, as a user would write them, each in a process of its own.

usage: layouts.py [--layouts 300] [--seed 0] [--first 0] [--limit 60] [--searches] [--check] [--slanted]
                  [--choice none]

Draws models from 8B to 405B parameters and one with experts, tp x pp x dp x cp x ep, ZeRO 0 to 3, schedules, numbers of
communication streams, 256 to 131,072 ranks, and dims: `[8, N/8]`, one dim per axis, or in between. Prints one line per
layout and the median and worst CPU seconds of generating, lowering and running it, and the largest process.
`--searches` runs as searches do, without a record of nodes and links. `--check` also compares every rank's end with the
run of every rank (at most 512 ranks), and with an equivalent layout: a dim of one NPU more, and every stage where the
next one was (in the outermost dim, a switch). `--choice none` runs collectives by the shapes of dims, one chunk each,
in place of what is chosen (up to 64 chunks: up to 64 times the messages where collectives meet others). `--slanted`
draws dims whose borders cut through the groups of an axis, too (32 nodes a rail where a stage has 48): their members
differ, and these runs take as long as they must.
Targets: median 0.3 CPU s, worst 5 s and 1 GB, no difference.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

MODELS = {"llama3-8b": 32, "llama3-70b": 80, "llama3-405b": 126, "gpt3-175b": 96, "mixtral-8x7b": 32}     # and layers
RANKS = (256, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16_384, 24_576, 32_768, 65_536, 98_304, 131_072)
CHECKED = 512      # ranks that run one by one, too
FAST, SLOW = ("450 GB/s", "500 ns"), ("50 GB/s", "2 us")


def draw(seed: int, slanted: bool = False) -> dict[str, Any]:
    """One layout; the same for the same seed."""
    chance = random.Random(seed)
    while True:
        model = chance.choice(list(MODELS))
        layers = MODELS[model]
        tp = chance.choice((1, 2, 4, 8))
        cp = chance.choice((1, 1, 1, 2, 4))
        pp = chance.choice((1, 2, 4, 8, 16))
        schedule = chance.choice(("1f1b", "1f1b", "gpipe", "interleaved", "zero_bubble")) if pp > 1 else "1f1b"
        virtual = chance.choice((2, 3)) if schedule == "interleaved" else 1
        ranks = chance.choice(RANKS)
        if ranks % (tp * cp * pp) or pp * virtual > layers:
            continue
        dp = ranks // (tp * cp * pp)
        ep = chance.choice([e for e in (1, 2, 4, 8) if dp % e == 0]) if model == "mixtral-8x7b" else 1
        micro_batches = chance.choice((1, 2, 4)) * pp if pp > 1 else chance.choice((1, 2))
        workload = {"model": model, "tp": tp, "cp": cp, "pp": pp, "dp": dp, "ep": ep,
                    "zero": chance.choice((0, 1, 2, 3)), "schedule": schedule, "virtual_stages": virtual,
                    "micro_batch": 1, "seq": 4096, "global_batch": dp * micro_batches,
                    "tp_sequence": chance.random() < 0.5 and tp > 1, "uneven": "pad"}
        streams = chance.choice((1, 1, 2, 3))
        dims = chance.choice(_dims(ranks, tp * cp, dp, pp, slanted))
        return {"workload": workload, "streams": streams, "dims": dims,
                "shape": chance.choice(("switch", "switch", "fully_connected", "ring")), "ranks": ranks}


def _dims(ranks: int, inner: int, dp: int, pp: int, slanted: bool) -> list[list[int]]:
    """Ways in which the ranks may be cabled: the flat node first, as most users write it; one dim per axis; rails."""
    found = [[8, ranks // 8], [8, ranks // 8]]
    if inner > 1 and dp > 1:
        found.append([n for n in (inner, dp, pp) if n > 1])
    whole = (inner * dp) % 256 == 0 or 256 % (inner * dp) == 0      # no group of an axis ends within a rail
    if ranks % 256 == 0 and ranks > 256 and (whole or slanted):
        found.append([8, 32, ranks // 256])
    if 8 % inner == 0 and dp % (8 // inner) == 0 and dp * inner // 8 > 1:
        found.append([n for n in (8, dp * inner // 8, pp) if n > 1])
    return found


def design(layout: dict[str, Any], choice: str, equivalent: bool = False) -> Any:
    """The design of a layout, or an equivalent one: other dims, and every rank elsewhere."""
    import astrarium as ar

    kinds = {"switch": ar.Switch, "fully_connected": ar.FullyConnected, "ring": ar.Ring}
    network = []
    *inner, outer = layout["dims"]
    ranks, pp = layout["ranks"], layout["workload"]["pp"]
    stage = ranks // pp if outer % pp == 0 else 0
    placement = [(rank + stage) % ranks for rank in range(ranks)] if equivalent else "identity"
    for place, npus in enumerate([*inner, 1, outer] if equivalent else layout["dims"]):
        kind = kinds[layout["shape"]] if place == 0 and npus <= 16 else ar.Switch
        bandwidth, latency = FAST if place == 0 else SLOW
        network.append(kind(npus, bandwidth_per_npu=bandwidth, latency=latency))
    return ar.Design(workload=ar.Transformer(**layout["workload"]), compute=ar.Roofline(peak="989 TFLOP/s"),
                     memory=ar.Memory(capacity="80 GiB", bandwidth="3.35 TB/s"), network=ar.Network(network),
                     collective=ar.Collective(choice=choice),
                     system=ar.System(comm_streams=layout["streams"], placement=placement))


def measure(layout: dict[str, Any], record: bool, check: bool, choice: str) -> dict[str, Any]:
    """Runs it here: seconds of CPU, memory, and what came out."""
    import astrarium as ar

    made = design(layout, choice)
    before = time.process_time()
    result = ar.simulate(made, record=record)
    cpu = time.process_time() - before
    found = {"cpu": cpu, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
             "makespan": result.makespan_ps, "classes": len(result.outcome.finish), "events": result.outcome.events,
             "why": result.outcome.unfolded_because, "checked": []}
    if check:
        ends = result.outcome.finish[result.outcome.row]
        if layout["ranks"] <= CHECKED:
            found["checked"].append(_differs(ends, ar.simulate(made, fold="off", record=False)))
        found["checked"].append(_differs(ends, ar.simulate(design(layout, choice, equivalent=True), record=False)))
    return found


def _differs(ends: Any, other: Any) -> bool:
    return not bool((ends == other.outcome.finish[other.outcome.row]).all())


def _limited(argument: str, limit: float) -> dict[str, Any]:
    """One layout in a process of its own; the reason where it does not end in time or in memory."""
    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 2))
    done = subprocess.run([sys.executable, __file__, *argument.split()], capture_output=True, text=True, check=False,
                          preexec_fn=bound)
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    said = (done.stderr.strip() or "over the limit").splitlines()[-1]
    return {"cpu": limit, "mb": 0.0, "makespan": None, "classes": 0, "events": 0, "why": said, "checked": []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layouts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--searches", action="store_true")
    parser.add_argument("--one", type=int, help="run this one here and print JSON")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--slanted", action="store_true")
    parser.add_argument("--choice", default="auto")
    options = parser.parse_args()
    base = options.seed * 1_000_000
    if options.one is not None:
        layout = draw(base + options.one, options.slanted)
        print(json.dumps(measure(layout, not options.searches, options.check, options.choice)))
        return
    seconds, megabytes, checks, differ = [], [], 0, 0
    flags = "".join(f" --{name}" for name in ("searches", "check", "slanted") if getattr(options, name))
    flags += f" --choice {options.choice}"
    for number in range(options.first, options.first + options.layouts):
        layout = draw(base + number, options.slanted)
        found = _limited(f"--one {number} --seed {options.seed}{flags}", options.limit)
        checks += len(found["checked"])
        differ += sum(found["checked"])
        seconds.append(found["cpu"])
        megabytes.append(found["mb"])
        w = layout["workload"]
        axes = " ".join(f"{axis} {w[axis]}" for axis in ("tp", "cp", "dp", "pp", "ep", "zero"))
        network = f"streams {layout['streams']} {layout['shape']} {layout['dims']}"
        print(f"{number:3} {found['cpu']:6.2f} s {found['mb']:5.0f} MB {found['classes']:6} classes  {w['model']} "
              f"{layout['ranks']} = {axes} {w['schedule']} {network} "
              f"{found['why'] or ''}{' DIFFERS' if any(found['checked']) else ''}", flush=True)
    print(f"{len(seconds)} layouts: median {statistics.median(seconds):.2f} CPU s, worst {max(seconds):.2f} s, "
          f"{max(megabytes):.0f} MB; {checks} checks, {differ} differ")


if __name__ == "__main__":
    main()
