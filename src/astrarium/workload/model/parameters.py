"""Parameters of a model in closed form: by part, in total, and active (what one token uses)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from astrarium.workload.model.base import Count, Model

__all__ = ["Parameters", "ffn_count", "linear_count", "parameters"]


class Parameters(Struct, frozen=True):
    """Parameters by part (embedding, positions, attention, mixer, ffn, experts, router, norms, head, ...).

    `fixed_positions` are in the checkpoint, but not trained.
    """

    parts: Mapping[str, Count]
    inactive: Count = 0

    @property
    def total(self) -> Count:
        """All parameters, each counted once (a tied head is the embedding's)."""
        return _plain(sum(self.parts.values()))

    @property
    def trained(self) -> Count:
        """Parameters that have gradients."""
        return _plain(self.total - self.parts.get("fixed_positions", 0))

    @property
    def active(self) -> Count:
        """Parameters that one token (sample) uses: not experts that it does not go to, nor rows that it skips."""
        return _plain(self.total - self.inactive)


def parameters(model: Model) -> Parameters:
    """The parameters of `model`, as its checkpoint holds them."""
    parts, inactive = model.counts()
    return Parameters(MappingProxyType({name: _plain(value) for name, value in parts.items() if value}), inactive)


def _plain(value: Count) -> Count:
    return int(value) if value == int(value) else value


def linear_count(rows: Count, columns: Count, bias: bool) -> Count:
    """Parameters of a linear layer."""
    return rows * columns + (columns if bias else 0)


def ffn_count(d_model: int, inner: int, *, gated: bool, bias: bool) -> Count:
    """Parameters of an FFN: two matrices, or three with a gate."""
    return linear_count(d_model, inner * (2 if gated else 1), bias) + linear_count(inner, d_model, bias)
