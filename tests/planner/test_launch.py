"""Launch arguments of frameworks: what they mean, what is refused, and that what is written reads back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.planner.spaces import SPARSE

from astrarium.errors import InputError
from astrarium.planner.job import Job, job_of
from astrarium.planner.launch import Today, launch_arguments, read_launch, today_of
from astrarium.planner.launch.words import arguments_of
from astrarium.planner.layout import Layout

MEGATRON = """#!/bin/bash
# Llama 3 70B  --num-layers 3
TP=${TP:-8}
NODES=64
WORLD_SIZE=$((8*$NODES))
RUN=(
    --nproc_per_node 8
    --nnodes $NODES
)
MODEL=(--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64
    --group-query-attention --num-query-groups 8 --seq-length 8192 --position-embedding-type rope --swiglu
    --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights --attention-dropout 0.0
    --hidden-dropout 0.0)
TRAIN="--micro-batch-size 2 --global-batch-size=1024 --lr 1.5e-4 --bf16 --overlap-grad-reduce
    --use-distributed-optimizer"
torchrun ${RUN[@]} pretrain_gpt.py ${MODEL[@]} $TRAIN \\
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size 4 --sequence-parallel --vocab-size 128256 \\
    --num-layers-per-virtual-pipeline-stage 5 --frobnicate 3 MORE
"""
NEMO = """
trainer: {num_nodes: 4, devices: 8, precision: bf16}
model:
  micro_batch_size: 1
  global_batch_size: 64
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 2
  encoder_seq_length: 4096
  data: {seq_length: "${model.encoder_seq_length}"}
  seq_length: ${.encoder_seq_length}
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 11008
  num_attention_heads: 32
  vocab_size: 32000
  activation: fast-swiglu
  normalization: rmsnorm
  bias: False
  share_embeddings_and_output_weights: False
  position_embedding_type: rope
  hidden_dropout: 0.0
  attention_dropout: 0.0
  sequence_parallel: True
  activations_checkpoint_granularity: full
  activations_checkpoint_method: uniform
  activations_checkpoint_num_layers: 1
  fp8: False
  optim: {name: distributed_fused_adam, lr: 2e-4}
