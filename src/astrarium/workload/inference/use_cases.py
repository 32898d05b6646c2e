"""Named use cases: how long prompts and answers are."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

__all__ = ["USE_CASES", "UseCase"]


class UseCase(Struct, frozen=True):
    """Tokens of a prompt, tokens that are generated, and who says so."""

    prompt: int
    generated: int
    source: str


USE_CASES: Mapping[str, UseCase] = MappingProxyType({
    "question_answering": UseCase(1000, 200, "COSMIC's inference studies: prefill 1000, 200 decode steps"),
    "chat": UseCase(3000, 1000, "COSMIC's inference studies: prefill 3000, 1000 decode steps"),
    "summarization": UseCase(4096, 512, "NVIDIA Enterprise Reference Architectures, RAG sizing guide, benchmarking "
                             "methodology: summarization 4096/512"),
    "reasoning": UseCase(1000, 8000, "InferenceMAX's fixed sequence lengths 1k/8k, the reasoning "
                           "scenario, as repositories that run it quote it"),
    "code_completion": UseCase(1469, 13, "AzureLLMInferenceTrace_code.csv of 2023 (Splitwise, ISCA 2024): medians of "
                               "its 8,819 requests"),
})
