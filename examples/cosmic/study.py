"""COSMIC's study as one command: python examples/cosmic/study.py --quick --out DIR (or --full; --preset public_code).

Every search is a study file in DIR/studies; the same command goes on where the last one stopped. DIR/report.md holds
our tables beside the published ranges, and a verdict with its reason on each published finding.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from findings import report
from optimum import PROVED, read_optima
from runs import FULL, QUICK, Effort, Found, Run, carry_out, plan, seconds_a_trial
from spaces import base

import astrarium as ar

PARTS = ("agents", "stacks", "spread", "scaling", "models", "mixes", "batches")
MOST = 1.5      # a search gets at most this many times its share of the time
DESIGNS = 6     # of each stack and size, from which the time of a full study follows
Say = Callable[[str], None]


def main() -> int:
    """Runs the study and writes its report."""
    given = _arguments()
    folder = given.out / "studies"
    folder.mkdir(parents=True, exist_ok=True)
    effort, start = QUICK if given.quick else FULL, time.perf_counter()

    def say(line: str) -> None:
        sys.stderr.write(f"{time.perf_counter() - start:6.0f} s  {line}\n")
        sys.stderr.flush()

    runs = [run for run in plan(effort, given.preset) if given.part is None or run.part in given.part]
    try:
        optima = read_optima(given.optimum, given.preset)
        if given.full:
            _announce(runs, folder, given.jobs, say)
        found = _searched(runs, effort, given, say)
    except ar.InputError as error:      # a certificate that is none; a search that another process works on
        sys.stderr.write(f"study.py: {error}\n")
        return 1
    say("the report: proxy models, published designs")
    text = report(found, len(runs), effort, given.preset, optima, lambda: time.perf_counter() - start)
    (given.out / "report.md").write_text(text, encoding="utf-8")
    say("done")
    sys.stdout.write(text)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--quick", action="store_true", help="under 15 minutes on 2 cores: searches share the time")
    size.add_argument("--full", action="store_true", help="5 seeds, 200 trials a search; 1,000 to compare agents")
    parser.add_argument("--out", type=Path, required=True, help="folder of study files and report")
    parser.add_argument("--preset", choices=("talk", "public_code"), default="talk",
                        help="the talk's tables, or the public code's: 4 layers, first dim no switch, FC / 7")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be repeated (all)")
    parser.add_argument("--optimum", action="append", default=[], metavar="FILE|REWARD=VALUE",
                        help="a proven optimum of the full stack of System 2 and GPT3-175B: a certificate's file, or "
                        "perf_per_bandwidth=VALUE, perf_per_cost=VALUE (ns x GB/s, ns x US dollars); of the talk's "
                        "tables full.optimum.json is there without asking")
    given = parser.parse_args()
    if given.preset == "talk":
        given.optimum.insert(0, str(PROVED))
    return given


def _searched(runs: Sequence[Run], effort: Effort, given: argparse.Namespace, say: Say) -> list[Found]:
    """Every search. A quick one's time is its share of what is left; those that an earlier call finished stay."""
    noted = given.out / f"finished-{given.preset}-{'quick' if given.quick else 'full'}.txt"
    finished = set(noted.read_text(encoding="utf-8").split()) if noted.exists() else set()
    total, left = sum(run.weight for run in runs), sum(run.weight for run in runs if run.file not in finished)
    end, found = time.perf_counter() + effort.seconds, list[Found]()
    for number, run in enumerate(runs, 1):
        done, rest = run.file in finished, end - time.perf_counter()
        if effort.seconds and not done and rest < 0:
            say(f"[{number}/{len(runs)}] {run.part} {run.file}: not run, time is over; the same command goes on")
            continue
        share = 0.0
        if done:
            share = -1.0
        elif effort.seconds:
            share = max(0.001, min(rest / left, MOST * effort.seconds / total) * run.weight)
        found.append(carry_out(run, given.out / "studies", given.jobs,
                               functools.partial(_say_of, say, f"[{number}/{len(runs)}] "), share))
        if not done:
            left = max(left - run.weight, 0.001)
            finished.add(run.file)
            with noted.open("a", encoding="utf-8") as stream:
                stream.write(run.file + "\n")
    return found


def _say_of(say: Say, search: str, line: str) -> None:
    say(search + line)


def _announce(runs: Sequence[Run], folder: Path, jobs: int, say: Say) -> None:
    """How long a full study takes, from six designs of every stack and size that it searches, run now."""
    known: dict[tuple[str, int], float] = {}
    seconds, trials = 0.0, 0
    for run in runs:
        if (folder / run.file).exists():
            continue
        key = (run.setup.stack, base(run.setup).network.npus)
        if key not in known:
            known[key] = seconds_a_trial(run, jobs, DESIGNS)
            say(f"measured: {key[0]} on {key[1]:,} NPUs, {known[key]:.2f} s a trial")
        seconds += run.trials * known[key]
        trials += run.trials
    say(f"{trials:,} trials to run: about {seconds / 3600:.1f} h with {jobs} processes, at the rate of {len(known)} x "
        f"{DESIGNS} uniform designs run now ({seconds / max(trials, 1):.2f} s a trial), and agents' own time on top")


if __name__ == "__main__":
    sys.exit(main())