"""
DEEPSPEED = {"train_batch_size": 128, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True},
             "steps_per_print": 10, "zero_optimization": {"stage": 3, "overlap_comm": True, "reduce_bucket_size": 5e8}}
TITAN = """
[model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
[activation_checkpoint]
mode = "full"
[metrics]
log_freq = 10
"""


def read(folder: Path, name: str, text: str, **more: object) -> Today:
    path = folder / name
    path.write_text(text)
    return today_of(read_launch(str(path)), str(path), **more)  # type: ignore[arg-type]


def test_megatron(tmp_path: Path) -> None:
    now = read(tmp_path, "llama.sh", MEGATRON)
    assert now.npus == 512
    assert now.layout == Layout(tp=8, pp=4, dp=16, zero=1, micro_batch=2, virtual_stages=4, tp_sequence=True)
    model = now.job.base.model
    assert (model.layers, model.d_model, model.kv_heads, model.vocab) == (80, 8192, 8, 128256)  # type: ignore[attr-defined]
    assert (now.job.global_batch, now.job.seq) == (1024, 8192)
    assert now.job.base.precision.gradients == "fp32"
    assert now.job.base.overlap
    assert not now.job.base.dropout
    assert any("not known here: frobnicate" in text for text in now.job.assumed)
    assert any(text.startswith("without effect on time: lr") for text in now.job.assumed)


def test_the_same_model_by_name(tmp_path: Path) -> None:
    assert read(tmp_path, "a.sh", MEGATRON, model="llama3-70b").job.layers == 80
    with pytest.raises(InputError, match="layers: is 80, and the model has 32; expected the same model"):
        read(tmp_path, "a.sh", MEGATRON, model="llama3-8b")


def test_nemo(tmp_path: Path) -> None:
    now = read(tmp_path, "nemo.yaml", NEMO)
    assert now.layout == Layout(tp=4, pp=2, dp=4, zero=1, recompute="full", tp_sequence=True)
    assert (now.npus, now.job.seq, now.job.global_batch) == (32, 4096, 64)


def test_deepspeed(tmp_path: Path) -> None:
    text = json.dumps({**DEEPSPEED, "train_batch_size": "auto", "gradient_accumulation_steps": 4})
    now = read(tmp_path, "ds.json", text, model="llama2-7b", npus=16)
    assert now.layout == Layout(dp=16, zero=3, micro_batch=2)
    assert now.job.global_batch == 2 * 4 * 16
    with pytest.raises(InputError, match="does not say the model"):
        read(tmp_path, "ds.json", json.dumps(DEEPSPEED), npus=16)
    with pytest.raises(InputError, match="does not say how many NPUs"):
        read(tmp_path, "ds.json", json.dumps(DEEPSPEED), model="llama2-7b")


def test_torchtitan(tmp_path: Path) -> None:
    now = read(tmp_path, "t.toml", TITAN, npus=64)
    assert now.layout == Layout(tp=8, dp=8, zero=3, micro_batch=8, recompute="full", tp_sequence=True)
    assert now.job.global_batch == 64
    assert now.model == "llama3-70b"
    hybrid = TITAN.replace("data_parallel_shard_degree = -1",
                           "data_parallel_shard_degree = 4\ndata_parallel_replicate_degree = 2")
    assert read(tmp_path, "t.toml", hybrid).fields == {"zero_ranks": 4}


@pytest.mark.parametrize(("change", "message"), [
    (("--sequence-parallel", "--pipeline-model-parallel-layout 'E|t*80|L'"), "parallel_layout.*not predicted"),
    (("--bf16", "--optimizer-cpu-offload"), "optimizer_cpu_offload.*not predicted"),
    (("--bf16", "--recompute-granularity full --recompute-method block --recompute-num-layers 2"), "2 of 5 layers"),
    (("--micro-batch-size 2", "--micro-batch-size two"), "micro_batch_size: 'two' is no whole number"),
    (("$TP --pipe", "$((2*4)) --pipe"), r"tensor_model_parallel_size: '\$\(\(2\*4\)\)' is no whole number"),
    (("--bf16", "--cp-comm-type a2a"), "cp_comm_type: 'a2a' is not predicted; expected one of p2p, all_gather"),
    (("--num-layers 80", "--num-layers 79"), "does not divide 79"),
    (("--pipeline-model-parallel-size 4", "--pipeline-model-parallel-size 3"), "divide"),
    (("--bf16", "'"), "is no list of arguments"), (("--vocab-size", "--vocabulary"), "does not say the model")])
def test_what_matters_and_is_not_predicted_is_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        read(tmp_path, "a.sh", MEGATRON.replace(*change))
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(("name", "text"), [
    ("a.sh", "$(touch /tmp/no)"), ("a.sh", "A=" * 3000 + "--x"), ("a.sh", "--x " * 30_000), ("a.sh", "\0--tensor"),
    ("a.sh", "A=$A$A$A$A B=${A}${A} --micro-batch-size $B"), ("a.yaml", "model: 3"), ("a.yaml", "&a [*a]"),
    ("a.yaml", "model: {num_layers: '${model.num_layers}', micro_batch_size: '${.x}'}"), ("a.json", "[" * 10_000),
    ("a.json", '{"zero_optimization": 3}'), ("a.json", '{"zero_optimization": {"stage": 9}}'), ("a.json", "{"),
    ("a.json", '{"train_micro_batch_size_per_gpu": true}'), ("a.json", '{"pipeline": {"stages": "x"}}'),
    ("a.toml", "x = " + "[" * 5000), ("a.toml", "[parallelism]\ntensor_parallel_degree = 1e400"),
    ("a.toml", "[parallelism]\npipeline_parallel_schedule = 'ZBV'\npipeline_parallel_degree = 2"), ("a.exe", "x"),
    ("a.sh", "--micro-batch-size 99999999999999999999"), ("a.sh", "--micro-batch-size 1 2 3")])
def test_hostile_files_are_one_line(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(InputError) as raised:
        read(tmp_path, name, text, npus=8)
    assert len(str(raised.value).splitlines()) == 1
    assert len(str(raised.value)) < 500


def test_a_large_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too large"):
        read(tmp_path, "a.sh", "#" * (1 << 21))


def test_words_of_a_script() -> None:
    assert arguments_of("--a 1 --b=2 --c x y -v --d-e --f -1", "s") == \
        {"a": "1", "b": "2", "c": ["x", "y"], "d_e": True, "f": "-1"}
    assert arguments_of("torchrun --nproc-per-node 8 pretrain_gpt.py --x", "s") == {"nproc_per_node": "8", "x": True}
    assert arguments_of('A="--x 3"\nrun $A --y ${B:-4} --z ${C}', "s") == {"x": "3", "y": "4", "z": "${C}"}


@pytest.mark.parametrize("layout", [
    Layout(tp=8, pp=4, dp=2, zero=1, virtual_stages=5, tp_sequence=True), Layout(tp=2, dp=32, zero=3, recompute="full"),
    Layout(tp=4, cp=2, pp=8, dp=1, micro_batch=2, zero=1, recompute="selective"),
    Layout(pp=2, dp=32, micro_batch=4), Layout(pp=41, dp=1, zero=0)])
@pytest.mark.parametrize("framework", ["megatron", "nemo"])
def test_what_is_written_reads_back(tmp_path: Path, layout: Layout, framework: str) -> None:
    job = job_of("llama3-70b", seq=4096, global_batch=64)
    if framework == "nemo" and layout.zero > 1:
        with pytest.raises(InputError, match="NeMo 1 shards the optimizer at most"):
            launch_arguments(framework, job, layout)
        return
    ending = {"megatron": "sh", "nemo": "yaml"}[framework]
    now = read(tmp_path, f"a.{ending}", launch_arguments(framework, job, layout), npus=layout.ranks)
    assert now.layout == layout
    assert now.fields.get("stage_layers") == job.stage_layers(layout.parts)
    assert (now.job.seq, now.job.global_batch) == (4096, 64)
    assert _sizes(now.job) == _sizes(job)


def test_experts_are_written_and_read(tmp_path: Path) -> None:
    job, layout = job_of(SPARSE, seq=4096, global_batch=64), Layout(tp=2, dp=8, ep=4, zero=1)
    now = read(tmp_path, "a.sh", launch_arguments("megatron", job, layout), npus=16)
    assert now.layout == layout
    assert _sizes(now.job) == _sizes(job)


def _sizes(job: Job) -> tuple[object, ...]:
    model = job.base.model
    names = ("layers", "d_model", "heads", "groups", "ffn", "gated", "vocab", "tied_embeddings", "norm", "positions",
             "moe")
    return tuple(getattr(model, name) for name in names)
