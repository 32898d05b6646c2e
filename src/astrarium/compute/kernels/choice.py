"""Which measured variants ("framework/version") answer for a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

__all__ = ["FASTEST", "TORCH", "framework_of", "is_torch", "newest", "version"]

FASTEST = "fastest"
TORCH = "torch"
ENOUGH = 3
"""A newer version counts from one such part of the rows of its framework's fullest version: some have a few models."""


def framework_of(variant: str) -> str:
    """The framework of a variant, "vllm" of "vllm/0.24.0"."""
    return variant.split("/", maxsplit=1)[0]


def is_torch(framework: str | None) -> bool:
    """Whether kernels are PyTorch's, of any version."""
    return framework is not None and framework_of(framework) == TORCH


def version(variant: str) -> tuple[int, ...]:
    """The numbers of a variant's version, which order it: 0.5.6.post2 is before 0.5.14."""
    return tuple(map(int, re.findall(r"\d+", variant.partition("/")[2])))


def newest(variants: Iterable[str], rows: Mapping[str, int]) -> tuple[str, ...]:
    """The newest version of each framework, of those with enough `rows`; where rows are not said, of all."""
    groups = dict[str, list[str]]()
    for name in variants:
        groups.setdefault(framework_of(name), []).append(name)
    found = []
    for names in groups.values():
        most = max(rows.get(name, 0) for name in names)
        found.append(max((name for name in names if rows.get(name, 0) * ENOUGH >= most), key=version))
    return tuple(found)
