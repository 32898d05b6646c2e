"""Speculative decoding: its closed form (Leviathan, Kalman, Matias, arXiv 2211.17192), and what a draft runs."""

from __future__ import annotations

from astrarium.errors import InputError
from astrarium.workload.graph.packed import Sequences

__all__ = ["expected_tokens", "guessing", "improvement"]


def expected_tokens(acceptance: float, tokens: int) -> float:
    """Tokens that one verification yields on average: (1 - a^(k + 1)) / (1 - a), its equation 1.

    `acceptance` a in [0, 1], of each of `tokens` k guesses, independent of each other. At a = 1: k + 1.
    """
    if not 0 <= acceptance <= 1 or tokens < 1:
        raise InputError("speculation", f"acceptance {acceptance:g} of {tokens} tokens",
                         expected="an acceptance of 0 to 1, of at least 1 token")
    if acceptance == 1:
        return float(tokens + 1)
    return (1 - acceptance**(tokens + 1)) / (1 - acceptance)


def improvement(acceptance: float, tokens: int, cost: float) -> float:
    """How many times faster decoding is: expected tokens / (k c + 1), its theorem 3.8; `cost` c: time of a draft step
    over that of a step of the model, where verifying k + 1 tokens takes as long as one."""
    return expected_tokens(acceptance, tokens) / (tokens * cost + 1)


def guessing(count: int, past: int, guess: int, tokens: int, *, module: bool) -> Sequences:
    """What a draft runs for its guess number `guess` (from 0) of `tokens`, for sequences with `past` tokens.

    A module for multi-token prediction takes the model's hidden states, so for its first guess it runs all positions
    that the model has just verified (and gives logits of all, of which it needs the last).
    """
    if module and not guess:
        return Sequences(count, tokens + 1, past, tokens + 1)
    return Sequences(count, 1, past + guess)
