"""Launch arguments of frameworks: what they mean, what is refused, and that what is written reads back."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.planner.launches import MEGATRON, read
from tests.planner.spaces import SPARSE

from astrarium.errors import InputError
from astrarium.planner.job import Job, job_of
from astrarium.planner.launch import Today, launch_arguments, read_launch
from astrarium.planner.launch.words import arguments_of, printed_arguments
from astrarium.planner.layout import Layout
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.experts import Experts
from astrarium.workload.model.latent import Latent


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
    assert "without effect on time: lr, log_interval" in now.job.assumed


def test_keys_that_the_user_calls_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    path.write_text(MEGATRON.replace("--log-interval 3", "--frobnicate 3 --frob-two --cpu-offloading-num-layers 9"))
    launch = read_launch(str(path), ["--frob*", "cpu-offloading-num-layers"])
    assert "as without frobnicate, frob_two, cpu_offloading_num_layers (--ignore)" in launch.assumed
    with pytest.raises(InputError, match=r"--ignore frobnicat: is not a key of .*did you mean 'frobnicate'"):
        read_launch(str(path), ["frobnicat"])
    with pytest.raises(InputError, match="keys that are not known here: frobnicate, frob_two; expected --ignore "
                                         "frobnicate,frob_two where"):
        read_launch(str(path), ["cpu_offloading_num_layers"])


def test_branches_of_a_script_are_said(tmp_path: Path) -> None:
    text = MEGATRON + 'if [[ "$FP8" == 1 ]]; then\n ARGS+=(--fp8-format hybrid)\nfi\n'
    assert any("every branch of the script counts" in each for each in read(tmp_path, "a.sh", text).job.assumed)
    sizes = 'if [ "$SIZE" = 70 ]; then\n SEQ=8192\nelse\n SEQ=4096\nfi\n' + MEGATRON
    job = read(tmp_path, "b.sh", sizes.replace("--seq-length 8192", "--seq-length $SEQ")).job
    assert job.seq == 4096
    assert any(each.endswith("of several values the last one does: SEQ=4096, not 8192") for each in job.assumed)


def test_formats_of_products(tmp_path: Path) -> None:
    assert read(tmp_path, "a.sh", MEGATRON).job.base.precision.products is None
    changed = MEGATRON.replace("--bf16", "--bf16 --fp8-format hybrid --grad-reduce-in-bf16 --cross-entropy-loss-fusion")
    work = read(tmp_path, "a.sh", changed).job.base
    assert (work.precision.products, work.precision.gradients, work.cross_entropy) == ("fp8", "bf16", "fused")


def megatron(tmp_path: Path, more: str) -> Today:
    return read(tmp_path, "a.sh", MEGATRON.replace("--bf16", f"--bf16 {more}"))


def test_formats_of_the_optimizer(tmp_path: Path) -> None:
    moments = "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"
    found = megatron(tmp_path, f"--use-precision-aware-optimizer {moments}").job.base.precision
    assert (found.master, found.moments) == ("bf16", "bf16")        # bf16 weights have the other half of the master
    found = megatron(tmp_path, f"--use-precision-aware-optimizer {moments} --main-params-dtype fp16").job.base.precision
    assert (found.master, found.moments) == ("fp16", "bf16")
    assert megatron(tmp_path, moments).job.base.precision.moments == "fp32"
    assert megatron(tmp_path, "--fp8-hybrid").job.base.precision.products == "fp8"
    with pytest.raises(InputError, match="fp32, and exp_avg_dtype is fp8, is not predicted"):
        megatron(tmp_path, "--use-precision-aware-optimizer --exp-avg-dtype fp8")


def test_copies_of_the_optimizer(tmp_path: Path) -> None:
    assert megatron(tmp_path, "--num-distributed-optimizer-instances 2").fields == {"zero_ranks": 8}       # of dp 16
    with pytest.raises(InputError, match="3 copies of the optimizer do not divide 16 replicas"):
        megatron(tmp_path, "--num-distributed-optimizer-instances 3")


def test_recomputation(tmp_path: Path) -> None:
    now = megatron(tmp_path, "--recompute-granularity full --recompute-method block --recompute-num-layers 2")
    assert (now.layout.recompute, now.fields) == ("full", {"recompute_first": 2})
    now = megatron(tmp_path, "--recompute-granularity selective --recompute-modules core_attn layernorm mlp")
    assert (now.layout.recompute, now.fields) == ("selective", {"recompute_modules": ["attention", "norms", "ffn"]})
    assert megatron(tmp_path, "--recompute-activations").layout.recompute == "selective"
    now = megatron(tmp_path, "--num-experts 8 --moe-layer-recompute")
    assert (now.layout.recompute, now.fields) == ("selective", {"recompute_modules": ["experts"]})


def test_models(tmp_path: Path) -> None:
    latent = ("--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 "
              "--qk-pos-emb-head-dim 64 --v-head-dim 128 --num-experts 256 --moe-layer-freq ([0]*3+[1]*77) "
              "--moe-router-topk 8 --moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 "
              "--moe-router-score-function sigmoid --moe-router-enable-expert-bias --mtp-num-layers 1 --qk-layernorm")
    model = megatron(tmp_path, latent).job.base.model
    assert isinstance(model, Decoder)
    assert model.mla == Latent(q_rank=1536, kv_rank=512, nope_size=128, rope_size=64, v_size=128)
    assert model.moe == Experts(experts=256, top_k=8, expert_ffn=2048, shared_experts=1, dense_layers=3,
                                router="sigmoid", router_bias=True)
    assert (model.mtp, model.kv_heads) == (1, None)
    model = megatron(tmp_path, "--window-size 4095,0 --window-attn-skip-freq 4 --softmax-type learnable").job.base.model
    assert isinstance(model, Decoder)
    assert (model.window, model.full_every, model.sinks) == (4096, 4, True)
    model = megatron(tmp_path, "--num-experts 8 --moe-layer-freq ([0,1]*40)").job.base.model
    assert isinstance(model, Decoder)
    assert model.moe is not None
    assert (model.moe.dense_layers, model.moe.every) == (0, 2)


def test_printed_arguments(tmp_path: Path) -> None:
    """What Megatron-LM prints at its start, in a log."""
    names = {"num_layers": 32, "hidden_size": 4096, "ffn_hidden_size": 14336, "num_attention_heads": 32,
             "group_query_attention": True, "num_query_groups": 8, "add_bias_linear": False, "swiglu": True,
             "normalization": "RMSNorm", "position_embedding_type": "rope", "padded_vocab_size": 128256,
             "untie_embeddings_and_output_weights": True, "world_size": 16, "tensor_model_parallel_size": 2,
             "micro_batch_size": 1, "global_batch_size": 128, "seq_length": 2048, "encoder_seq_length": 2048,
             "recompute_granularity": None, "fp8": None, "window_size": None, "cpu_offloading_num_layers": 0,
             "use_distributed_optimizer": True, "rampup_batch_size": None, "exp_avg_dtype": "torch.float32",
             "gradient_accumulation_fusion": True, "bf16": True, "mamba_state_dim": 128,
             "params_dtype": "torch.bfloat16"}
    text = "using world size: 16\n" + "\n".join(f"[default0]:  {name} {'.' * 20} {value}"
                                                for name, value in names.items())
    now = read(tmp_path, "log.txt", text)
    assert (now.npus, now.layout) == (16, Layout(tp=2, dp=8, zero=1))
    model = now.job.base.model
    assert isinstance(model, Decoder)
    assert (model.kv_heads, list(model.biases), model.vocab, model.positions) == (8, [], 128256, "rotary")


@pytest.mark.parametrize("prefix", ["  ", "[default0]:  ", "[default0]:", "0:   ", " 3: [2026-11-28 05:00:00]   ",
                                    "2026-11-28 05:00:00   ", "[rank0]:[INFO]:   "])
def test_prefixes_of_logs(prefix: str) -> None:
    """Of torchrun, srun and time stamps."""
    names = {"num_layers": "32", "micro_batch_size": "1", "bf16": True, "fp8": None}
    text = "\n".join(f"{prefix}{name} {'.' * 20} {value}" for name, value in names.items())
    assert printed_arguments(f"{prefix}using world size: 16 ...\n{text}") == names


def test_the_same_model_by_name(tmp_path: Path) -> None:
    assert read(tmp_path, "a.sh", MEGATRON, model="llama3-70b").job.layers == 80
    with pytest.raises(InputError, match="layers: is 80, and the model has 32; expected the same model"):
        read(tmp_path, "a.sh", MEGATRON, model="llama3-8b")


@pytest.mark.parametrize(("change", "message"), [
    (("--sequence-parallel", "--pipeline-model-parallel-layout 'E|t*80|L'"), "parallel_layout: has 3 parts, and 4"),
    (("--bf16", "--optimizer-cpu-offload"), "optimizer_cpu_offload.*not predicted"),
    (("--micro-batch-size 2", "--micro-batch-size two"), "micro_batch_size: 'two' is no whole number"),
    (("$TP --pipe", "$((2*4)) --pipe"), r"tensor_model_parallel_size: '\$\(\(2\*4\)\)' is no whole number"),
    (("--bf16", "--cp-comm-type a2a"), "cp_comm_type: 'a2a' is not predicted; expected one of p2p, all_gather"),
    (("--bf16", "--cpu-offloading-num-layers 10"), "cpu_offloading_num_layers: '10' is not predicted.*--ignore cpu_"),
    (("--bf16", "--optimizer muon"), "optimizer: 'muon' is not predicted; expected one of adam, sgd"),
    (("--bf16", "--recompute-granularity selective --recompute-modules mhc"), "'mhc' is not predicted; expected some"),
    (("--bf16", "--moe-layer-freq ([1]*3+[0]*77) --num-experts 8"), r"moe_layer_freq: '\(\[1\]\*3"),
    (("--bf16", "--deepspeed"), "deepspeed: .*give the DeepSpeed configuration"),
    (("--log-interval", "--frobnicate"), "frobnicate: is not known here; expected --ignore frobnicate where"),
    (("--log-interval 3", "--frobnicate 0"), "frobnicate: is not known here"),
    (("--log-interval", "--tensor-model-paralel-size"), "did you mean 'tensor_model_parallel_size'"),
    (("--num-layers 80", "--num-layers 79"), "does not divide 79"),
    (("--pipeline-model-parallel-size 4", "--pipeline-model-parallel-size 3"), "divide"),
    (("type rope", "type rope relative"), "position_embedding_type: .* is not predicted"),
    (("--bf16", "'"), "is no list of arguments"), (("--vocab-size 128256", ""),
                                                              "does not say the model: it lacks vocab_size; expected "
                                                              "them in the file, or MODEL")])
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
    ("a.txt", "a .. " + " " * 200_000 + "x\n" + "\n" * 200_000),
    ("a.sh", f"--micro-batch-size 1 --num-experts 8 --moe-layer-freq ([0{',0' * 400}]*999)*999"),
    ("a.txt", "a: " * 60_000 + "micro_batch_size .. 1\n" * 5),
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
    assert arguments_of('MORE+=("--fp8-format hybrid" --x)', "s") == {"fp8_format": "hybrid", "x": True}
    assert arguments_of("torchrun --nproc-per-node 8 pretrain_gpt.py --x", "s") == {"nproc_per_node": "8", "x": True}
    assert arguments_of('A="--x 3"\nrun $A --y ${B:-4} --z ${C}', "s") == {"x": "3", "y": "4", "z": "${C}"}


@pytest.mark.parametrize(("change", "message"), [
    (("--sequence-parallel", "context-parallel-size 4"), "context-parallel-size: is no arg.*did you mean '--context"),
    (("--sequence-parallel", "-context-parallel-size 4"), "-context-parallel-size:.*mean '--context-parallel-s"),
    (("--log-interval 3", "--log-interval 3 context_parallel_size 4"), "context_parallel_size: is no argument"),
    (("gpt.py", "gpt.py context-paralel-size 4"), "-paralel-size: is no argument.*mean '--context-parallel-size'"),
    (("gpt.py", "gpt.py zzz"), "zzz: is no argument, and no value of one; expected -- before the name of an argument$"),
    (("--swiglu", "tensor-model-parallel-size 4 --swiglu"), "did you mean '--tensor-model-parallel-size'")])
def test_words_without_dashes(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, "a.sh", MEGATRON.replace(*change))


@pytest.mark.parametrize("change", [
    ("torchrun", "mkdir -p logs\nexport X=1 y\nsrun -l --label nohup python3 -u -m torch.distributed.run"),
    ("torchrun", "echo context-parallel-size is 1\nfor seq_length in one; do\n$LAUNCHER torchrun"),
    ("MORE\n", "2>&1 | tee log\necho done\n"), ("MORE\n", "$@ ${REST[@]} > log.txt &\nwait\n"),
    ("--log-interval 3 MORE\n", "--log-interval 3; echo done && exit\n"),
    ("gpt.py", "gpt.py # context-parallel-size\n"),
    ("torchrun", "python setup.py install\ntorchrun")])
def test_words_of_others_in_a_script(tmp_path: Path, change: tuple[str, str]) -> None:
    assert read(tmp_path, "a.sh", MEGATRON.replace(*change)).layout == read(tmp_path, "a.sh", MEGATRON).layout


@pytest.mark.parametrize(("more", "message"), [
    ("MORE $REST ${ARGS[@]} $@\n", "skipped, as nothing in the file says what they are: $REST, ${ARGS[@]}, $@"),
    ("MORE --use-mcore-models EXTRA\n", "skipped: EXTRA behind --use-mcore-models, which takes no value")])
def test_words_that_count_for_nothing_are_named(tmp_path: Path, more: str, message: str) -> None:
    assert message in read(tmp_path, "a.sh", MEGATRON.replace("MORE\n", more)).job.assumed
    assert not [each for each in read(tmp_path, "a.sh", MEGATRON).job.assumed if "skipped" in each]


def test_what_does_nothing_is_said(tmp_path: Path) -> None:
    text = MEGATRON.replace("--pipeline-model-parallel-size 4", "--decoder-first-pipeline-num-layers 4").replace(
        "--num-layers-per-virtual-pipeline-stage 5", "--expert-tensor-parallel-size 2")
    assumed = read(tmp_path, "a.sh", text).job.assumed
    assert any("the one stage has all layers (decoder_first_pipeline_num_layers" in each for each in assumed)
    assert any("no experts to divide (expert_tensor_parallel_size)" in each for each in assumed)


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


@pytest.mark.parametrize("model", ["deepseek-v3", "mixtral-8x7b", "mistral-7b", "qwen3-8b", "gpt-oss-120b"])
@pytest.mark.parametrize("framework", ["megatron", "nemo"])
def test_models_are_written_and_read(tmp_path: Path, framework: str, model: str) -> None:
    job, layout = job_of(model, seq=4096, global_batch=64), Layout(tp=2, dp=8, zero=1)
    ending = {"megatron": "sh", "nemo": "yaml"}[framework]
    now = read(tmp_path, f"a.{ending}", launch_arguments(framework, job, layout), npus=16)
    wanted, found = job.base.model, now.job.base.model
    assert isinstance(wanted, Decoder)
    assert isinstance(found, Decoder)
    assert wanted.counts() == found.counts()
    for name in ("mla", "window", "full_every", "mtp", "sinks", "qk_norm"):
        assert getattr(wanted, name) == getattr(found, name), name
    assert now.job.base.precision == job.base.precision


def test_stages_that_are_not_equal_are_written_as_a_layout(tmp_path: Path) -> None:
    """A launch without one stops: Megatron-LM divides 61 layers by no power of two."""
    plain, layout = job_of("deepseek-v3", seq=4096, global_batch=64), Layout(pp=16, dp=8, ep=8, zero=1)
    job = job_of(replace(plain.base.model, mtp=1), seq=4096, global_batch=64)
    text = launch_arguments("megatron", job, layout)
    assert "--pipeline-model-parallel-layout 'Et*3|(t*4|)*13t*3|t*3mL' \\\n" in text
    assert "--moe-layer-freq '[0]*3+[1]*58' \\\n" in text        # a shell leaves it as it is
    assert "# nor the router's groups of experts (--moe-router-num-groups" in text
    now = read(tmp_path, "a.sh", text, npus=layout.ranks)
    assert now.layout == layout
    assert now.fields["stage_layers"] == [3, *[4] * 13, 3, 3]
    with pytest.raises(InputError, match=r"NeMo 1 has no 16 parts of 61 layers.*expected megatron"):
        launch_arguments("nemo", job, layout)


def test_a_layout_by_hand(tmp_path: Path) -> None:
    """That of DeepSeek-V3 in Megatron-LM's guide, of 80 layers."""
    now = read(tmp_path, "a.sh", MEGATRON.replace("--num-layers-per-virtual-pipeline-stage 5", "--mtp-num-layers 1 "
               "--pipeline-model-parallel-layout 'Et*3|(t,tt|)*5t*62,m|L'"))
    assert now.layout.virtual_stages == 2
    assert now.fields["stage_layers"] == [3, *[3] * 5, 62, 0]
    assert any("run in the last part, with the head" in each for each in now.job.assumed)


