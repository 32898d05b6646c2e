"""MLPerf Inference rows beside what Astrarium predicts: tokens/s offline, and at the limits of server and interactive.

usage: mlperf_inference.py FILE.csv [--models WORDS] [--scenario WORDS]

Rows state neither layout nor format nor engine. Taken: fp8 on Hopper and Ada, nvfp4 on Blackwell, an fp8 cache,
TensorRT-LLM (vLLM for Red Hat), replicas of the tp that is best, with NVIDIA's limits of a step, all requests of the
data set's mean lengths. AMD's and others' devices have no rows of kernels here, and are left out.
"""

from __future__ import annotations

import argparse
import csv

import numpy as np
from msgspec.structs import replace

from astrarium.errors import AstrariumError
from astrarium.validate.serving.deployment import Deployment, Layout, Lengths
from astrarium.validate.serving.predict import Figures, Predictor

PROMPTS = {"llama2-70b": 294, "llama3.1-8b": 778, "llama3.1-405b": 9428, "mixtral-8x7b": 291, "deepseek-r1": 798}
"""Mean tokens of the prompts (MLCommons, articles of Inference 4.0 to 5.1); of answers: tokens/s over samples/s."""
LIMITS = {("llama2-70b", "Server"): (2000, 200), ("llama2-70b", "Interactive"): (450, 40),
          ("llama3.1-8b", "Server"): (2000, 100), ("llama3.1-8b", "Interactive"): (500, 30),
          ("llama3.1-405b", "Server"): (6000, 175), ("llama3.1-405b", "Interactive"): (4500, 80),
          ("mixtral-8x7b", "Server"): (2000, 200), ("deepseek-r1", "Server"): (2000, 80)}
"""99th percentiles of TTFT and TPOT in ms that MLPerf Inference 5.1 allows."""
NAMES = {"llama2-70b": "llama2-70b", "llama3.1-8b": "llama3-8b", "llama3.1-405b": "llama3-405b",
         "mixtral-8x7b": "mixtral-8x7b", "deepseek-r1": "deepseek-r1"}
SYSTEMS = {"H100-SXM": "h100_sxm", "H200-SXM": "h200_sxm", "H200-NVL": "h200_nvl", "B200-SXM": "b200", "GB200": "gb200",
           "GB300": "gb300", "L40S": "l40s"}
ENGINES = {"llama2-70b": (2048, 3584, 0.95), "llama3.1-8b": (6000, 12000, 0.9), "": (1024, 8192, 0.9)}
"""Sequences and tokens of a step at most, and the share of memory, of TensorRT-LLM: NVIDIA's configs of Inference 5.1
(mlcommons/inference_results_v5.1, closed/NVIDIA/configs: gpu_batch_size, max_num_tokens, kvcache_free_gpu_mem_frac)."""
HALVINGS = 5


def deployments(values: dict[str, str]) -> list[Deployment]:
    """One engine of each layout that a row may have had."""
    model = values["model"].replace("-99.9", "").replace("-99", "").replace("llama3_1", "llama3.1")
    system = next(name for word, name in SYSTEMS.items() if word in values["acc"])
    output = round(float(values["tps"] or values["comp_tps"]) / float(values["sps"]))
    blackwell = system[0] == "b" or system[:2] == "gb"
    form = "nvfp4" if blackwell else "fp8"
    stack = "vllm" if "RedHat" in values["org"] else "trt-llm"
    prompt, npus = PROMPTS[model], int(values["n"])
    sequences, tokens, share = ENGINES.get(model if stack == "trt-llm" else "", ENGINES[""])
    return [Deployment(model=NAMES[model], system=system, stack=stack, version="", precision=form,
                       formats={"weights": form, "cache": "fp8"}, layout=Layout(tp), concurrency=sequences,
                       prompt=Lengths(prompt, prompt), output=Lengths(output, output), batch=sequences,
                       tokens=tokens, share=share)
            for tp in (1, 2, 4, 8) if tp <= npus]


def offline(engine: Deployment, predictor: Predictor) -> float:
    """Output tokens/s and NPU."""
    return predictor.of(engine).rate


def served(engine: Deployment, limits: tuple[float, float], predictor: Predictor) -> float:
    """Output tokens/s and NPU at the highest rate within the limits."""
    def kept(made: Figures) -> bool:
        return made.ttft_p99 <= limits[0] and made.tpot <= limits[1]

    most = offline(engine, predictor) * engine.npus / engine.output.mean
    low, high = 0.0, most
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        made = predictor.of(replace(engine, concurrency=0, rates=(middle,)))
        low, high = (middle, high) if kept(made) else (low, middle)
    return low * engine.output.mean / engine.npus


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--models", default="llama")
    parser.add_argument("--scenario", default="Offline,Server,Interactive")
    options = parser.parse_args()
    predictor, errors, known = Predictor(), dict[str, list[float]](), dict[object, float]()
    with open(options.file, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["div"] == "closed" and row["scen"] in options.scenario
                and any(word in row["model"] for word in options.models.split(","))]
    for row in rows:
        try:
            engines = deployments(row)
        except (StopIteration, KeyError, ValueError, ZeroDivisionError):
            continue
        model = row["model"].replace("-99.9", "").replace("-99", "").replace("llama3_1", "llama3.1")
        best, layout = 0.0, 0
        for engine in engines:
            key = (repr(engine), row["scen"])
            try:
                if key not in known:
                    known[key] = (offline(engine, predictor) if row["scen"] == "Offline" else
                                  served(engine, LIMITS[model, row["scen"]], predictor))
            except AstrariumError as error:
                known[key] = 0.0
                print(f"  {model} tp{engine.layout.tp} on {engine.system}: {str(error)[:110]}")
            if known[key] > best:
                best, layout = known[key], engine.layout.tp
        real = float(row["tps"] or row["comp_tps"])
        if not best:
            continue
        npus = int(row["n"]) * int(row["nodes"])
        error = 100 * (best * npus / real - 1)
        errors.setdefault(row["scen"], []).append(error)
        print(f"{row['org'][:9]:9} {row['acc'][:22]:22} {npus:3} {model:14} {row['scen']:11} {real:9.0f} "
              f"made {best * npus:9.0f} tp{layout} {error:+6.1f} %", flush=True)
    for scenario, found in errors.items():
        size = np.abs(found)
        print(f"{scenario}: {len(found)} rows, median {np.median(size):.1f} %, p90 {np.quantile(size, 0.9):.1f} %, "
              f"bias {np.median(found):+.1f} %")


if __name__ == "__main__":
    main()
