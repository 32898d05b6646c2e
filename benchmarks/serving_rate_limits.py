"""When a rate can be known: runs of vLLM under load, and the rates at which predicted latencies are the measured ones.

usage: serving_rate_limits.py RUNS.csv [--skip N] [--until SECONDS] [--csv FILE] [--read FILES]

For each run, the predicted figures over nine rates (from 0.4 times the lowest to 2.5 times the highest stage) are
curves; where one has the measured value of a stage is the rate that this figure as a limit would give. Printed:

- for each figure, and all together, how many rates are within 15 % of the measured one, and which figure binds;
- how much the measured figure rises from stage to stage (percent for a percent of rate), hence the error of latency
  that is 15 % of rate, and in how many stages an error of 1, 2, 5 % is less;
- what one run says of another with equal settings: its stage's latency through the measured slope;
- the rates if steps are so much longer or shorter that the mean time per token of another stage of the run agrees.
  Steps c times as long at rate r have c times the latencies of steps at rate c r: the same curves say it.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from serving_plan_runs import NAMES, stages

from astrarium import config
from astrarium.serving.loop import run
from astrarium.serving.requests import Poisson, requests_of
from astrarium.serving.slo import Limit
from astrarium.validate.serving.deployment import Deployment
from astrarium.validate.serving.predict import OPEN, Predictor

FIGURES = tuple(NAMES.values())
RATES, LOWEST, HIGHEST, CLOSE = 9, 0.4, 2.5, 0.15
SCALES = np.geomspace(0.5, 2, 401)
F64 = npt.NDArray[np.float64]


class Run(Struct, frozen=True):
    """Measured figures (ms) by stage's rate; predicted ones [RATES] over `rates`; infinite where saturated."""

    name: str
    settings: str
    real: Mapping[float, Mapping[str, float]]
    rates: F64
    made: Mapping[str, F64]

    def at(self, figure: str, rate: float, scale: float = 1.0) -> float:
        """The figure at a rate, of steps `scale` times as long (between rates linear in logarithms)."""
        known = np.isfinite(self.made[figure])
        return float(scale * np.exp(np.interp(np.log(scale * rate), np.log(self.rates[known]),
                                              np.log(self.made[figure][known]))))

    def rate(self, limits: Mapping[str, float], scale: float = 1.0) -> tuple[float, str]:
        """The highest rate of the curves at which all `limits` hold, and which ends it; 0 if none does."""
        fine = np.geomspace(self.rates[0], self.rates[-1], 600) / scale
        saturated = np.isinf(self.made["latency_p90"])
        end = float(self.rates[saturated].min()) / scale if saturated.any() else np.inf
        worst = [max((self.at(name, float(each), scale) / most, name) for name, most in limits.items())
                 if each < end else (np.inf, "saturation") for each in fine]
        bad = next((index for index, (share, _) in enumerate(worst) if share > 1), None)
        if bad is None:
            return float(fine[-1]), "none"
        return (float(fine[bad - 1]) if bad else 0.0), worst[bad][1]

    def scale(self, rate: float) -> float:
        """How much longer steps are, by the mean time per token of a stage."""
        errors = [abs(self.at("tpot_mean", rate, float(each)) / self.real[rate]["tpot_mean"] - 1) for each in SCALES]
        return float(SCALES[int(np.argmin(errors))])

    def slope(self, figure: str) -> float:
        """Measured, between the first and the last stage; nan with one."""
        pairs = sorted((rate, found[figure]) for rate, found in self.real.items())
        if len(pairs) < 2:
            return float("nan")
        (low, before), (high, after) = pairs[0], pairs[-1]
        return float(np.log(after / before) / np.log(high / low))


def made_of(meant: Deployment, rate: float, predictor: Predictor) -> dict[str, float]:
    """All figures at a rate in ms; infinite if the stream is saturated."""
    stream = config.decode(Poisson, {"rate": rate, "count": OPEN, "prompt": meant.prompt.high, "seed": 0,
                                     "output": meant.output.high,
                                     "prefix": {"tokens": meant.prefix, "groups": meant.groups}})
    served = run(requests_of(stream), predictor.fleet(meant))
    if served.saturated:
        return dict.fromkeys(FIGURES, float("inf"))
    return {name: Limit(*name.split("_"), 1.0).of(served) / 1e6 for name in FIGURES}


def runs_of(path: str, skip: int, until: float) -> Iterator[Run]:
    """The runs, predicted as they come."""
    groups: dict[str, list[tuple[Deployment, dict[str, str], dict[str, float]]]] = {}
    for stage in stages(path):
        groups.setdefault(stage[1]["experiment"], []).append(stage)
    start, predictor = time.process_time(), Predictor()
    for name, found in list(groups.items())[skip:]:
        if until and time.process_time() - start > until:
            print(f"stopped after {until:.0f} CPU s")
            return
        real = {meant.rates[0]: figures for meant, _, figures in found}
        rates = np.geomspace(LOWEST * min(real), HIGHEST * max(real), RATES)
        meant = found[0][0]
        made = [made_of(meant, float(rate), predictor) for rate in rates]
        settings = f"{meant.model} tp {meant.layout.tp} on {meant.system}, {sorted(real)}, {meant.prefix}"
        yield Run(name, settings, real, rates, {each: np.array([line[each] for line in made]) for each in FIGURES})


