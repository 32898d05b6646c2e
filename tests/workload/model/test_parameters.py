"""Parameter counts of the catalog: the published checkpoint's, exactly, else the paper's to its rounding."""

from __future__ import annotations

import pytest

from astrarium import catalog
from astrarium.config import decode
from astrarium.workload.model.base import Model
from astrarium.workload.model.hugging_face import from_mapping
from astrarium.workload.model.parameters import Parameters, parameters

from .common import sample

# Elements of all tensors of the published checkpoint (https://huggingface.co/<name>), a tied head counted once. All but
# flan-t5-xxl and DiT's are counted again, from the published config.json by transformers, in test_hugging_face.py.
CHECKPOINTS = {
    "gpt2-small": 124_439_808,           # openai-community/gpt2
    "gpt2-medium": 354_823_168,          # openai-community/gpt2-medium
    "gpt2-large": 774_030_080,           # openai-community/gpt2-large
    "gpt2-xl": 1_557_611_200,            # openai-community/gpt2-xl
    "llama2-7b": 6_738_415_616,          # meta-llama/Llama-2-7b-hf
    "llama2-13b": 13_015_864_320,        # meta-llama/Llama-2-13b-hf
    "llama2-70b": 68_976_648_192,        # meta-llama/Llama-2-70b-hf
    "llama3-8b": 8_030_261_248,          # meta-llama/Meta-Llama-3-8B
    "llama3-70b": 70_553_706_496,        # meta-llama/Meta-Llama-3-70B
    "llama3-405b": 405_853_388_800,      # meta-llama/Llama-3.1-405B
    "mistral-7b": 7_241_732_096,         # mistralai/Mistral-7B-v0.1
    "mixtral-8x7b": 46_702_792_704,      # mistralai/Mixtral-8x7B-v0.1
    "mixtral-8x22b": 140_620_634_112,    # mistralai/Mixtral-8x22B-v0.1
    "deepseek-v2": 235_741_434_880,      # deepseek-ai/DeepSeek-V2
    "deepseek-v3": 671_026_419_200,      # deepseek-ai/DeepSeek-V3 without the multi-token prediction module
    "deepseek-r1": 671_026_419_200,      # deepseek-ai/DeepSeek-R1, the same
    "minimax-m2.5": 228_689_764_864,     # MiniMaxAI/MiniMax-M2.5 without the multi-token prediction modules: 230B
    "kimi-k2.5": 1_026_408_232_448,      # moonshotai/Kimi-K2.5 without the vision tower: 1T
    "qwen3-14b": 14_768_307_200,         # Qwen/Qwen3-14B: 14.8B
    "mistral-nemo-12b": 12_247_782_400,  # mistralai/Mistral-Nemo-Instruct-2407: 12B
    "qwen3-30b-a3b": 30_532_122_624,     # Qwen/Qwen3-30B-A3B
    "qwen3-235b-a22b": 235_093_634_560,  # Qwen/Qwen3-235B-A22B
    "gpt-oss-20b": 20_914_757_184,       # openai/gpt-oss-20b: 20.91B (arXiv 2508.10925, table 1)
    "gpt-oss-120b": 116_829_156_672,     # openai/gpt-oss-120b: 116.83B (the same)
    "llama4-scout": 107_769_861_120,     # meta-llama/Llama-4-Scout-17B-16E without the vision tower: 109B with it
    "llama4-maverick": 400_711_848_960,  # meta-llama/Llama-4-Maverick-17B-128E: 400B
    "kimi-k2": 1_026_408_232_448,        # moonshotai/Kimi-K2-Base: 1T
    "minimax-m2": 228_689_764_864,       # MiniMaxAI/MiniMax-M2: 230B
    "glm-4.5": 352_797_829_024,          # zai-org/GLM-4.5 without the multi-token prediction module: 355B
    "glm-4.5-air": 106_852_251_264,      # zai-org/GLM-4.5-Air, the same: 106B
    "glm-5": 743_911_218_432,            # zai-org/GLM-5, the same: 744B
    "deepseek-v3.2": 671_877_944_064,    # deepseek-ai/DeepSeek-V3.2-Exp, the same: 671B and the indexers
    "qwen3-next-80b-a3b": 79_674_391_296,    # Qwen/Qwen3-Next-80B-A3B-Instruct: 80B
    "qwen3.5-35b-a3b": 34_660_610_688,   # Qwen/Qwen3.5-35B-A3B without the vision tower: 35B
    "llama-65b": 65_285_660_672,         # huggyllama/llama-65b
    "qwen2.5-7b": 7_615_616_512,         # Qwen/Qwen2.5-7B
    "qwen2.5-72b": 72_706_203_648,       # Qwen/Qwen2.5-72B
    "qwen3-8b": 8_190_735_360,           # Qwen/Qwen3-8B
    "qwen3-32b": 32_762_123_264,         # Qwen/Qwen3-32B
    "gemma-7b": 8_537_680_896,           # google/gemma-7b
    "phi3-mini": 3_821_079_552,          # microsoft/Phi-3-mini-4k-instruct
    "bloom-176b": 176_247_271_424,       # bigscience/bloom
    "gpt-neox-20b": 20_554_567_680,      # EleutherAI/gpt-neox-20b
    "vit-b-16": 86_567_656,              # google/vit-base-patch16-224 (and torchvision's table of weights)
    "vit-l-16": 304_326_632,             # google/vit-large-patch16-224 (and torchvision's table of weights)
    "bert-base": 110_106_428,            # google-bert/bert-base-uncased, BertForPreTraining
    "bert-large": 336_226_108,           # google-bert/bert-large-uncased, BertForPreTraining
    "t5-11b": 11_307_321_344,            # google-t5/t5-11b
    "flan-t5-xxl": 11_135_332_352,       # google/flan-t5-xxl
    "whisper-large-v3": 1_543_490_560,   # openai/whisper-large-v3
    "dit-xl-2": 675_129_632,             # the count that the DiT authors' training script logs
    "mamba2-1.3b": 1_343_757_312,        # state-spaces/mamba2-1.3b
    "mamba2-2.7b": 2_702_599_680,        # state-spaces/mamba2-2.7b
}

