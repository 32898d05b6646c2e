"""Files of NeMo, DeepSpeed and torchtitan: what they mean, which keys are refused, and the frameworks' stacks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.planner.launches import DEEPSPEED, NEMO, TITAN, read

from astrarium.errors import InputError
from astrarium.planner.launch import Today, read_launch
from astrarium.planner.launch.known import known_keys
from astrarium.planner.launch.stacks import stack_of_framework
from astrarium.planner.layout import Layout


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
    with pytest.raises(InputError, match="does not say how many samples a step has; expected --global-batch N"):
        read(tmp_path, "ds.json", json.dumps({**DEEPSPEED, "train_batch_size": "auto",
                                              "train_micro_batch_size_per_gpu": "auto"}), model="llama2-7b", npus=16)


@pytest.mark.parametrize(("more", "message"), [
    ({"activation_checkpointing": {"cpu_checkpointing": True}}, "cpu_checkpointing: 'True' is not predicted"),
    ({"curriculum_learning": {"enabled": True}}, "curriculum_learning.enabled.*not predicted"),
    ({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}, "device 'cpu' is not predicted"),
    ({"zero_optimisation": {"stage": 3}}, "zero_optimisation.stage.*did you mean 'zero_optimization.stage'"),
    ({"bf16": {"enabled": True}, "fp16": {"enabled": True}}, "bf16 and fp16 are both enabled; expected one of them"),
    ({"train_batch_size": 256, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3},
     "says 256 samples a step, and 6 of each of 16 replicas, which are 96; expected the same"),
    ({"optimizer": {"type": "OneBitAdam"}}, "optimizer.type: 'onebitadam' is not predicted")])
def test_keys_of_deepspeed(tmp_path: Path, more: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, "ds.json", json.dumps({**DEEPSPEED, **more}), model="llama2-7b", npus=16)
    off = {"curriculum_learning": {"enabled": False, "curriculum_type": "seqlen"},
           "data_types": {"grad_accum_dtype": "fp32"}}
    now = read(tmp_path, "ds.json", json.dumps({**DEEPSPEED, **off}), model="llama2-7b", npus=16)
    assert now.job.base.precision.gradients == "fp32"


def test_a_key_that_is_there_twice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ds\.json: is no JSON \(key 'train_batch_size' is there twice\)"):
        read(tmp_path, "ds.json", '{"train_batch_size": 256, "train_batch_size": 64}', model="llama2-7b", npus=16)


def test_torchtitan(tmp_path: Path) -> None:
    now = read(tmp_path, "t.toml", TITAN, npus=64)
    assert now.layout == Layout(tp=8, dp=8, zero=3, micro_batch=8, recompute="full", tp_sequence=True)
    assert now.job.global_batch == 64
    assert now.model == "llama3-70b"
    hybrid = TITAN.replace("data_parallel_shard_degree = -1",
                           "data_parallel_shard_degree = 4\ndata_parallel_replicate_degree = 2")
    assert read(tmp_path, "t.toml", hybrid).fields == {"zero_ranks": 4}
    assert read(tmp_path, "t.toml", hybrid.replace("degree = 4", "degree = -1"), npus=64).fields == {"zero_ranks": 4}
    with pytest.raises(InputError, match=r"data_parallel_shard_degree: times data_parallel_replicate_degree, .* is 32; "
                                         r"expected 64, the number of NPUs, or data_parallel_shard_degree -1"):
        read(tmp_path, "t.toml", TITAN.replace("degree = -1", "degree = 4"), npus=64)


def test_older_names_of_torchtitan(tmp_path: Path) -> None:
    old = """
