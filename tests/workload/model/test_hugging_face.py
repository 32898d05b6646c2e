"""A config.json becomes the catalog's model; what no family has, and what is hostile, is refused by file and key."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.draws import draws

import astrarium as ar
from astrarium import catalog
from astrarium.config import decode
from astrarium.errors import AstrariumError, InputError
from astrarium.workload.model.base import Model
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.hugging_face import LARGEST, from_mapping, read_config, readers
from astrarium.workload.model.mamba import Mamba
from astrarium.workload.model.parameters import parameters

from .common import HEADS, SAMPLES, rival, sample


def test_every_architecture_has_a_sample() -> None:
    assert set(SAMPLES) == set(readers())


def counted(plain: dict[str, Any]) -> int:
    """Elements of the module that transformers builds; routers' offsets are its buffers, but in the checkpoint."""
    torch = pytest.importorskip("torch", reason="the rival needs pip install torch transformers")
    transformers = pytest.importorskip("transformers", reason="the rival needs pip install torch transformers")
    configuration = transformers.AutoConfig.for_model(**plain)
    with torch.device("meta"):
        if plain["model_type"] in HEADS:
            module = getattr(transformers, HEADS[plain["model_type"]])(configuration)
        else:
            module = transformers.AutoModelForCausalLM.from_config(configuration)
    module.tie_weights()
    found = sum(each.numel() for each in module.parameters())
    found += sum(each.numel() for name, each in module.named_buffers() if name.endswith("e_score_correction_bias"))
    return int(found)


@pytest.mark.exam
@pytest.mark.parametrize("kind", SAMPLES)
def test_parameters_are_those_of_the_modules_that_transformers_builds(kind: str) -> None:
    """The rival: Hugging Face's own module for the same mapping, on the meta device, counted tensor by tensor."""
    found = parameters(from_mapping(sample(kind)))
    assert found.total - found.parts.get("mtp", 0) == counted(rival(kind))


def _line(kind: str, sizes: tuple[int, ...], **more: Any) -> dict[str, Any]:
    """A file of the LLaMA line: layers, d_model, heads, key and value heads, ffn, vocabulary, positions."""
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size",
             "vocab_size", "max_position_embeddings")
    return {"model_type": kind, **dict(zip(names, sizes, strict=True)), "tie_word_embeddings": False, **more}


def _gpt2(layers: int, width: int, heads: int) -> dict[str, Any]:
    return {"model_type": "gpt2", "n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": 1024,
            "vocab_size": 50257, "activation_function": "gelu_new"}


def _trunk(kind: str, head: str, layers: int, width: int, heads: int, **more: Any) -> dict[str, Any]:
    return {"model_type": kind, "architectures": [head], "num_hidden_layers": layers, "hidden_size": width,
            "num_attention_heads": heads, "intermediate_size": 4 * width, "hidden_act": "gelu", **more}


_MLA = {"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "moe_layer_freq": 1}
_VIT = {"image_size": 224, "patch_size": 16, "id2label": {str(index): "" for index in range(1000)}}
_BERT = {"vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2}
_QWEN = {"head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": []}

_BLOCK = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
_INT4 = {"quantization_config": {
    "quant_method": "compressed-tensors", "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
                                                     r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"],
    "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": None,
                                  "weights": {"num_bits": 4, "type": "int", "group_size": 32}}}}}
_OSS = {"quantization_config": {"quant_method": "mxfp4"}, "head_dim": 64, "num_experts_per_tok": 4,
        "sliding_window": 128, "attention_bias": True}
_SCOUT = {"head_dim": 128, "intermediate_size_mlp": 16384, "num_experts_per_tok": 1, "attention_chunk_size": 8192,
          "no_rope_layer_interval": 4}
_GLM = {"head_dim": 128, "num_experts_per_tok": 8, "n_shared_experts": 1, "attention_bias": True,
        "partial_rotary_factor": 0.5}