# (parameters in 1e9, half a unit of the last printed digit, source). COSMIC's rows have sizes and no published count:
# beside them stands the model that they are named after, with the distance that their sizes leave.
PAPERS = {
    "gpt3-175b": (174.6, 0.05, "Brown et al. table D.1: 174,600M"),
    "gpt3-13b": (12.85, 0.005, "Brown et al. table D.1: 12,850M"),
    "megatron-1.7b": (1.7, 0.05, "Narayanan et al. table 1"),
    "megatron-3.6b": (3.6, 0.05, "Narayanan et al. table 1"),
    "megatron-7.5b": (7.5, 0.05, "Narayanan et al. table 1"),
    "megatron-18.4b": (18.4, 0.05, "Narayanan et al. table 1"),
    "megatron-39.1b": (39.1, 0.05, "Narayanan et al. table 1"),
    "megatron-76.1b": (76.1, 0.05, "Narayanan et al. table 1"),
    "megatron-145.6b": (145.6, 0.05, "Narayanan et al. table 1"),
    "megatron-310.1b": (310.1, 0.05, "Narayanan et al. table 1"),
    "megatron-529.6b": (529.6, 0.05, "Narayanan et al. table 1"),
    "transformer-1t": (1008.0, 0.05, "Narayanan et al. table 1"),
    "megatron-22b": (22, 0.5, "Korthikanti et al. table 3"),
    "megatron-175b": (175, 0.5, "Korthikanti et al. table 3"),
    "gpt3-5b": (5, 0.5, "its name"),
    "qwen3.5-397b-a17b": (397, 1.0, "its name, which counts no module for prediction"),
    "gpt3-20b": (20, 0.5, "its name"),
    "nemotron-8b": (8.5, 0.5, "its name, 8B, with 256,000 tokens"),
    "nemotron-22b": (22, 0.9, "its name"),
    "nemotron4-15b": (15.6, 0.05, "Nemotron-4 15B Technical Report: 3.2B of embeddings and 12.5B others"),
    "nemotron4-340b": (341, 0.5, "Nemotron-4 340B Technical Report: 9.4B of embeddings and 331.6B others"),
    "codellama-34b": (34, 0.5, "its name"),
    "dit-xl-2-512": (0.676, 0.0005, "Peebles and Xie: 675M at 256 pixels, whose fixed position table grows fourfold"),
    "dlrm-dcnv2": (26.15, 0.1, "MLPerf: 97.4 GiB of fp32 tables, 26.13e9 parameters; the dense layers come on top"),
    "cosmic-gpt3-175b": (175, 0.9, "COSMIC's sizes without GPT-3's positions and vocabulary"),
    "cosmic-gpt3-13b": (13, 0.3, "COSMIC's sizes"),
    "cosmic-vit-base": (0.086, 0.0005, "COSMIC's sizes; Dosovitskiy et al. table 1: 86M"),
    "cosmic-vit-large": (0.307, 0.003, "COSMIC's sizes; Dosovitskiy et al. table 1: 307M"),
}

