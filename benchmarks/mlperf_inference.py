"""MLPerf Inference v5.1 beside Astrarium: tokens/s offline, and at the limits of server and interactive.

usage: mlperf_inference.py FILE.csv [--models WORDS] [--devices WORDS] [--scenario WORDS] [--until SECONDS]

Layout, formats and limits of a step are those that submitters published with their results (`SETTINGS`). The highest
rate is searched at which TTFT and TPOT p99 hold, on streams of at least six times what a request may last, in their
steady state; all requests have the data set's mean lengths (of answers: of all rows of a model, device and scenario,
which have one prediction). A line has also TTFT and TPOT at the measured rate, and
`slack`: whether the measured latencies are both below 0.8 of their limits (then the row is no highest rate).
AMD's and others' devices have no rows of kernels here, and are left out, as are rows without published settings.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from astrarium import config
from astrarium.errors import AstrariumError
from astrarium.serving.find import find_rate
from astrarium.serving.loop import run
from astrarium.serving.outcome import Served
from astrarium.serving.requests import Poisson, requests_of
from astrarium.serving.slo import Limit, Slo
from astrarium.validate.serving.deployment import Deployment, Layout, Lengths
from astrarium.validate.serving.predict import Predictor

PROMPTS = {"llama2-70b": 294, "llama3.1-8b": 778, "llama3.1-405b": 9428, "mixtral-8x7b": 291, "deepseek-r1": 798}
"""Mean tokens of the prompts (MLCommons, articles of Inference 4.0 to 5.1); of answers: tokens/s over samples/s."""
LIMITS = {("llama2-70b", "Server"): (2000, 200), ("llama2-70b", "Interactive"): (450, 40),
          ("llama3.1-8b", "Server"): (2000, 100), ("llama3.1-8b", "Interactive"): (500, 30),
          ("llama3.1-405b", "Server"): (6000, 175), ("llama3.1-405b", "Interactive"): (4500, 80),
          ("mixtral-8x7b", "Server"): (2000, 200), ("deepseek-r1", "Server"): (2000, 80)}
"""99th percentiles of TTFT and TPOT in ms that MLPerf Inference 5.1 allows (loadgen/mlperf.conf of
mlcommons/inference)."""
NAMES = {"llama2-70b": "llama2-70b", "llama3.1-8b": "llama3-8b", "llama3.1-405b": "llama3-405b",
         "mixtral-8x7b": "mixtral-8x7b", "deepseek-r1": "deepseek-r1"}
SYSTEMS = {"H100-SXM": "h100_sxm", "H200-SXM": "h200_sxm", "H200-NVL": "h200_nvl", "B200-SXM": "b200", "GB200": "gb200",
           "GB300": "gb300", "L40S": "l40s"}


class Settings(Struct, frozen=True):
    """Of one engine: its layout, sequences and tokens of a step at most, the share of memory that it fills."""

    layout: Layout
    batch: int
    tokens: int
    share: float


SETTINGS: Mapping[tuple[str, str, str], Settings] = {
    ("llama2-70b", "h200_sxm", "Offline"): Settings(Layout(1), 2048, 1536, 0.9),
    ("llama2-70b", "h200_sxm", "Server"): Settings(Layout(1), 2048, 1536, 0.9),
    ("llama2-70b", "h200_sxm", "Interactive"): Settings(Layout(1), 512, 256, 0.9),
    ("llama2-70b", "h200_nvl", "Offline"): Settings(Layout(1), 2048, 1536, 0.9),
    ("llama2-70b", "h200_nvl", "Server"): Settings(Layout(1), 2048, 1536, 0.9),
    ("llama2-70b", "h200_nvl", "Interactive"): Settings(Layout(1), 512, 256, 0.9),
    ("llama2-70b", "b200", "Offline"): Settings(Layout(1), 2048, 3584, 0.95),
    ("llama2-70b", "b200", "Server"): Settings(Layout(1), 2048, 3584, 0.95),
    ("llama2-70b", "b200", "Interactive"): Settings(Layout(1), 768, 768, 0.95),
    ("llama2-70b", "gb200", "Offline"): Settings(Layout(1), 2048, 3584, 0.95),
    ("llama2-70b", "gb200", "Server"): Settings(Layout(1), 2048, 3584, 0.95),
    ("llama3.1-8b", "h200_nvl", "Offline"): Settings(Layout(1), 2048, 1536, 0.9),
    ("llama3.1-8b", "h200_nvl", "Server"): Settings(Layout(1), 2048, 1536, 0.9),
    ("llama3.1-8b", "h200_nvl", "Interactive"): Settings(Layout(1), 2048, 1536, 0.9),
    ("llama3.1-8b", "b200", "Offline"): Settings(Layout(1), 6000, 12000, 0.9),
    ("llama3.1-8b", "b200", "Server"): Settings(Layout(1), 6000, 12000, 0.9),
    ("llama3.1-8b", "b200", "Interactive"): Settings(Layout(1), 6000, 12000, 0.9),
    ("llama3.1-405b", "h100_sxm", "Server"): Settings(Layout(8), 64, 2560, 0.9),
    ("llama3.1-405b", "h200_sxm", "Server"): Settings(Layout(8), 64, 2560, 0.9),
    ("llama3.1-405b", "b200", "Server"): Settings(Layout(4), 256, 2048, 0.95),
    ("llama3.1-405b", "b200", "Interactive"): Settings(Layout(4), 256, 1536, 0.95),
    ("llama3.1-405b", "gb200", "Server"): Settings(Layout(4), 256, 2048, 0.95),
    ("mixtral-8x7b", "h200_sxm", "Offline"): Settings(Layout(1), 3072, 9216, 0.9),
    ("mixtral-8x7b", "h200_sxm", "Server"): Settings(Layout(1), 3072, 8192, 0.9),
    ("deepseek-r1", "b200", "Offline"): Settings(Layout(1, 8, 1, 8), 4096, 4608, 0.9),
    ("deepseek-r1", "b200", "Server"): Settings(Layout(1, 8, 1, 8), 4096, 3456, 0.9),
    ("deepseek-r1", "gb300", "Server"): Settings(Layout(1, 8, 1, 8), 4096, 6656, 0.95),
}
"""By model, device and scenario: gpu_batch_size, max_num_tokens, kvcache_free_gpu_mem_frac and parallelism of
closed/*/configs in mlcommons/inference_results_v5.1 (965182b), which agree between submitters of a device, but for
single ones; 405B on H100 is Cisco's custom.py. Each has chunked prompts, `max_util` (no blocks held back for answers),
fp8 weights on Hopper, fp4 on Blackwell, an fp8 cache. Ranks of attention-DP: 512 sequences each."""
VLLM: Mapping[tuple[str, str], Settings] = {
    ("h100_sxm", "Server"): Settings(Layout(1), 512, 1024, 0.91),
    ("h100_sxm", "Offline"): Settings(Layout(1), 1024, 4096, 0.9),
    ("l40s", "Server"): Settings(Layout(1), 256, 2048, 0.96),
    ("l40s", "Offline"): Settings(Layout(1), 512, 16384, 0.95)}
"""Of Red Hat's Llama 3.1 8B on vLLM 0.10.0, one GPU (closed/RedHat/code/llama3.1-8b/README.md); its server on H100 has
a cache of bf16, all others one of fp8."""
CHANGES: Mapping[str, Mapping[str, object]] = {
    "built": {"policy.reserve": 0.0, "policy.sequence_overhead": "0 ns"}, "endpoint": {"policy.reserve": 0.0},
    "vllm": {}}
"""Of policies, by backend. Llama 2 70B, Llama 3.1 405B and Mixtral run in engines that `make generate_engines` builds
(C++), Llama 3.1 8B and DeepSeek-R1 behind TensorRT-LLM's endpoint (PyTorch): closed/NVIDIA/code/*/tensorrt/README.md.
The host time a sequence of stack trt-llm is of the PyTorch backend; none is known of the other."""
ENDPOINT = ("llama3-8b", "deepseek-r1")
LIVES, LEAST = 6, 2000      # times that a request may last, and requests, of a stream
SLACK = 0.8


class Line(Struct, frozen=True):
    """A row beside its prediction: output tokens/s, measured and found; TTFT p50, p99 and TPOT p50, p99 in ms measured,
    and made at the measured rate (nan offline)."""

    org: str
    device: str
    npus: int
    model: str
    scenario: str
    layout: str
    real: float
    found: float
    limit: str
    slack: bool
    real_ms: tuple[float, ...]
    made_ms: tuple[float, ...]


def group_of(values: Mapping[str, str]) -> tuple[str, str, str]:
    """The model's name in MLPerf, the device and the scenario of a row."""
    model = values["model"].replace("-99.9", "").replace("-99", "").replace("llama3_1", "llama3.1")
    return model, next((name for word, name in SYSTEMS.items() if word in values["acc"]), ""), values["scen"]