_DELTA = {"head_dim": 256, "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_num_value_heads": 32,
          "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
          "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "partial_rotary_factor": 0.25}
_INDEX = {"index_head_dim": 128, "index_topk": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
          "n_shared_experts": 1, "first_k_dense_replace": 3, "moe_intermediate_size": 2048}

# What the published config.json files say (facts, shortened): the model is the catalog's row of that name.
PUBLISHED: dict[str, dict[str, Any]] = {
    "gpt2-small": _gpt2(12, 768, 12), "gpt2-medium": _gpt2(24, 1024, 16), "gpt2-large": _gpt2(36, 1280, 20),
    "gpt2-xl": _gpt2(48, 1600, 25),
    "llama2-7b": _line("llama", (32, 4096, 32, 32, 11008, 32000, 4096)),
    "llama2-13b": _line("llama", (40, 5120, 40, 40, 13824, 32000, 4096)),
    "llama2-70b": _line("llama", (80, 8192, 64, 8, 28672, 32000, 4096)),
    "llama3-8b": _line("llama", (32, 4096, 32, 8, 14336, 128256, 8192)),
    "llama3-70b": _line("llama", (80, 8192, 64, 8, 28672, 128256, 8192)),
    "llama3-405b": _line("llama", (126, 16384, 128, 8, 53248, 128256, 8192)),
    "mistral-7b": _line("mistral", (32, 4096, 32, 8, 14336, 32000, 8192), sliding_window=4096),
    "mixtral-8x7b": _line("mixtral", (32, 4096, 32, 8, 14336, 32000, 32768), num_local_experts=8,
                          num_experts_per_tok=2, sliding_window=None),
    "mixtral-8x22b": _line("mixtral", (56, 6144, 48, 8, 16384, 32000, 65536), num_local_experts=8,
                           num_experts_per_tok=2, sliding_window=None),
    "deepseek-v2": _line("deepseek_v2", (60, 5120, 128, 128, 12288, 102400, 4096), **_MLA, n_routed_experts=160,
                         num_experts_per_tok=6, n_shared_experts=2, first_k_dense_replace=1,
                         moe_intermediate_size=1536),
    "deepseek-v3": _line("deepseek_v3", (61, 7168, 128, 128, 18432, 129280, 4096), **_MLA, n_routed_experts=256,
                         num_experts_per_tok=8, n_shared_experts=1, first_k_dense_replace=3,
                         moe_intermediate_size=2048, scoring_func="sigmoid", topk_method="noaux_tc", **_BLOCK),
    "qwen3-30b-a3b": _line("qwen3_moe", (48, 2048, 32, 4, 6144, 151936, 32768), **_QWEN, moe_intermediate_size=768),
    "qwen3-235b-a22b": _line("qwen3_moe", (94, 4096, 64, 4, 12288, 151936, 32768), **_QWEN,
                             moe_intermediate_size=1536),
    "gpt-oss-20b": _line("gpt_oss", (24, 2880, 64, 8, 2880, 201088, 131072), **_OSS, num_local_experts=32),
    "gpt-oss-120b": _line("gpt_oss", (36, 2880, 64, 8, 2880, 201088, 131072), **_OSS, num_local_experts=128),
    "llama4-scout": _line("llama4_text", (48, 5120, 40, 8, 8192, 202048, 10485760), **_SCOUT, num_local_experts=16,
                          interleave_moe_layer_step=1, use_qk_norm=True),
    "llama4-maverick": _line("llama4_text", (48, 5120, 40, 8, 8192, 202048, 1048576), **_SCOUT, num_local_experts=128,
                             interleave_moe_layer_step=2, use_qk_norm=False),
    "kimi-k2": _line("kimi_k2", (61, 7168, 64, 64, 18432, 163840, 131072), **_MLA, n_routed_experts=384,
                     num_experts_per_tok=8, n_shared_experts=1, first_k_dense_replace=1, moe_intermediate_size=2048,
                     scoring_func="sigmoid", **_BLOCK),
    "minimax-m2": _line("minimax_m2", (62, 3072, 48, 8, 1536, 200064, 196608), head_dim=128, rotary_dim=64,
                        num_local_experts=256, num_experts_per_tok=8, use_qk_norm=True, **_BLOCK),
    "glm-4.5": _line("glm4_moe", (92, 5120, 96, 8, 12288, 151552, 131072), **_GLM, n_routed_experts=160,
                     moe_intermediate_size=1536, first_k_dense_replace=3, use_qk_norm=True),
    "glm-4.5-air": _line("glm4_moe", (46, 4096, 96, 8, 10944, 151552, 131072), **_GLM, n_routed_experts=128,
                         moe_intermediate_size=1408, first_k_dense_replace=1, use_qk_norm=False),
    "glm-5": _line("glm_moe_dsa", (78, 6144, 64, 64, 12288, 154880, 202752), **_INDEX, q_lora_rank=2048,
                   kv_lora_rank=512, qk_nope_head_dim=192, qk_rope_head_dim=64, v_head_dim=256, index_n_heads=32),
    "deepseek-v3.2": _line("deepseek_v32", (61, 7168, 128, 128, 18432, 129280, 163840), **_MLA, **_INDEX,
                           index_n_heads=64, **_BLOCK),
    "qwen3-next-80b-a3b": _line("qwen3_next", (48, 2048, 16, 2, 5120, 151936, 262144), **_DELTA, num_experts=512,
                                num_experts_per_tok=10, decoder_sparse_step=1, mlp_only_layers=[]),
    "qwen3.5-35b-a3b": {key: value for key, value in _line(
        "qwen3_5_moe_text", (40, 2048, 16, 2, 0, 248320, 262144), **_DELTA, num_experts=256,
        num_experts_per_tok=8, mamba_ssm_dtype="float32").items() if key != "intermediate_size"},
    "qwen3.5-397b-a17b": {key: value for key, value in _line(
        "qwen3_5_moe_text", (60, 4096, 32, 2, 0, 248320, 262144), **{
            **_DELTA, "linear_num_value_heads": 64, "moe_intermediate_size": 1024,
            "shared_expert_intermediate_size": 1024}, num_experts=512, num_experts_per_tok=10,
        mamba_ssm_dtype="float32").items() if key != "intermediate_size"},
    "qwen3-14b": _line("qwen3", (40, 5120, 40, 8, 17408, 151936, 40960), head_dim=128),
    "mistral-nemo-12b": _line("mistral", (40, 5120, 32, 8, 14336, 131072, 1024000), head_dim=128, sliding_window=None),
    "llama-65b": _line("llama", (80, 8192, 64, 64, 22016, 32000, 2048)),
    "qwen2.5-7b": _line("qwen2", (28, 3584, 28, 4, 18944, 152064, 32768), use_sliding_window=False),
    "qwen2.5-72b": _line("qwen2", (80, 8192, 64, 8, 29568, 152064, 32768), use_sliding_window=False),
    "qwen3-8b": _line("qwen3", (36, 4096, 32, 8, 12288, 151936, 32768), head_dim=128),
    "qwen3-32b": _line("qwen3", (64, 5120, 64, 8, 25600, 151936, 32768), head_dim=128),
    "gemma-7b": {**_line("gemma", (28, 3072, 16, 16, 24576, 256000, 8192), head_dim=256, hidden_act="gelu"),
                 "tie_word_embeddings": True},
    "phi3-mini": _line("phi3", (32, 3072, 32, 32, 8192, 32064, 4096), sliding_window=2047),
    "bloom-176b": {"model_type": "bloom", "n_layer": 70, "hidden_size": 14336, "n_head": 112, "vocab_size": 250880},
    "gpt-neox-20b": {**_line("gpt_neox", (44, 6144, 64, 64, 24576, 50432, 2048), hidden_act="gelu_fast")},
    "vit-b-16": _trunk("vit", "ViTForImageClassification", 12, 768, 12, **_VIT),
    "vit-l-16": _trunk("vit", "ViTForImageClassification", 24, 1024, 16, **_VIT),
    "bert-base": _trunk("bert", "BertForPreTraining", 12, 768, 12, **_BERT),
    "bert-large": _trunk("bert", "BertForPreTraining", 24, 1024, 16, **_BERT),
    "t5-11b": {"model_type": "t5", "d_model": 1024, "d_kv": 128, "d_ff": 65536, "num_layers": 24, "num_heads": 128,
               "vocab_size": 32128, "n_positions": 512},
    "whisper-large-v3": {
        "model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32,
        "encoder_attention_heads": 20, "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120,
        "vocab_size": 51866, "num_mel_bins": 128, "max_source_positions": 1500, "max_target_positions": 448},
    "mamba2-1.3b": {"model_type": "mamba2", "hidden_size": 2048, "num_hidden_layers": 48, "vocab_size": 50288,
                    "num_heads": 64, "n_groups": 1, "tie_word_embeddings": True},
    "mamba2-2.7b": {"model_type": "mamba2", "hidden_size": 2560, "num_hidden_layers": 64, "vocab_size": 50288,
                    "num_heads": 80, "n_groups": 1, "tie_word_embeddings": True},
}
PUBLISHED |= {"deepseek-r1": PUBLISHED["deepseek-v3"], "minimax-m2.5": PUBLISHED["minimax-m2"],
              "kimi-k2.5": {**PUBLISHED["kimi-k2"], **_INT4}}


@pytest.mark.exam
@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_of_published_models_are_those_that_transformers_builds(name: str) -> None:
    """The same at full size, on the meta device: an independent count of what the checkpoint holds."""
    plain = PUBLISHED[name]
    if plain["model_type"] == "kimi_k2":
        plain = {**plain, "model_type": "deepseek_v3"}
    assert parameters(from_mapping(PUBLISHED[name])).total == counted(plain)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files_are_the_catalogs_rows(name: str) -> None:
    """But for the length of samples, which no config.json says, and the notes that say so."""
    found = from_mapping(PUBLISHED[name])
    row = decode(Model, catalog.load("models")[name]["model"])
    assert found.notes
    assert msgspec.structs.replace(found, notes=(), **_seq(found)) == msgspec.structs.replace(row, **_seq(row))


def _seq(model: Model) -> dict[str, Any]:
    return {"seq": None} if isinstance(model, (Decoder, Mamba)) else {}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"model_type": "lama"}, r"f: model_type: 'lama' has no family here; expected one of llama, .*mean 'llama'"),
        ({"model_type": "gemma2"}, r"f: model_type: 'gemma2' has no family here; .*did you mean 'gemma'"),
        ({}, "f: model_type: is missing; expected text"),
        ({"peft_type": "LORA", "r": 8}, r"f: peft_type: adapters \('LORA'\) have no model here; expected the config"),
        ([], r"f: \[\] is not a mapping"),
        (sample("llama", hidden_size="64"), "f: hidden_size: '64' is impossible; expected a whole number"),
        (sample("llama", hidden_size=True), "f: hidden_size: True is impossible"),
        (sample("llama", hidden_size=-1), "f: hidden_size: -1 is impossible"),
        (sample("llama", num_key_value_heads=3), "f: kv_heads: 3 does not divide 8 heads; expected one of 1, 2, 4, 8"),
        (sample("llama", num_hidden_layers=0), "f: layers: 0 is impossible; expected 1 or more"),
        (sample("llama", hidden_act="swiglu"), "f: hidden_act: 'swiglu' has no model here"),
        ({"model_type": "llama", "hiden_size": 3, "num_hidden_layers": 1},
         "f: hidden_size: is missing; expected a whole number; did you mean 'hiden_size'"),
        (sample("qwen2", use_sliding_window=True), "f: use_sliding_window: True has no model here; expected False"),
        (sample("opt", do_layer_norm_before=False), "f: do_layer_norm_before: False has no model here"),
        (sample("opt", word_embed_proj_dim=32), "f: word_embed_proj_dim: 32 has no model here; expected 64 or None"),
        (sample("deepseek_v3", attention_bias=True), "f: attention_bias: True has no model here"),
        (sample("mamba2", num_heads=9), "f: num_heads: 9 has no model here; expected 8"),
        (sample("bert", architectures=["BertForMaskdLM"]), "architectures.0.: .*did you mean 'BertForMaskedLM'"),
        (sample("bert", architectures="Bert"), "f: architectures: 'Bert' is impossible"),
        (sample("t5", feed_forward_proj="gated-tanh"), "f: feed_forward_proj: 'gated-tanh' has no model here"),
        (sample("vit", image_size=65), "f: patch: 16 does not divide an image of 65"),
        (sample("minimax_m2", attn_type_list=[0, 1, 1]), r"f: attn_type_list: \[0, 1, 1\] has no model here"),
        (sample("minimax_m2", shared_intermediate_size=9), "f: shared_intermediate_size: 9 has no model here"),
        (sample("gpt_oss", layer_types=["full_attention"] * 2 + ["sliding_attention"] * 2),
         "f: layer_types: the order .* has no model here; expected every k-th layer full_attention"),
        (sample("qwen3_next", attn_output_gate=False), "f: attn_output_gate: False has no model here"),
        (sample("qwen3_next", shared_expert_intermediate_size=5), "f: shared_expert_intermediate_size: 5 has no model"),
        (sample("llama4_text", no_rope_layers=[0, 1, 1, 1]), "f: no_rope_layers: .* has no model here"),
        (sample("glm_moe_dsa", indexer_types=["full", "shard", "full"]), "indexer_types: .* has no model here"),
        (sample("glm_moe_dsa", indexer_types=["shared"] * 3), "sparse.layers: the first layer has no layer before it"),
        (sample("deepseek_v32", mlp_layer_types=["sparse"] * 3), "f: mlp_layer_types: another order has no model here"),
        ({"model_type": "llama4", "vision_config": {}}, "f: text_config: is missing; expected a mapping"),
        (sample("whisper", decoder_ffn_dim=64), "f: decoder_ffn_dim: 64 has no model here"),
    ],
)
def test_what_no_family_has_is_refused(plain: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_mapping(plain, "f")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b'{"num_hidden_layers": 32, "num_hidden_layers": 2}', "key 'num_hidden_layers' is there twice"),
        (b"[" * 300_000, "nested too deeply|is not JSON"),
        (b'{"model_type": "llama", "hidden_size": ' + b"9" * 5000 + b"}", "is not JSON|is missing|impossible"),
        (b'{"model_type": "llama", "num_hidden_layers": 1e999}', "num_hidden_layers: inf is impossible"),
        (b" " * (LARGEST + 1), f"is larger than {LARGEST} bytes"),
    ],
)
def test_hostile_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_config(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["", "\0", "."])
def test_paths_that_are_no_file(name: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_config(name)


_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(st.integers(),
                                                                                                  max_size=2)


@given(st.sampled_from(sorted(SAMPLES)), st.data())
@draws(25)
def test_a_wrong_value_is_a_model_or_a_message(kind: str, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(SAMPLES[kind])))
    try:
        total = parameters(from_mapping(sample(kind, **{key: data.draw(_VALUES)}))).total
    except AstrariumError as error:
        total = int("config.json" in str(error))
    assert total > 0