[model]
name = "llama3"
flavor = "70B"
[training]
batch_size = 8
seq_len = 8192
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
compile = true
[experimental]
pipeline_parallel_degree = 2
pipeline_parallel_microbatches = 4
[float8]
enable_float8_linear = true
[activation_checkpoint]
mode = "full"
"""
    now = read(tmp_path, "t.toml", old, npus=64)
    assert now.layout == Layout(tp=8, pp=2, dp=4, zero=1, micro_batch=2, recompute="full", tp_sequence=True)
    work = now.job.base
    assert (work.global_batch, work.precision.products, work.cross_entropy) == (32, "fp8", "eager")
    path = tmp_path / "t.toml"
    path.write_text(old)
    launch = read_launch(str(path), ["training.tensor_parallel_degree"])
    assert (launch.layout["tp"], launch.assumed[0]) == (1, "as without parallelism.tensor_parallel_degree (--ignore)")
    with pytest.raises(InputError, match=r"training.batch_size: is 8, and training.local_batch_size is 4"):
        read(tmp_path, "t.toml", old.replace("seq_len", "local_batch_size = 4\nseq_len"), npus=64)


def test_the_optimizer_of_torchtitan(tmp_path: Path) -> None:
    for each in ("fused", "foreach"):
        found = read(tmp_path, "t.toml", f'{TITAN}[optimizer]\nimplementation = "{each}"\n', npus=64)
        assert found.job.base.software.step == each


def test_checkpointing_of_torchtitan(tmp_path: Path) -> None:
    def layers(option: str) -> Today:
        change = f'mode = "selective"\nselective_ac_option = "{option}"'
        return read(tmp_path, "t.toml", TITAN.replace('mode = "full"', change), npus=64)

    assert layers("op").layout.recompute == "operators"
    assert (layers("2").layout.recompute, layers("2").fields) == ("full", {"recompute_every": 2})
    assert layers("1").fields == {}
    for option, said in (("2", "2nd"), ("3", "3rd"), ("11", "11th"), ("21", "21st")):
        assert f"recompute full for every {said} layer only (selective_ac_option)" in layers(option).job.assumed
    with pytest.raises(InputError, match="'most' is not known; expected op, or N"):
        layers("most")


@pytest.mark.parametrize(("more", "message"), [
    ("[training]\nseq_length = 3", "training.seq_length: is not known here.*did you mean 'training.seq_len'"),
    ("[optimizer]\nname = 'Muon'", "optimizer.name: 'Muon' is not predicted"),
    ("[training]\nenable_cpu_offload = true", "enable_cpu_offload: 'True' is not predicted"),
    ("[parallelism]\nexpert_parallel_comm_backend = 'deepep'", "'deepep' is not predicted"),
    ("[model]\nname = 'llama3'\nflavor = '9B'", "does not say the model: it lacks the sizes of llama3 9B"),
    ("[model]\nname = 'llama3'\nflavor = '8B'\nconverters = ['lora']", "'lora' is not predicted"),
    ("[model]\nname = 'llama3'\nflavor = '8B'\nconverters = ['mx']", "'mx' is not predicted; expected float8"),
    ("[model]\nconverters = 'float8,quantize.linear.mx'", "'quantize.linear.mx' is not predicted")])
def test_keys_of_torchtitan(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, "t.toml", more, npus=64)


def test_formats_of_nemo(tmp_path: Path) -> None:
    plain = read(tmp_path, "a.yaml", NEMO).job.base.precision       # megatron_amp_O2 is off where it is left out
    assert (plain.weights, plain.products, plain.master, plain.gradients) == ("fp32", "bf16", None, "fp32")
    half = NEMO.replace("  fp8: False", "  megatron_amp_O2: True\n  fp8: False").replace(
        "lr: 2e-4", "lr: 2e-4, grad_sync_dtype: bf16, overlap_grad_sync: True")
    work = read(tmp_path, "a.yaml", half).job.base
    assert (work.precision.weights, work.precision.gradients, work.overlap) == ("bf16", "bf16", True)
    for change, message in (("num_layers: 32", "num_layers: 32\n  drop_layers: [1]"), "drop_layers: .* is not pred"), \
            (("bias: False", "bias: False\n  transformer_block_type: normformer"), "expected pre_ln"), \
            (("lr: 2e-4", "lr: 2e-4, overlapp: 3"), "optim.overlapp: is not known"), \
            (("precision: bf16", "precision: bf16, accumulate_grad_batches: 2"), "say global_batch_size"):
        with pytest.raises(InputError, match=message):
            read(tmp_path, "a.yaml", NEMO.replace(*change))


@pytest.mark.parametrize("framework", ["megatron", "nemo", "torchtitan", "deepspeed"])
def test_a_key_is_in_one_table(framework: str) -> None:
    known = known_keys(framework)
    assert not known.harmless & known.simpler.keys()
    assert not known.harmless & known.refused.keys()
    assert not known.simpler.keys() & known.refused.keys()
    assert all(len(family) > 2 for family in known.families)


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.txt", "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8\n1\nx -1 1 NONE 0 1 NONE 0 1 NONE 0 1",
     "holds a workload of SimAI or ASTRA-sim 1.0.*astrarium trace convert"),
    ("a.sh", "torchrun train.py --job.config-file $FILE", "a command line of torchtitan; expected its config"),
    ("a.sh", "torchrun -m torchtitan.train --module llama3 --config llama3_8b", "in Python since 2026-03"),
    ("a.json", '{"model_spec": {"name": "llama3"}, "training": {}}', "does not say the model: it lacks the sizes of"),
    ("a.sh", "deepspeed train.py --deepspeed ds.json --per_device_train_batch_size 4", "a command line with DeepSpeed"),
    ("a.sh", "torchrun x.py trainer.num_nodes=1 model.tensor_model_parallel_size=2", "Hydra overrides of a NeMo 1")])
def test_files_of_others(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, name, text, npus=8)


@pytest.mark.parametrize(("framework", "device", "stack", "message"), [
    ("torchtitan", "h100_sxm", "fsdp", "as the file is torchtitan's$"),
    ("megatron-lm", "h100_sxm", "nemo", "Megatron core as NeMo runs it$"),
    ("nemo", "a100_sxm", "nemo", "no stack of nemo has 10 unseen measured rows on a100_sxm"),
    ("deepspeed", "h100_sxm", "fsdp", "--stack deepspeed and deepspeed-3 have its buffers")])
def test_stacks_of_frameworks(framework: str, device: str, stack: str, message: str) -> None:
    name, said = stack_of_framework(framework, [device], None, None)
    assert name == stack
    assert re.search(message, said[0])
    assert stack_of_framework(framework, [device], "analytic", None)[0] is None