def outputs_of(rows: Iterable[Mapping[str, str]]) -> dict[tuple[str, str, str], int]:
    """Group -> mean tokens of an answer."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        found.setdefault(group_of(row), []).append(float(row["tps"] or row["comp_tps"]) / float(row["sps"]))
    return {group: round(float(np.mean(each))) for group, each in found.items()}


def engine_of(values: Mapping[str, str], output: int) -> tuple[str, Deployment]:
    """The model's name in MLPerf and the engine of a row. Raises LookupError without settings."""
    model, system, scenario = group_of(values)
    red_hat = "RedHat" in values["org"]
    given = VLLM[system, scenario] if red_hat else SETTINGS[model, system, scenario]
    form, prompt = "nvfp4" if "b" in system else "fp8", PROMPTS[model]
    cache = "bf16" if red_hat and (system, scenario) == ("h100_sxm", "Server") else "fp8"
    return model, Deployment(
        model=NAMES[model], system=system, stack="vllm-sync" if red_hat else "trt-llm", version="", precision=form,
        formats={"weights": form, "cache": cache}, layout=given.layout, concurrency=given.batch,
        prompt=Lengths(prompt, prompt), output=Lengths(output, output), batch=given.batch, tokens=given.tokens,
        mixed=True, share=given.share)