def test_round_trip_through_a_file(tmp_path: Path) -> None:
    for kind in SAMPLES:
        path = tmp_path / f"{kind}.json"
        path.write_text(json.dumps(sample(kind)))
        assert read_config(path) == from_mapping(sample(kind))


def test_what_an_import_assumes_is_said() -> None:
    notes = from_mapping(sample("llama")).notes
    assert notes == (
        "max_position_embeddings 128 is how far positions reach, not how long samples are: training takes its "
        "workload.seq, inference its prompt", "not in the file, so as its class has it: hidden_act silu")
    for kind in SAMPLES:
        assert any("samples" in note or kind == "vit" for note in from_mapping(sample(kind)).notes), kind


@pytest.mark.parametrize(("more", "said"), [
    ({"quantization_config": {"quant_method": "bitsandbytes"}}, r"quantization_config \(bitsandbytes\) is not read"),
    ({"sliding_window": 4096}, "keys that are not read: sliding_window"),
    ({"layer_types": ["sliding_attention"]}, "keys that are not read: layer_types"),
    ({"novel_feature": 3, "other_one": True}, "keys that are not read: novel_feature, other_one"),
    ({"vision_config": {"depth": 3}}, "the vision tower .* is left out"),
    ({"num_nextn_predict_layers": 2, "sliding_window": None}, "keys that are not read: num_nextn_predict_layers")])
