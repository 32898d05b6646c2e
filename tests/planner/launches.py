"""Launch files of four frameworks, and how tests read one."""

from __future__ import annotations

from pathlib import Path

from astrarium.planner.launch import Today, read_launch, today_of

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
    --num-layers-per-virtual-pipeline-stage 5 --log-interval 3 MORE
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