class Judge(Struct, frozen=True):
    """Serves engines; equal ones share their step times, equal rows their answers."""

    predictors: Mapping[str, Predictor]
    known: dict[object, Any]

    def predictor(self, engine: Deployment) -> Predictor:
        """With the changes of the engine's backend."""
        return self.predictors["vllm" if engine.stack != "trt-llm" else
                               "endpoint" if engine.model in ENDPOINT else "built"]

    def at(self, engine: Deployment, rate: float, lasts: float) -> Served:
        """A stream at a rate on one engine, that `lasts` LIVES times as many seconds."""
        stream = config.decode(Poisson, {"rate": rate, "count": max(LEAST, math.ceil(LIVES * lasts * rate)), "seed": 0,
                                         "prompt": engine.prompt.high, "output": engine.output.high})
        return run(requests_of(stream), self.predictor(engine).fleet(engine))

    def offline(self, engine: Deployment) -> float:
        """Output tokens/s and NPU."""
        key = repr(engine)
        if key not in self.known:
            self.known[key] = self.predictor(engine).of(engine).rate
        return float(self.known[key])

    def online(self, engine: Deployment, limits: tuple[float, float], rate: float
               ) -> tuple[float, str, tuple[float, ...]]:
        """Requests/s of one engine within the limits, what ends it, and latencies at `rate`."""
        slo = Slo((Limit("ttft", "p99", limits[0] * 1e6), Limit("tpot", "p99", limits[1] * 1e6)))
        lasts, key, near = (limits[0] + limits[1] * engine.output.high) / 1e3, repr(engine), round(math.log(rate), 2)
        if key not in self.known:
            self.known[key] = find_rate(lambda each: self.at(engine, each, lasts), slo, rate)
        if (key, near) not in self.known:
            served = self.at(engine, rate, lasts)
            self.known[key, near] = tuple(Limit(metric, share, 1.0).of(served) / 1e6 for metric in ("ttft", "tpot")
                                          for share in ("p50", "p99"))
        found, made = self.known[key], self.known[key, near]
        return found.best.rate if found.best else 0.0, found.beyond.why if found.beyond else "", made


