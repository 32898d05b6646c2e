"""Rows of the silicon table of aiconfigurator-core: what each states, by the conventions of its sources.

Most rows are of InferenceX (formerly InferenceMAX, SemiAnalysis): its client draws lengths uniformly from 0.8 to 1.0 of
the stated ones, keeps `concurrency` requests in flight, and asks for ten times as many (benchmark_serving.py,
RANDOM_RANGE_RATIO and num_prompts, https://github.com/SemiAnalysisAI/InferenceX, commit 100a5ec).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from astrarium.errors import InputError, nearest
from astrarium.validate.rows import Row
from astrarium.validate.serving.deployment import Deployment, Layout, Lengths, numbers_of
from astrarium.validate.serving.recipes import Recipe, launched, recipe_of

__all__ = ["HIDES_MTP", "deployment_of", "distinct", "in_order", "judges", "measured", "rate_of"]

MODELS: Mapping[str, str] = MappingProxyType({
    "deepseek-ai/DeepSeek-R1": "deepseek-v3", "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-v3", "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-v3",
    "MiniMaxAI/MiniMax-M2.5": "minimax-m2", "openai/gpt-oss-120b": "gpt-oss-120b", "zhipuai/GLM-5": "glm-5",
    "Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b", "Qwen/Qwen3-32B": "qwen3-32b", "nvidia/Qwen3-32B-NVFP4": "qwen3-32b",
    "Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b", "moonshotai/Kimi-K2.5": "kimi-k2",
    "meta-llama/Llama-3.1-70B": "llama3-70b", "meta-llama/Llama-3.1-8B-Instruct": "llama3-8b",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama3-8b"})
"""Published checkpoints -> models of the catalog with their sizes."""

SHARED_TOO = frozenset({"deepseek-v3", "kimi-k2", "glm-5"})
"""Models whose NVFP4 checkpoints of NVIDIA quantise shared experts and dense layers, too (hf_quant_config.json of
DeepSeek-V3.1-NVFP4, Kimi-K2.5-NVFP4, GLM-5-NVFP4; DeepSeek's also have attention's last product, left out here)."""
DENSE = frozenset({"llama3-70b", "llama3-8b", "qwen3-32b"})
HIDES_MTP = ("DeepSeek-R1", "GLM-5", "Qwen3.5")
"""Models whose rows mix multi-token prediction on and off without a column."""

STACKS: Mapping[str, str] = MappingProxyType({"trtllm": "trt-llm", "vllm": "vllm", "sglang": "sglang"})
AHEAD = (0, 14)     # vLLM schedules asynchronously from here on
CLIENT: Mapping[str, float] = MappingProxyType({"vllm": 30.0, "vllm-sync": 35.0, "sglang": 160.0, "trt-llm": 110.0})
"""ms by which mean first tokens of the table come later than predicted, fitted on its even half: clients that tokenize
and stream in one process, prompts that run without graphs. vLLM's stream_offset (5 ms) comes on top."""
RATIO, HOST_OF_FOUR = 0.8, 4
ALWAYS = ("openai/gpt-oss-120b", "h100_sxm", "vllm", 512)
"""Requests in flight that gptoss_fp4_h100_docker.sh of InferenceX asked for in every run (commits d22bf9c of 2025-11-21
to 4e135fd of 2025-12-08; its sweeps end at 64), while the engine's --max-num-seqs was the run's concurrency."""

REPEATED: Mapping[str, int] = MappingProxyType({"/vllm/0.12.0/nvidia_Llama-3.1-8B-Instruct-FP8.csv": 100})
"""Dumps whose prompts came from a pool, and so from the engine's prefix cache: the benchmark that
aiconfigurator generates leaves AIPerf's --num-dataset-entries at its default and the cache on (bench_run.sh.j2,
benchmark/vllm.rule, https://github.com/ai-dynamo/aiconfigurator, commit 095f58a). Computed in full, prompts of 2,000
tokens at 59 requests/s would take all of an H200's 1,979 TFLOP/s."""
BLOCK = 16

