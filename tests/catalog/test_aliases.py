"""Other names of devices and models: each means one row, and gives what the row's own name gives."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium import catalog
from astrarium.config import decode
from astrarium.errors import InputError


@pytest.mark.parametrize("kind", ["devices", "models"])
def test_every_name_and_alias_means_one_row(kind: str) -> None:
    said: dict[str, str] = {}
    for name, row in catalog.load(kind).items():
        for each in (name, *row.get("aliases", ())):
            folded = "".join(sign for sign in each.casefold() if sign.isalnum())
            assert said.setdefault(folded, name) == name, each
            assert catalog.name_of(kind, each) == name
            assert catalog.name_of(kind, each.upper()) == name


@pytest.mark.parametrize(("kind", "text", "name"), [
    ("devices", "H200", "h200_sxm"), ("devices", "a100", "a100_sxm_80gb"), ("devices", "MI300X", "mi300x"),
    ("models", "meta-llama/Llama-3.1-405B", "llama3-405b"), ("models", "Llama-3.3-70B-Instruct", "llama3-70b"),
    ("models", "Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"), ("models", "meta-llama/Llama-2-70b-chat-hf", "llama2-70b"),
    ("models", "Qwen/Qwen3-32B", "qwen3-32b"), ("models", "deepseek-ai/DeepSeek-V3", "deepseek-v3"),
    ("models", "deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"),
    ("models", "Qwen/Qwen3-235B-A22B-Instruct-2507", "qwen3-235b-a22b"),
    ("models", "mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
    ("devices", "NVIDIA H100 80GB HBM3", "h100_sxm"), ("devices", "NVIDIA A100-SXM4-40GB", "a100_sxm_40gb"),
    ("devices", "NVIDIA A100-SXM4-80GB", "a100_sxm_80gb"), ("devices", "Tesla V100-SXM2-32GB", "v100_sxm2_32gb"),
    ("devices", "AMD Instinct MI300X", "mi300x"), ("devices", "NVIDIA B200", "b200")])
def test_names_that_people_use(kind: str, text: str, name: str) -> None:
    """Of devices also those of `torch.cuda.get_device_name` (https://github.com/pytorch/pytorch/pull/194276)."""
    assert catalog.name_of(kind, text) == name


@pytest.mark.parametrize(("kind", "text", "close"), [
    ("models", "deepseek-ai/DeepSeek-V2.5", "deepseek-v2"),
    ("models", "nvidia/Llama-3.1-405B-Instruct-FP8", "llama3-405b"),
    ("models", "mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b"), ("devices", "NVIDIA H100 PCIe", "h100_sxm")])
def test_a_name_that_is_not_known_has_the_nearest_one(kind: str, text: str, close: str) -> None:
    """Another checkpoint or a quantised one is not the same; the nearest row is named by what the id ends in."""
    with pytest.raises(InputError) as error:
        catalog.name_of(kind, text)
    assert error.value.did_you_mean == close


def test_a_design_takes_them() -> None:
    def design(compute: str, model: str) -> ar.Design:
        return decode(ar.Design, {
            "compute": compute, "memory": compute,
            "workload": {"source": "transformer", "model": model, "global_batch": 8},
            "network": {"dims": [{"shape": "switch", "npus": 1, "bandwidth": "1 GB/s", "latency": "1 us"}]}})

    assert design("H100", "Llama-3.1-8B") == design("h100_sxm", "llama3-8b")
    with pytest.raises(InputError, match="did you mean 'h100_sxm'"):
        design("h100s", "llama3-8b")
