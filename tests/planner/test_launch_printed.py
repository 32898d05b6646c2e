"""Configurations that torchtitan prints, its command lines, wrapped command lines, and files of other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.planner.launches import TITAN, read

from astrarium.errors import InputError
from astrarium.planner.launch import read_launch
from astrarium.planner.launch.words import arguments_of
from astrarium.planner.layout import Layout

TRAINING = {"max_norm": 1.0, "steps": 1000, "enable_cpu_offload": False, "dtype": "float32",
            "mixed_precision_param": "bfloat16", "mixed_precision_reduce": "float32", "gc_freq": 50, "gc_debug": False}
TOKENS = {"num_tokens_per_microbatch_per_dp_rank": 16384, "num_tokens_per_train_step": 131072,
          "max_context_length": 8192}
PARALLEL = {"data_parallel_replicate_degree": 1, "data_parallel_shard_degree": -1,
            "fsdp_reshard_after_forward": "default", "tensor_parallel_degree": 2, "pipeline_parallel_degree": 1,
            "module_fqns_per_model_part": None, "pipeline_parallel_first_stage_less_layers": 1,
            "pipeline_parallel_last_stage_less_layers": 1, "pipeline_parallel_layers_per_stage": None,
            "pipeline_parallel_schedule": "1F1B", "pipeline_parallel_schedule_csv": "", "context_parallel_degree": 1,
            "context_parallel_load_balancer": "headtail", "expert_parallel_degree": 1}
COMPILE = {"enable": True, "components": ["model", "loss"], "backend": "inductor"}
POLICY = {"preserve_rng_state": True, "determinism_check": "default", "debug": False}
SELECTIVE = {**POLICY, "force_recompute_mm_shapes_by_fqns": ["moe.router.gate"]}


def linear(inner: int, outer: int) -> dict[str, Any]:
    return {"param_init": {"weight": "<function>"}, "in_features": inner, "out_features": outer, "bias": False}


def tree(moe: object = None) -> dict[str, Any]:
    """A model of two layers as torchtitan prints it (fewer fields)."""
    attention = {"n_heads": 24, "n_kv_heads": 8, "head_dim": None, "dim": 3072, "qk_norm": None, "inner_attention": {}}
    layer = {"attention": attention, "feed_forward": {"w1": linear(3072, 8192), "w2": linear(8192, 3072)}, "moe": moe}
    return {"dim": 3072, "vocab_size": 128256, "layers": [layer, layer], "enable_weight_tying": True}


def august(**more: Any) -> dict[str, Any]:
    """What a run of 2026-08 prints."""
    return {"model_spec": {"name": "llama3", "flavor": "3B", "model": tree()}, "hf_assets_path": "./assets",
            "dump_folder": "./outputs", "profiler": {"enable_profiling": True},
            "dataloader": {"dataset": {"name": "c4"}},
            "optimizer": {"param_groups": [{"pattern": ".*", "optimizer_name": "AdamW", "optimizer_kwargs": {"lr": 1}}],
                          "implementation": "fused", "optimizer_factories": {"AdamW": "<class>"}},
            "training": {**TRAINING, **TOKENS, "disable_cuda_graphs": False},
            "parallelism": {**PARALLEL, "enable_sequence_parallel": True, "enable_fsdp_symm_mem": False,
                            "spmd_backend": "spmd_types", "num_pp_microbatches": 1},
            "activation_checkpoint": SELECTIVE, "compile": {**COMPILE, "enable_async_tensor_parallel": False},
            "comm": {"mode": "default"}, "debug": {"print_config": True}, "override": {"imports": []},
            "loss": {"num_chunks": 8, "loss_fn": {"global_vocab_size": 128256}}, **more}


def march() -> dict[str, Any]:
    """What a run of 2026-03 prints: no sizes of the model, converters, samples."""
    return {"model_spec": {"name": "llama3", "flavor": "8B"}, "profiling": {"enable_profiling": True},
            "model_converters": {"converters": [{"recipe_name": None, "enable_fsdp_float8_all_gather": True}]},
            "optimizer": {"name": "AdamW", "lr": 3e-4, "implementation": "fused"},
            "training": {**TRAINING, "local_batch_size": 4, "global_batch_size": -1, "seq_len": 8192},
            "parallelism": {**PARALLEL, "pipeline_parallel_microbatch_size": 1, "expert_tensor_parallel_degree": 1,
                            "expert_parallel_comm_backend": "standard", "context_parallel_rotate_method": "allgather"},
            "activation_checkpoint": {"mode": "selective", "selective_ac_option": "2", "memory_budget": 0.5, **POLICY},
            "compile": COMPILE, "comm": {"mode": "default"}, "debug": {"print_config": True}}


def printed(data: dict[str, Any], mark: str = "configs", prefix: str = "[rank0]:") -> str:
    """A log."""
    text = f"[titan] 2026-08-22 10:11:12,345 - root - INFO - Running with {mark}: {json.dumps(data, indent=2)}\n" \
        "[titan] 2026-08-22 10:11:13,345 - root - INFO - {} and more"
    return "\n".join(prefix + line for line in text.splitlines())


def test_a_log_of_august_2026(tmp_path: Path) -> None:
    for name, text in (("a.log", printed(august())), ("a.txt", printed(august(), prefix="")),
                       ("a.out", printed(august(), prefix="3: ")), ("a.json", json.dumps(august()))):
        now = read(tmp_path, name, text, npus=8)
        assert now.layout == Layout(tp=2, dp=4, zero=3, micro_batch=2, recompute="operators", tp_sequence=True)
        assert (now.job.seq, now.job.global_batch) == (8192, 16)
        model = now.job.base.model
        assert (model.layers, model.d_model, model.heads, model.groups, model.ffn) == (2, 3072, 24, 8, 8192)
        assert model.tied_embeddings
        assert any("products in bf16: torchtitan's JSON does not say" in each for each in now.job.assumed)
    later = august(model=tree())        # since 2026-09-22
    del later["model_spec"]
    assert read(tmp_path, "a.json", json.dumps(later), npus=8).job.base.model == model


def test_a_log_of_march_2026(tmp_path: Path) -> None:
    now = read(tmp_path, "a.log", printed(march()), npus=8)
    assert now.layout == Layout(tp=2, dp=4, zero=3, micro_batch=4, recompute="full", tp_sequence=True)
    assert (now.model, now.job.base.precision.products, now.fields) == ("llama3-8b", "fp8", {"recompute_every": 2})


def test_a_log_of_2025(tmp_path: Path) -> None:
    data = march()
    del data["model_spec"], data["model_converters"]
    data |= {"model": {"name": "llama3", "flavor": "70B", "converters": []}, "job": {"config_file": "x.toml"},
             "quantize": {"linear": {"mx": {"recipe_name": "mxfp8"}}}, "fault_tolerance": {"enable": False}}
    now = read(tmp_path, "a.log", printed(data, "args"), npus=8)
    assert (now.model, now.job.base.precision.products) == ("llama3-70b", None)
    assert not any("mx" in each for each in now.job.assumed)


@pytest.mark.parametrize(("policy", "recompute"), [
    (None, "none"), (POLICY, "full"), (SELECTIVE, "operators"),
    ({"mode": "selective", **SELECTIVE}, "operators"), ({"mode": "none", **SELECTIVE}, "none")])
def test_policies_of_checkpointing(tmp_path: Path, policy: object, recompute: str) -> None:
    now = read(tmp_path, "a.json", json.dumps(august(activation_checkpoint=policy)), npus=8)
    assert now.layout.recompute == recompute


def test_micro_batches_of_pipelines(tmp_path: Path) -> None:
    data = august()
    data["parallelism"] |= {"pipeline_parallel_degree": 2, "num_pp_microbatches": 4}
    data["training"]["num_tokens_per_train_step"] = -1
    now = read(tmp_path, "a.json", json.dumps(data), npus=8)
    assert (now.layout.pp, now.layout.micro_batch, now.job.global_batch) == (2, 2, 2 * 4 * 2)


def changed(section: str, **more: Any) -> dict[str, Any]:
    data = august()
    return {**data, section: {**data[section], **more}}


@pytest.mark.parametrize(("data", "message"), [
    (changed("training", max_context_length=8000), "16384 tokens are no whole number of samples of 8000"),
    (changed("training", enable_cpu_offload=True), "enable_cpu_offload: 'True' is not predicted"),
    (changed("training", new_thing=3), "training.new_thing: is not known here; expected --ignore"),
    (changed("optimizer", param_groups=[{"optimizer_name": "Muon"}]), "optimizer.name: 'Muon' is not predicted"),
    (august(activation_checkpoint={**POLICY, "memory_budget": 0.5}), "memory_budget is not predicted"),
    (august(model_spec={"name": "llama3", "flavor": "9B", "model": tree(moe={})}), None),
    (august(model_spec={"name": "llama3", "flavor": "9B", "model": tree(moe={"x": 1})}), "the sizes of llama3 9B"),
    (august(training=3), "training: is no object")])
def test_what_a_printed_configuration_lacks(tmp_path: Path, data: dict[str, Any], message: str | None) -> None:
    if message is None:
        assert read(tmp_path, "a.json", json.dumps(data), npus=8)
        return
    with pytest.raises(InputError, match=message):
        read(tmp_path, "a.json", json.dumps(data), npus=8)


def test_a_log_that_is_cut_off(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"behind 'Running with configs:' is no JSON .*from \{ to \}, of one rank"):
        read(tmp_path, "a.log", printed(august())[:900], npus=8)


@pytest.mark.parametrize("line", [
    "torchrun --nproc_per_node=8 --nnodes 8 train.py --job.config_file t.toml --parallelism.tensor-parallel-degree 4 "
    "--activation_checkpoint.mode none",
    "srun -N8 bash -c 'torchrun --nnodes 8 --nproc_per_node 8 -m torchtitan.train --job.config-file=conf/t.toml "
    "\\\n --parallelism.tensor_parallel_degree 4 --activation_checkpoint.mode=none'",
    'NGPU=64 CONFIG_FILE="./t.toml" ./run_train.sh --parallelism.tensor_parallel_degree 4 '
    "--activation_checkpoint.mode none --compile.no-enable"])
def test_a_command_line_of_torchtitan(tmp_path: Path, line: str) -> None:
    (tmp_path / "t.toml").write_text(TITAN + "[compile]\nenable = true\n")
    now = read(tmp_path, "job.sh", line)
    assert now.layout == Layout(tp=4, dp=16, zero=3, micro_batch=8, recompute="none", tp_sequence=True)
    assert (now.npus, now.job.base.fusion) == (64, "no-enable" not in line)
    assert any(each.startswith("configuration t.toml, with activation_checkpoint.mode") for each in now.job.assumed)
    with pytest.raises(InputError, match=r"u.toml: which the command line of torchtitan names, is not there; expected "
                                         r"that file beside job.sh"):
        read(tmp_path, "job.sh", line.replace("t.toml", "u.toml"))


def test_a_command_line_has_other_degrees(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(TITAN.replace("degree = -1", "degree = 4"))
    line = "torchrun --nproc_per_node=8 train.py --job.config_file t.toml"
    with pytest.raises(InputError, match=r"context_parallel_degree is 32; expected 8, the number of NPUs"):
        read(tmp_path, "job.sh", line)


@pytest.mark.parametrize("line", [
    "srun --nodes=4 --gres=gpu:8 --container-image=x uv run --frozen torchrun --nnodes 4 {}",
    "sbatch -N4 --wrap 'torchrun --nnodes 4 {}'",
    "CUDA_DEVICE_MAX_CONNECTIONS=1 numactl --membind=0 torchrun --nnodes 4 {}",
    'docker run --rm --gpus all image bash -lc "cd /x && TP=8 && torchrun --nnodes 4 {}"',
    'srun --mpi=pmix sh -c "exec torchrun --nnodes 4 {}"'])
def test_wrapped_command_lines(line: str) -> None:
    text = "SEED=3\nARGS=(--seed $SEED)\n" + line.format("pretrain_gpt.py --num-layers 32 \\\n --bf16")
    found = arguments_of(text, "x")
    assert found.pop("wrap", None) in (None, "torchrun")
    assert found == {"seed": "3", "nnodes": "4", "num_layers": "32", "bf16": True}


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.sh", "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo", "reinforcement learning, which trains"),
    ("a.sh", "ray job submit -- python3 -m openrlhf.cli.train_ppo_ray --zero_stage 3", "plan --for serving"),
    ("a.sh", "deepspeed --module openrlhf.cli.train_sft --zero_stage 3", "a command line of OpenRLHF"),
    ("a.sh", "axolotl train config.yml", "a command line of axolotl; expected the DeepSpeed configuration"),
    ("a.sh", "vllm serve Qwen/Qwen3-32B --tensor-parallel-size 4", "the launch of an engine that serves"),
    ("a.sh", "FORCE_TORCHRUN=1 llamafactory-cli train x.yaml", "a command line of LLaMA-Factory"),
    ("a.sh", "accelerate launch --config_file x.yaml train.py", "a command line of Hugging Face Accelerate"),
    ("a.sh", "torchrun train.py --per_device_train_batch_size 4", "arguments of Hugging Face Transformers"),
    ("a.sh", "nemo llm pretrain --factory llama3_8b", "a job of NeMo 2, which is configured in Python"),
    ("a.sh", "MODULE=llama3 CONFIG=llama3_8b ./run_train.sh", "the log of a run with --debug.print_config"),
    ("a.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED", "a configuration of Hugging Face"),
    ("a.yaml", "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096", "a configuration of axolotl"),
    ("a.yaml", "model_name_or_path: x\nfinetuning_type: full\ncutoff_len: 2048", "a configuration of LLaMA-Factory"),
    ("a.yaml", "actor_rollout_ref: {model: {path: x}}", "reinforcement learning"),
    ("a.yaml", "apiVersion: v1\nkind: Pod", "an object of Kubernetes"),
    ("a.py", "def llama3_8b(): ...", r"is a program, and nothing in it is run; expected torchtitan's log"),
    ("a.xml", "<algo/>", r"'.xml' is no file of a framework; expected a script \(.sh\) or log")])
def test_files_of_other_programs(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_launch(str(tmp_path / name))
