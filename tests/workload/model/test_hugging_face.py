"""A config.json becomes the catalog's model; what no family has, and what is hostile, is refused by file and key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium import catalog
from astrarium.config import decode
from astrarium.errors import AstrariumError, InputError
from astrarium.workload.model.base import Model
from astrarium.workload.model.hugging_face import LARGEST, READERS, from_mapping, read_config
from astrarium.workload.model.parameters import parameters

from .common import HEADS, SAMPLES, sample


def test_every_architecture_has_a_sample() -> None:
    assert set(SAMPLES) == set(READERS)


@pytest.mark.exam
@pytest.mark.parametrize("kind", SAMPLES)
def test_parameters_are_those_of_the_modules_that_transformers_builds(kind: str) -> None:
    """The rival: Hugging Face's own module for the same mapping, on the meta device, counted tensor by tensor."""
    torch = pytest.importorskip("torch", reason="the rival needs pip install torch transformers")
    transformers = pytest.importorskip("transformers", reason="the rival needs pip install torch transformers")
    configuration = transformers.AutoConfig.for_model(**sample(kind))
    with torch.device("meta"):
        if kind in HEADS:
            module = getattr(transformers, HEADS[kind])(configuration)
        else:
            module = transformers.AutoModelForCausalLM.from_config(configuration)
    module.tie_weights()
    counted = sum(each.numel() for each in module.parameters())
    counted += sum(each.numel() for name, each in module.named_buffers() if name.endswith("e_score_correction_bias"))
    assert parameters(from_mapping(sample(kind))).total == counted


# What the published config.json files say (facts, shortened): the model is the catalog's row of that name.
PUBLISHED = {
    "llama2-70b": {"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64,
                   "num_hidden_layers": 80, "num_key_value_heads": 8, "vocab_size": 32000, "hidden_act": "silu",
                   "max_position_embeddings": 4096, "tie_word_embeddings": False},
    "mistral-7b": {"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
                   "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 32000, "sliding_window": 4096,
                   "max_position_embeddings": 8192},
    "mixtral-8x7b": {"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
                     "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 32000,
                     "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None,
                     "max_position_embeddings": 32768},
    "deepseek-v3": {"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
                    "num_attention_heads": 128, "num_key_value_heads": 128, "num_hidden_layers": 61,
                    "vocab_size": 129280, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
                    "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8,
                    "n_shared_experts": 1, "first_k_dense_replace": 3, "moe_intermediate_size": 2048,
                    "moe_layer_freq": 1, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
                    "max_position_embeddings": 4096, "quantization_config": {"quant_method": "fp8"}},
    "qwen3-30b-a3b": {"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "head_dim": 128,
                      "num_attention_heads": 32, "num_key_value_heads": 4, "num_hidden_layers": 48,
                      "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
                      "decoder_sparse_step": 1, "mlp_only_layers": [], "max_position_embeddings": 32768},
    "gpt2-small": {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024,
                   "vocab_size": 50257, "activation_function": "gelu_new"},
    "vit-b-16": {"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 768,
                 "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "image_size": 224,
                 "patch_size": 16, "hidden_act": "gelu", "id2label": {str(index): "" for index in range(1000)}},
    "bert-large": {"model_type": "bert", "architectures": ["BertForPreTraining"], "hidden_size": 1024,
                   "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
                   "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2},
    "t5-11b": {"model_type": "t5", "d_model": 1024, "d_kv": 128, "d_ff": 65536, "num_layers": 24, "num_heads": 128,
               "vocab_size": 32128, "n_positions": 512},
    "mamba2-2.7b": {"model_type": "mamba2", "hidden_size": 2560, "num_hidden_layers": 64, "vocab_size": 50288,
                    "num_heads": 80, "n_groups": 1, "tie_word_embeddings": True},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files_are_the_catalogs_rows(name: str) -> None:
    assert from_mapping(PUBLISHED[name]) == decode(Model, catalog.load("models")[name]["model"])


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"model_type": "lama"}, r"f: model_type: 'lama' has no family here; expected one of llama, .*mean 'llama'"),
        ({"model_type": "gemma2"}, r"f: model_type: 'gemma2' has no family here; .*did you mean 'gemma'"),
        ({}, "f: model_type: is missing; expected text"),
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