def test_features_that_are_not_imported_are_named(more: dict[str, Any], said: str) -> None:
    assert any(re.search(said, note) for note in from_mapping(sample("llama", **more)).notes)


def test_keys_that_change_nothing_are_not_named() -> None:
    silent = {"rope_theta": 1e4, "torch_dtype": "bfloat16", "bos_token_id": 1, "attention_dropout": 0.1,
              "novel_feature": None, "other": False, "architectures": ["LlamaForCausalLM"], "rms_norm_eps": 1e-5}
    assert from_mapping(sample("llama", **silent)).notes == from_mapping(sample("llama")).notes


def test_modules_for_prediction_are_imported_and_said() -> None:
    found = from_mapping(sample("deepseek_v3"))
    assert isinstance(found, Decoder)
    assert found.mtp == 1
    assert any("num_nextn_predict_layers 1: trained together with the head" in note for note in found.notes)


def test_training_asks_for_the_length_of_samples(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(sample("llama")))
    model: Any = str(tmp_path / "config.json")
    with pytest.raises(InputError, match="seq: is missing; expected tokens of a sample: the model's file says how far"):
        ar.Transformer(model, global_batch=8)
    assert ar.Transformer(model, global_batch=8, seq=64).seq == 64
    assert ar.Transformer({"like": model, "seq": 64}, global_batch=8).model.notes     # type: ignore[arg-type]
    assert ar.Inference(model, batch=1, prompt=64, generated=1).model.notes
