"""Names that sources print, and the catalog's rows that they mean."""

from __future__ import annotations

import pytest

from astrarium import catalog
from astrarium.errors import InputError
from astrarium.validate.models import model_of
from astrarium.validate.rows import Row


@pytest.mark.parametrize(("name", "row"), [
    ("meta-llama/Meta-Llama-3.1-8B", "llama3-8b"), ("meta-llama/Llama-3.1-70B-Instruct", "llama3-70b"),
    ("llama3_1-70b-fp8_dyn", "llama3-70b"), ("llama2-70b-99.9", "llama2-70b"),
    ("meta-llama/Llama-2-7b-hf", "llama2-7b"), ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"),
    ("mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo-12b"),
    ("codellama/CodeLlama-34b-Instruct-hf", "codellama-34b"), ("Qwen/Qwen3-235B-A22B-FP8", "qwen3-235b-a22b"),
    ("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", "llama4-scout"), ("Qwen/Qwen3-14B", "qwen3-14b"),
    ("nvidia/DeepSeek-R1-NVFP4", "deepseek-r1"), ("nvidia/DeepSeek-V3.1-NVFP4", "deepseek-v3"),
    ("MiniMaxAI/MiniMax-M2.5", "minimax-m2.5"), ("Qwen/Qwen3.5-397B-A17B", "qwen3.5-397b-a17b"),
    ("moonshotai/Kimi-K2.5", "kimi-k2.5"), ("zhipuai/GLM-5", "glm-5"), ("openai/gpt-oss-120b", "gpt-oss-120b"),
])
def test_names_of_checkpoints(name: str, row: str) -> None:
    assumed: list[str] = []
    assert model_of(Row("f", 2, "inference", {"model": name}), assumed) == catalog.load("models")[row]["model"]
    assert assumed == [f"model: sizes of {name} from the catalog"]


@pytest.mark.parametrize("name", ["llama3_1-405b_pruned", "llama3_1-405b_finetuned", "deepseek", "whisper"])
def test_another_model_is_not_taken_for_it(name: str) -> None:
    with pytest.raises(InputError, match="no model of the catalog"):
        model_of(Row("f", 2, "inference", {"model": name}), [])