def judged(values: Mapping[str, str], judge: Judge, output: int) -> Line:
    """The line of a row. Raises LookupError, AstrariumError."""
    model, engine = engine_of(values, output)
    npus, real = int(values["n"]) * int(values["nodes"]), float(values["tps"] or values["comp_tps"])
    nothing = (float("nan"),) * 4
    if values["scen"] == "Offline":
        found, why, made, measured, slack = judge.offline(engine) * npus, "", nothing, nothing, False
    else:
        limits, engines = LIMITS[model, values["scen"]], npus / engine.npus
        rate, why, made = judge.online(replace(engine, concurrency=0, rates=(1.0,)), limits,
                                       float(values["sps"]) / engines)
        found = rate * engine.output.mean * engines
        measured = tuple(float(values[name] or "nan") / 1e6
                         for name in ("ttft_p50_ns", "ttft_p99_ns", "tpot_p50_ns", "tpot_p99_ns"))
        slack = measured[1] < SLACK * limits[0] and measured[3] < SLACK * limits[1]
    return Line(values["org"], engine.system, npus, model, values["scen"], str(engine.layout), real, found, why, slack,
                measured, made)


def lines_of(options: argparse.Namespace) -> Iterator[Line]:
    """All rows, until the time is over."""
    start, left = time.process_time(), dict[str, int]()
    judge = Judge({name: Predictor(changes) for name, changes in CHANGES.items()}, {})
    with open(options.file, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["div"] == "closed" and row["scen"] in options.scenario
                and all(any(word in row[column] for word in words.split(","))
                        for column, words in (("model", options.models), ("acc", options.devices)))]
    outputs = outputs_of(rows)
    for row in rows:
        if options.until and time.process_time() - start > options.until:
            print(f"stopped after {options.until:.0f} CPU s")
            return
        try:
            yield judged(row, judge, outputs[group_of(row)])
        except (LookupError, AstrariumError) as error:
            reason = f"{row['model']} on {row['acc'][:30]}, {row['scen']}: {str(error)[:90]}"
            left[reason] = left.get(reason, 0) + 1
    for reason, count in left.items():
        print(f"  left out, {count} rows: {reason}")


def told(found: list[Line]) -> None:
    """Print errors by scenario, and by model and device."""
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in found:
        for key in ((line.scenario,), (line.scenario, line.model, line.device)):
            groups.setdefault(key, []).append(line)
        if not line.slack and line.scenario != "Offline":
            groups.setdefault((line.scenario, "near its limits"), []).append(line)
    for key, some in sorted(groups.items()):
        errors = np.array([100 * (line.found / line.real - 1) for line in some])
        tpots = np.array([100 * (line.made_ms[2] / line.real_ms[2] - 1) for line in some])
        print(f"{', '.join(key)}: {len(some)} rows, tokens/s median {np.median(np.abs(errors)):.1f} %, p90 "
              f"{np.quantile(np.abs(errors), 0.9):.1f} %, bias {np.median(errors):+.1f} %; TPOT p50 at the rate "
              f"{np.nanmedian(tpots):+.1f} %" if not np.isnan(tpots).all() else
              f"{', '.join(key)}: {len(some)} rows, tokens/s median {np.median(np.abs(errors)):.1f} %, p90 "
              f"{np.quantile(np.abs(errors), 0.9):.1f} %, bias {np.median(errors):+.1f} %")


def main() -> None:
    """Read, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--models", default="llama,mixtral,deepseek")
    parser.add_argument("--devices", default="NVIDIA", help="words of devices")
    parser.add_argument("--scenario", default="Offline,Server,Interactive")
    parser.add_argument("--until", type=float, default=0, metavar="SECONDS", help="start no row after so much CPU time")
    options, found = parser.parse_args(), []
    for line in lines_of(options):
        found.append(line)
        print(f"{line.org[:9]:9} {line.device:9} {line.npus:3} {line.model:13} {line.scenario:11} {line.layout:16} "
              f"{line.real:9.0f} found {line.found:9.0f} {100 * (line.found / line.real - 1):+6.1f} % "
              f"{'slack' if line.slack else '     '} TTFT {line.real_ms[1]:5.0f} made {line.made_ms[1]:5.0f}  TPOT "
              f"{line.real_ms[2]:5.1f} made {line.made_ms[2]:5.1f}  {line.limit}", flush=True)
    told(found)


if __name__ == "__main__":
    main()
