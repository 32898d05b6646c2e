"""Files of other programs that people give for launch arguments: what they are, and what to give instead.

Marks are words of the programs' own examples: verl (verl.trainer), OpenRLHF (openrlhf.cli), axolotl (`axolotl train`;
keys base_model, sequence_len), LLaMA-Factory (llamafactory-cli; key cutoff_len), Hugging Face Accelerate (`accelerate
launch`; keys distributed_type, compute_environment) and Transformers (per_device_train_batch_size), NeMo 2 (nemo_run,
`nemo llm`).
"""

from __future__ import annotations

import re

__all__ = ["of_text", "of_yaml", "serves"]

SERVED = "for its generation: `astrarium plan --for serving`"
DEEPSPEED = "the DeepSpeed configuration (.json) that the job uses, with MODEL, --gpus, --seq and --global-batch"
CORE = "Megatron-LM's arguments for the same job"
PLAIN = f"{DEEPSPEED}; or without --from: `astrarium plan MODEL --gpus N --seq S --global-batch B`"
RAY = ("a job of reinforcement learning, which trains and generates in turn",
       f"for its training step: {CORE}, or {DEEPSPEED}; {SERVED}")
ENGINE = r"\bvllm\s+serve\b|\bsglang(?:\.launch_server|\s+serve)\b|\btrtllm-serve\b"
TEXTS = (
    (ENGINE, "the launch of an engine that serves",
     "--for serving beside it: `astrarium plan --from FILE --for serving`"),
    (r"HYBRID_TRANSFORMER", "a workload of SimAI or ASTRA-sim 1.0, one line per layer",
     "launch arguments; `astrarium trace convert` turns it into traces, which `astrarium run` takes"),
    (r"\bverl[./]trainer|main_ppo|openrlhf\.cli\.train_(?:ppo|grpo|rm|dpo)", *RAY),
    (r"openrlhf\.cli", "a command line of OpenRLHF", PLAIN),
    (r"\baxolotl\b[ .]", "a command line of axolotl", PLAIN),
    (r"\bllamafactory-cli\b|\bllamafactory\b", "a command line of LLaMA-Factory", PLAIN),
    (r"\bswift (?:sft|pt)\b", "a command line of ms-swift", PLAIN),
    (r"trainer\.num_nodes=|model\.tensor_model_parallel_size=",
     "Hydra overrides of a NeMo 1 configuration, which says the rest",
     "the whole configuration (.yaml), as NeMo prints it at its start"),
    (r"\bnemo llm\b|\bnemo_run\b", "a job of NeMo 2, which is configured in Python",
     f"{CORE}, as Megatron core prints them in the log of the job"),
    (r"--job\.config", "a command line of torchtitan", "its configuration (.toml) with these overrides in it"),
    (r"torchtitan|--module[ =]\S+ +--config[ =]|\bCONFIG=\S+ \S*run_train\.sh",
     "a command line of torchtitan, whose configuration is in Python since 2026-03",
     "the log of a run with --debug.print_config, or the file that --debug.save_config_file writes (.json)"),
    (r"--deepspeed\b", "a command line with DeepSpeed", "DeepSpeed's configuration (.json), with MODEL"),
    (r"\baccelerate launch\b", "a command line of Hugging Face Accelerate", PLAIN),
    (r"per_device_train_batch_size", "arguments of Hugging Face Transformers", PLAIN))
"""(pattern that only such text has, what it is, what would do)"""
YAMLS = (
    (r"^(?:compute_environment|distributed_type)\s*:", "a configuration of Hugging Face Accelerate", PLAIN),
    (r"^base_model\s*:", "a configuration of axolotl", PLAIN),
    (r"^(?:cutoff_len|finetuning_type)\s*:", "a configuration of LLaMA-Factory", PLAIN),
    (r"^actor_rollout_ref\s*:", *RAY),
    (r"^(?:per_device_train_batch_size|model_name_or_path)\s*:", "arguments of Hugging Face Transformers", PLAIN),
    (r"^(?:apiVersion|kind)\s*:", "an object of Kubernetes", f"the command in it, as a script (.sh): {CORE}"))


def serves(text: str) -> bool:
    """Whether text launches an engine that serves."""
    return re.search(ENGINE, text) is not None


def of_text(text: str) -> tuple[str, str] | None:
    """(what the text is, what would do) for text of another program."""
    return _first(text, TEXTS)


def of_yaml(text: str) -> tuple[str, str] | None:
    """(what a file is, what would do) for a YAML file of another program."""
    return _first(text, YAMLS)


def _first(text: str, known: tuple[tuple[str, str, str], ...]) -> tuple[str, str] | None:
    return next(((what, would) for mark, what, would in known if re.search(mark, text, re.MULTILINE)), None)