GENERATED, ROOM, PAGE = "/aic-auto-gap-analysis/data/", 1500, 32
"""Dumps whose engines were launched as aiconfigurator's generator does for benchmarks: steps of at most the batch, a
prompt and 1,500 tokens, in TensorRT-LLM a multiple of 32 (generator/rule_plugin/benchmark, aiconfigurator 0.12.0)."""
MIXED = (0, 5, 6)
"""SGLang from which these engines mix prompts with decoding sequences (`agg enable_mixed_chunk` there), as the even
half shows; its rows of 0.5.1 have prompts in separate steps."""


def measured(row: Row) -> Mapping[str, float]:
    """TTFT and TPOT in ms, as far as the row has them."""
    found = {name: row.number(f"silicon_{name}_ms") for name in ("ttft", "tpot")}
    return {name: value for name, value in found.items() if value}


def rate_of(row: Row, meant: Deployment) -> float | None:
    """Output tokens per second and NPU that a row's times mean, with all its requests in flight."""
    found = measured(row)
    if len(found) < 2:
        return None
    output = meant.output.mean
    seconds = (found["ttft"] + found["tpot"] * (output - 1)) / 1e3
    return meant.concurrency * output / seconds / meant.npus


def distinct(rows: Iterable[Row]) -> list[Row]:
    """Rows without repeats of one measurement in several dumps of the table: the same model, system, TTFT and TPOT."""
    seen, found = set[object](), list[Row]()
    for row in rows:
        key = (row.text("model_path"), row.text("system"), row.number("silicon_ttft_ms"),
               row.number("silicon_tpot_ms"))
        if row.kind != "silicon" or key not in seen:
            found.append(row)
            seen.add(key)
    return found


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows in the order of the md5 of their ids, so that the first ones are a fair sample."""
    return sorted(rows, key=lambda row: hashlib.md5(row.text("id").encode(), usedforsecurity=False).hexdigest())


def judges(row: Row) -> bool:
    """Whether the row is of the half on which nothing is fitted: the sha256 of its id is odd."""
    return bool(int(hashlib.sha256(row.text("id").encode()).hexdigest(), 16) % 2)


def deployment_of(row: Row) -> Deployment:
    """What the row states. Raises InputError with the column that it leaves open, where a prediction needs it."""
    path, assumed = row.text("model_path"), list[str]()
    if path not in MODELS:
        raise InputError("model_path", f"{path[:60]!r} is not known", expected="a model of the silicon table",
                         did_you_mean=nearest(path, MODELS))
    model, backend = MODELS[path], row.text("backend")
    if backend not in STACKS:
        raise InputError("backend", f"{backend[:60]!r} is not known", expected="one of " + ", ".join(STACKS))
    stack, version = STACKS[backend], row.text("backend_version")
    if stack == "vllm" and re.match(r"\d", version) and numbers_of(version) < AHEAD:
        stack = "vllm-sync"
    recipe = recipe_of(model, STACKS[backend], row.text("system"), row.text("precision")) if _public(row) else {}
    formats = _formats(row, model, recipe, assumed)
    prompt = _lengths(row, "isl", assumed)
    named = {"model": model, "system": row.text("system"), "stack": stack, "version": version,
             "precision": row.text("precision") or "bf16", "formats": formats, "prompt": prompt,
             "output": _lengths(row, "osl", assumed), "client": CLIENT[stack]}
    if row.text("mode") == "disagg":
        return _apart(row, model, named, assumed)
    layout = _layout(row, "", model, assumed)
    if recipe.get("ep") == "tp" and layout.dp == 1:
        layout = Layout(layout.tp, 1, layout.pp, layout.tp)
    users, engines = _users(row, layout)
    if any(word in path for word in HIDES_MTP):
        assumed.append("multi-token prediction: none, as rows of this model do not say")
        named["stated"] = False
    named |= _repeated(row, prompt, assumed) | _generated(row, stack)
    named |= launched(recipe, users, (row.count("isl") or 1, row.count("osl") or 1), layout.dp)
    return Deployment(**named, layout=layout, concurrency=users, engines=engines,       # type: ignore[arg-type]
                      assumed=tuple(assumed))


def _public(row: Row) -> bool:
    """Whether the row is of InferenceX."""
    words = row.text("silicon_data_source")
    return bool(re.match(r"db-dump|source_file=[0-9-]+\.csv|source_file=[a-z0-9.-]*gap-analysis\.csv", words))


def _lengths(row: Row, column: str, assumed: list[str]) -> Lengths:
    high = row.count(column)
    if high is None:
        raise InputError(column, "is not stated", expected="tokens")
    if _public(row):
        return Lengths(int(high * RATIO), high)
    said = "lengths: as stated, without spread"
    assumed += [said] if said not in assumed else []
    return Lengths(high, high)


def _repeated(row: Row, prompt: Lengths, assumed: list[str]) -> dict[str, object]:
    """Prompts of a pool: all but their last block is in the cache from the second time on."""
    pool = next((count for name, count in REPEATED.items() if name in row.text("silicon_data_source")), 0)
    if not pool:
        return {}
    assumed.append(f"prompts: {pool} different ones, sent again and again")
    again = (prompt.high - 1) // BLOCK * BLOCK
    return {"prefix": again, "groups": pool, "prompt": Lengths(prompt.low - again, prompt.high - again)}


def _generated(row: Row, stack: str) -> dict[str, object]:
    """How aiconfigurator's generator launches engines for benchmarks."""
    if GENERATED not in row.text("silicon_data_source"):
        return {}
    if stack == "sglang":
        return {"mixed": numbers_of(row.text("backend_version"), 3) >= MIXED}
    tokens = (row.count("batch_size") or 0) + (row.count("isl") or 0) + ROOM
    return {"tokens": -(-tokens // PAGE) * PAGE if stack == "trt-llm" else tokens}


def _apart(row: Row, model: str, named: Mapping[str, object], assumed: list[str]) -> Deployment:
    for column in ("decode_batch_size", "decode_num_workers", "prefill_num_workers"):
        if row.count(column) is None:
            raise InputError(column, "is not stated", expected="what the decode and prefill engines hold and are")
    back, front = _layout(row, "decode_", model, assumed), _layout(row, "prefill_", model, assumed)
    engines, workers = row.count("decode_num_workers") or 1, row.count("prefill_num_workers") or 1
    users = _stated_users(row) or (row.count("decode_batch_size") or 1) * back.dp * engines
    return Deployment(**named, layout=back, concurrency=users, engines=engines,         # type: ignore[arg-type]
                      prefill=(front, workers), assumed=tuple(assumed))


def _stated_users(row: Row) -> int | None:
    found = re.search(r"silicon_concurrency=(\d+)", row.text("silicon_data_source"))
    return int(found[1]) if found else None


def _users(row: Row, layout: Layout) -> tuple[int, int]:
    """(requests in flight, engines that share them)."""
    batch, users = row.count("batch_size"), _stated_users(row)
    if batch is None:
        raise InputError("batch_size", "is not stated", expected="requests in flight")
    if _public(row) and (row.text("model_path"), row.text("system"), row.text("backend"), users) == ALWAYS:
        raise InputError("batch_size", f"{batch} is what the client of this script always asked for, not what the "
                         "engine held", expected="requests in flight")
    if users is None or _public(row) or users == batch:
        return users or batch, 1
    if layout.dp > 1 and users == batch * layout.dp:
        return users, 1
    raise InputError("batch_size", f"{batch} of {users} requests in flight: whether engines or attention replicas "
                     "share them is not stated", expected="the batch of the whole deployment")


def _layout(row: Row, side: str, model: str, assumed: list[str]) -> Layout:
    """The layout of a side ("", "prefill_", "decode_"). Dumps of InferenceX write an engine of n NPUs with tp n and
    ep n as tp n x n, moe n x n (or attention_dp n x n); vLLM's as tp n, attention_dp n, ep n x n."""
    tp, pp, dp, moe, ep = (_whole(row, f"{side}{name}_size")
                           for name in ("tp", "pp", "attention_dp", "moe_tp", "moe_ep"))
    if model in DENSE:
        return Layout(tp, dp, pp)
    product = moe * ep
    if _public(row):
        if moe == ep > 1 and product == tp and dp == 1:
            return Layout(ep, 1, pp, ep)
        if moe == ep > 1 and product == dp and tp == 1:
            return Layout(1, ep, pp, ep)
        if tp == dp > 1 and moe == 1 and ep == tp * dp:
            return Layout(tp, 1, pp, tp)
    if row.text("backend") == "sglang" and _public(row) and tp == 1 and moe == dp > 1 and ep == 1:
        wide = dp > HOST_OF_FOUR        # DeepEP sets ep; without it a small engine is tp
        assumed.append(f"attention_dp {dp} with moe_tp {dp} is " + (f"ep {dp}" if wide else f"tp {dp}"))
        return Layout(1, dp, pp, dp) if wide else Layout(dp, 1, pp)
    if dp == 1 and tp & (tp - 1):
        if not side:
            raise InputError("tp_size", f"{tp} NPUs are those of pools that prefill and decode together (no engine of "
                             "InferenceX has that many)", expected="the layout of an engine, and of each pool")
        assumed.append(f"tp {tp} is attention-DP over {tp} NPUs")
        return Layout(1, tp, pp, tp)
    if product == 1:
        if tp * dp > 1:
            assumed.append("experts: over tp")
        return Layout(tp, dp, pp)
    if dp == 1 and not row.count(f"{side}attention_dp_size") and product % tp == 0:
        dp = product // tp
    if product != tp * dp:
        raise InputError(f"{side}moe_tp_size", f"{moe} x moe_ep_size {ep} are not tp {tp} x attention_dp {dp}",
                         expected="experts over the same NPUs as attention")
    return Layout(tp, dp, pp, ep)


def _whole(row: Row, column: str) -> int:
    """A degree; left out or 0: 1."""
    text = row.text(column)
    if not re.fullmatch(r"\d{0,6}", text):
        raise InputError(column, f"{text[:60]!r} is not a number of ranks", expected="a whole number")
    return max(1, int(text or 1))


def _formats(row: Row, model: str, recipe: Recipe, assumed: list[str]) -> Mapping[str, str | int]:
    """Formats of the published checkpoint that a precision means, and of the cache."""
    precision = row.text("precision").lower() or "bf16"
    if precision not in ("bf16", "fp8", "fp4", "int4"):
        raise InputError("precision", f"{precision[:60]!r} is not known", expected="bf16, fp8, fp4 or int4")
    cache = recipe.get("cache", "bf16" if precision == "bf16" else "fp8")
    assumed.append(f"cache: {cache}" + (", by the recipe of its source" if "cache" in recipe else ""))
    if model == "gpt-oss-120b":     # one checkpoint: experts in MXFP4, all else bf16
        operands = {"activations": recipe["activations"]} if "activations" in recipe else {}
        return {"weights": "bf16", "experts": "mxfp4", "cache": cache, **operands}
    if precision == "fp8" and model not in DENSE:
        return {"weights": "fp8_block", "cache": cache}
    if precision == "fp4" and model in SHARED_TOO:
        return {"weights": "nvfp4", "attention": "bf16", "cache": cache}
    if precision == "fp4" and model not in DENSE:       # NVIDIA's checkpoints leave attention as it is
        return {"weights": "bf16", "experts": "nvfp4", "cache": cache}
    if precision == "int4":         # only routed experts, one scale for 32 weights
        return {"weights": "bf16", "experts": "int4", "scale_group": 32, "cache": cache}
    blocked = "fp8_block" if row.text("gemm_quant_mode") == "fp8_block" else precision
    return {"weights": "nvfp4" if precision == "fp4" else blocked, "cache": cache}
