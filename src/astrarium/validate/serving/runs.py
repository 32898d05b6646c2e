"""Runs of vLLM under open loops (rows of one metric each: experiment, model, hardware, workload, stage), by what the
project that measured them says of its workloads; what it leaves open is said."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from astrarium.errors import InputError, nearest
from astrarium.validate.rows import Row
from astrarium.validate.serving.deployment import Deployment, Layout, Lengths

__all__ = ["METRICS", "run_of"]


class Workload(Struct, frozen=True):
    """Tokens of prompt and answer, different prompts, requests a second of the stages; `lite`: of the slower variant.
    """

    prompt: int
    output: int
    prompts: int
    rates: tuple[float, ...]
    lite: tuple[float, ...] = ()


WORKLOADS: Mapping[str, Workload] = MappingProxyType({
    "general": Workload(547, 248, 9 * 5, (8.0, 20.0), (2.5, 6.0)), "codegen": Workload(566, 247, 11 * 4, (5.0, 10.0)),
    "roleplay": Workload(750, 251, 11 * 4, (6.0,)), "reasoning": Workload(1034, 1448, 23, (4.0,), (1.0,))})
"""inference-sim/sim-to-real-accuracy-validation (commit dcec3fd: docs, tests) and the branch training of
inference-sim/inference-sim (training/trainval_data/README.md). The load comes from inference-perf
(SharedPrefixDataGenerator, ConstantLoadTimer, ignore_eos): a number of prompts of random tokens, each sent again and
again, all answers of one length, exponential gaps. How many prompts roleplay has is not stated (as codegen)."""
BLOCK = 16

MODELS: Mapping[str, str] = MappingProxyType({
    "mistralai/Mixtral-8x7B-v0.1": "mixtral-8x7b", "mistralai/Mixtral-8x22B-Instruct-v0.1": "mixtral-8x22b",
    "mistralai/Mixtral-8x22B-v0.1": "mixtral-8x22b", "meta-llama/Llama-3.1-8B-Instruct": "llama3-8b",
    "meta-llama/Llama-3.1-70B-Instruct": "llama3-70b", "meta-llama/Llama-2-7b-hf": "llama2-7b",
    "meta-llama/Llama-2-70b-hf": "llama2-70b", "codellama/CodeLlama-34b-Instruct-hf": "codellama-34b",
    "Qwen/Qwen3-14B": "qwen3-14b", "Qwen/Qwen2.5-7B-Instruct": "qwen2.5-7b",
    "mistralai/Mistral-Nemo-Instruct-2407": "mistral-nemo-12b",
    "RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic": "llama4-scout"})
SYSTEMS: Mapping[str, str] = MappingProxyType({"H100": "h100_sxm", "A100-80GB": "a100_sxm_80gb", "L40S": "l40s"})
METRICS: Mapping[str, str] = MappingProxyType({"itl_mean": "tpot", "e2e_mean": "latency", "ttft_mean": "ttft",
                                               "ttft_p90": "ttft_p90", "ttft_p99": "ttft_p99", "e2e_p90": "latency_p90",
                                               "e2e_p99": "latency_p99"})
MOST_SEQUENCES = 128


def run_of(row: Row) -> Deployment:
    """The deployment of the row's experiment, in its stage. Raises InputError for what is not known."""
    for column, known in (("model", MODELS), ("hardware", SYSTEMS)):
        if row.text(column) not in known:
            raise InputError(column, f"{row.text(column)[:60]!r} is not known", expected="one of " + ", ".join(known),
                             did_you_mean=nearest(row.text(column), known))
    name = row.text("experiment")
    kind = next((each for each in WORKLOADS if each in name), row.text("workload"))
    if kind not in WORKLOADS:
        raise InputError("workload", f"{kind[:60]!r} is not known", expected="one of " + ", ".join(WORKLOADS))
    work = WORKLOADS[kind]
    assumed = [f"prompts: {work.prompts} different ones, sent again and again", "tokens: as the client asks for"]
    again = (work.prompt - 1) // BLOCK * BLOCK      # tokens in the cache from the second time on
    rates = work.lite if "lite" in name and work.lite else work.rates
    if "lite" in name and not work.lite:
        assumed.append(f"rate: {rates[0]:g}/s, as of {kind}")
    stage = row.text("stage")
    if stage.isdecimal() and int(stage) < len(rates):
        rates = (rates[int(stage)],)
    weights = "fp8" if row.text("precision") == "FP8" else "bf16"
    return Deployment(
        model=MODELS[row.text("model")], system=SYSTEMS[row.text("hardware")], stack="vllm", version="0.15.1",
        precision=weights, formats={"weights": weights}, layout=Layout(row.count("tp") or 1), concurrency=0,
        prompt=Lengths(work.prompt - again, work.prompt - again),
        output=Lengths(work.output, work.output), tokens=row.count("max_num_batched_tokens"), batch=MOST_SEQUENCES,
        rates=rates, prefix=again, groups=work.prompts, share=row.number("gpu_mem_util"), assumed=tuple(assumed))