@pytest.mark.parametrize(("text", "said"), [
    ("Et*40|t*40L", "has 2 parts, and 4 stages do not divide them"), ("t*80L", "does not begin with the embedding"),
    ("Et*20|x|t*60|L", "has other symbols"), ("Et*999|(t*99|)*99,L", "has more than 4,096 symbols"),
    ("E*|t|t|tL", r"has a \* without")])
def test_wrong_layouts_by_hand_are_refused(tmp_path: Path, text: str, said: str) -> None:
    words = MEGATRON.replace("--num-layers-per-virtual-pipeline-stage 5", f"--pipeline-model-parallel-layout '{text}'")
    with pytest.raises(InputError, match=f"pipeline_model_parallel_layout: {said}"):
        read(tmp_path, "a.sh", words)


def test_what_megatron_lacks_is_not_written() -> None:
    job = job_of("llama3-8b", seq=4096, global_batch=64)
    with pytest.raises(InputError, match="checkpoints no single operators"):
        launch_arguments("megatron", job, Layout(dp=8, recompute="operators"))


def _sizes(job: Job) -> tuple[object, ...]:
    model = job.base.model
    names = ("layers", "d_model", "heads", "groups", "ffn", "gated", "vocab", "tied_embeddings", "norm", "positions",
             "moe")
    return tuple(getattr(model, name) for name in names)