# Active parameters in 1e9, as the papers print them (half a unit of the last digit).
ACTIVE = {
    "mixtral-8x7b": (12.9, 0.05, "Mixtral of Experts, table 2: 13B"),
    "mixtral-8x22b": (39, 0.5, "mistral.ai/news/mixtral-8x22b: 39B"),
    "deepseek-v2": (21, 0.5, "DeepSeek-V2, abstract: 21B"),
    "deepseek-v3": (37.5, 0.6, "DeepSeek-V3, abstract: 37B (36.6B without the embedding: README_WEIGHTS)"),
    "qwen3-30b-a3b": (3.3, 0.06, "Qwen3-30B-A3B model card: 3.3B"),
    "qwen3-235b-a22b": (22, 0.5, "Qwen3-235B-A22B model card: 22B"),
    "llama4-scout": (17, 0.5, "Llama 4 model card: 17B"),
    "llama4-maverick": (17, 0.5, "Llama 4 model card: 17B"),
    "kimi-k2": (32.6, 0.3, "Kimi K2, table 2: 32.6B"),
    "minimax-m2": (10.4, 0.7, "MiniMax-M2 model card: 10B (10.4 without the embedding)"),
    "glm-4.5": (32.9, 0.8, "GLM-4.5 model card: 32B (32.9 without the embedding)"),
    "glm-4.5-air": (12.8, 0.7, "GLM-4.5-Air model card: 12B (12.8 without the embedding)"),
    "glm-5": (40.8, 1.0, "GLM-5 model card: 40B (40.8 without the embedding)"),
    "deepseek-v3.2": (37.5, 1.0, "as DeepSeek-V3, and the indexers"),
    "qwen3-next-80b-a3b": (3.6, 0.6, "Qwen3-Next model card: 3B (3.25 without embedding and head)"),
    "qwen3.5-35b-a3b": (3.0, 0.5, "Qwen3.5-35B-A3B model card: 3B (2.95 without the embedding)"),
    "deepseek-r1": (37.5, 0.6, "as DeepSeek-V3"),
    "minimax-m2.5": (10.4, 0.7, "as MiniMax-M2"),
    "kimi-k2.5": (32.6, 0.3, "as Kimi K2"),
    "qwen3.5-397b-a17b": (17, 0.5, "its name"),
    "gpt-oss-20b": (3.61 + 0.579, 0.005, "arXiv 2508.10925, table 1: 3.61B, and the embedding"),
    "gpt-oss-120b": (5.13 + 0.579, 0.005, "arXiv 2508.10925, table 1: 5.13B, and the embedding"),
}


def _of(name: str) -> Parameters:
    return parameters(decode(Model, catalog.load("models")[name]["model"]))


@pytest.mark.parametrize("name", catalog.load("models"))
def test_every_row_counts_what_was_published(name: str) -> None:
    found = _of(name)
    if name in CHECKPOINTS:
        assert found.total == CHECKPOINTS[name]
    else:
        published, half, _ = PAPERS[name]
        assert abs(float(found.total) / 1e9 - published) <= half
    assert found.active <= found.total == sum(found.parts.values())
    if name in ACTIVE:
        published, half, _ = ACTIVE[name]
        assert abs(float(found.active) / 1e9 - published) <= half
    elif name.startswith("dlrm"):
        assert found.active == found.total - found.parts["embedding"] + 128 * (214 if name == "dlrm-dcnv2" else 26)
    else:
        assert found.active == found.total


def test_parts_of_deepseek_v3() -> None:
    """DeepSeek-V3: 58 layers of 257 experts of 3 x 7168 x 2048; embedding and head are 0.9B each (README_WEIGHTS)."""
    parts = _of("deepseek-v3").parts
    assert parts["experts"] == 58 * 257 * 3 * 7168 * 2048
    assert parts["embedding"] == parts["head"] == 129280 * 7168
    assert parts["router"] == 58 * 256 * 7169
    assert parts["attention"] == 61 * (7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168)


def test_layers_that_share_an_indexers_choice_have_none() -> None:
    """GLM-5.2: of 3 layers one has an indexer, of q_rank x heads x size + d_model x (size + heads) and two norms."""
    own, shared = (parameters(from_mapping(sample("glm_moe_dsa", **more))).total
                   for more in ({}, {"indexer_types": ["full", "shared", "shared"]}))
    assert own - shared == 2 * (40 * 4 * 16 + 64 * (16 + 4) + 2 * 16)