def within(errors: Iterable[float]) -> str:
    """How many are within CLOSE, and their median size."""
    size = np.abs(np.array(list(errors)))
    return f"{int((size <= CLOSE).sum())} of {len(size)} within 15 %, median {100 * np.median(size):.0f} %"


def limits_told(runs: list[Run]) -> None:
    """Rates by each figure as a limit, and by all."""
    print("limit: rate found beside the measured one")
    for names in [*((each,) for each in FIGURES), FIGURES]:
        errors, ends = [], list[str]()
        for one, (rate, real) in ((each, stage) for each in runs for stage in each.real.items()):
            found, end = one.rate({name: real[name] for name in names})
            errors.append(found / rate - 1)
            ends.append(end)
        print(f"  {'all' if len(names) > 1 else names[0]:12} {within(errors)}")
        if len(names) > 1:
            print("    ended by " + ", ".join(f"{name} {ends.count(name)}" for name in sorted(set(ends))))


def slopes_told(runs: list[Run]) -> None:
    """What error of latency an error of 15 % of rate is."""
    print("measured rise for 1 % of rate; stages in which an error of latency of 1, 2, 5 % is less than 15 % of rate")
    for name in FIGURES:
        found = np.array([each.slope(name) for each in runs for _ in each.real if len(each.real) > 1])
        counts = ", ".join(f"{int((np.abs(found) * CLOSE >= error).sum())}" for error in (0.01, 0.02, 0.05))
        print(f"  {name:12} {np.quantile(found, 0.1):.2f} to {np.quantile(found, 0.9):.2f}, median "
              f"{np.median(found):.2f} %; {counts} of {len(found)}")


def repeats_told(runs: list[Run]) -> None:
    """Of pairs of runs with equal settings: the rate that one's latency says of the other."""
    print("one run's rate by another one with equal settings")
    for name in FIGURES:
        errors = [np.log(one.real[rate][name] / other.real[rate][name]) / other.slope(name)
                  for one, other in itertools.permutations(runs, 2)
                  if one.settings == other.settings and len(one.real) > 1 for rate in one.real]
        if errors:
            print(f"  {name:12} {within(np.exp(errors) - 1)}")


def calibrated_told(runs: list[Run]) -> None:
    """Rates with steps scaled by the other stage's time per token."""
    print("runs of two stages: as predicted; with steps scaled by the mean time per token of the other stage")
    pairs = [(each, rate, other) for each in runs for rate, other in itertools.permutations(each.real, 2)]
    scales = [each.scale(other) for each, _, other in pairs]
    for name in FIGURES:
        plain = [each.rate({name: each.real[rate][name]}, 1.0)[0] / rate - 1 for each, rate, _ in pairs]
        after = [each.rate({name: each.real[rate][name]}, scale)[0] / rate - 1
                 for (each, rate, _), scale in zip(pairs, scales, strict=True)]
        print(f"  {name:12} {within(plain)}; {within(after)}")
    before = [each.at("tpot_mean", rate) / each.real[rate]["tpot_mean"] - 1 for each, rate, _ in pairs]
    later = [each.at("tpot_mean", rate, scale) / each.real[rate]["tpot_mean"] - 1
             for (each, rate, _), scale in zip(pairs, scales, strict=True)]
    print(f"  time per token: median error {100 * np.median(np.abs(before)):.1f}; "
          f"{100 * np.median(np.abs(later)):.1f} %")


def written(found: Run) -> Iterator[dict[str, object]]:
    """Lines of a run for --csv."""
    for rate, real in found.real.items():
        yield {"run": found.name, "settings": found.settings, "kind": "real", "rate": rate, **real}
    for index, rate in enumerate(found.rates):
        yield {"run": found.name, "settings": found.settings, "kind": "made", "rate": float(rate),
               **{name: float(found.made[name][index]) for name in FIGURES}}


def read_back(paths: str) -> list[Run]:
    """Runs of such files."""
    lines: dict[tuple[str, str], list[dict[str, str]]] = {}
    for path in paths.split(","):
        with open(path, newline="", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                lines.setdefault((line["run"], line["settings"]), []).append(line)
    return [Run(name, settings, {float(each["rate"]): {figure: float(each[figure]) for figure in FIGURES}
                                 for each in some if each["kind"] == "real"},
                np.array([float(each["rate"]) for each in some if each["kind"] == "made"]),
                {figure: np.array([float(each[figure]) for each in some if each["kind"] == "made"])
                 for figure in FIGURES}) for (name, settings), some in lines.items()]


def main() -> None:
    """Read, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs")
    parser.add_argument("--until", type=float, default=0, metavar="SECONDS", help="start no run after so much CPU time")
    parser.add_argument("--skip", type=int, default=0, metavar="N", help="leave out the first N runs")
    parser.add_argument("--csv", default="", help="write the curves to this file as they are made")
    parser.add_argument("--read", default="", help="take the curves from such files, predict nothing")
    options = parser.parse_args()
    found = read_back(options.read) if options.read else []
    if not options.read:
        with open(options.csv or "/dev/null", "w", newline="", encoding="utf-8") as file:
            sink = csv.DictWriter(file, ("run", "settings", "kind", "rate", *FIGURES))
            sink.writeheader()
            for each in runs_of(options.runs, options.skip, options.until):
                found.append(each)
                sink.writerows(written(each))
                file.flush()
    for table in (limits_told, slopes_told, repeats_told, calibrated_told):
        table(found)


if __name__ == "__main__":
    main()
