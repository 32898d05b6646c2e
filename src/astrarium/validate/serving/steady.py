"""An engine under a closed loop, in closed form: mean times of tokens and of first tokens."""

from __future__ import annotations

from msgspec import Struct

from astrarium.validate.serving.deployment import Deployment
from astrarium.validate.serving.times import Steps
from astrarium.workload.graph.packed import Sequences

__all__ = ["Figures", "together"]

WAVES = 10      # requests asked for, per request in flight
MOST_TOKENS, ROUNDS = 8192, 12


class Figures(Struct, frozen=True):
    """Means over requests in ms; `rate`: output tokens per second and NPU."""

    ttft: float
    tpot: float
    rate: float


def together(meant: Deployment, steps: Steps, most_tokens: int = MOST_TOKENS) -> Figures:
    """One engine that prefills and decodes. While a request decodes, every other one ends once and its successor's
    prompt is prefilled, in steps of at most `most_tokens` tokens."""
    batch = max(1, -(-meant.concurrency // meant.layout.dp))
    prompt, output = round(meant.prompt.mean), meant.output.mean
    past = prompt + round(output / 2)
    plain = steps.of(Sequences(batch, 1, past))
    chunks = _prefill(steps, prompt, most_tokens, Sequences(batch - 1, 1, past))
    spent = chunks - plain * -(-prompt // most_tokens)
    tpot = plain + spent * (batch - 1) / output
    ttft = plain / 2 + chunks + spent * (batch - 1) * (0.5 / WAVES + 1 / output)
    return _figures(meant, ttft, tpot)


def apart(meant: Deployment, front: Steps, back: Steps, most_tokens: int = MOST_TOKENS) -> Figures:
    """Engines that prefill one prompt at a time per attention replica, and others that decode. Requests flow at the
    rate of the slower side; those in flight that do not decode wait for prefill."""
    assert meant.prefill is not None
    layout, workers = meant.prefill
    prompt, output = round(meant.prompt.mean), meant.output.mean
    past = prompt + round(output / 2)
    spent = _prefill(front, prompt, most_tokens)
    ready, servers = spent / (workers * layout.dp), meant.engines * meant.layout.dp
    decoding = float(meant.concurrency)
    for _ in range(ROUNDS):
        tpot = back.of(Sequences(max(1, round(decoding / servers)), 1, past))
        gap = max(ready, (spent + output * tpot) / meant.concurrency)
        decoding = min(meant.concurrency, output * tpot / gap)
    return _figures(meant, max(spent, meant.concurrency * gap - output * tpot), tpot)


def _prefill(steps: Steps, prompt: int, most_tokens: int, others: Sequences | None = None) -> float:
    """Milliseconds of a prompt's chunks, with `others` in every step."""
    spent = 0.0
    for start in range(0, prompt, most_tokens):
        size = min(most_tokens, prompt - start)
        mine = Sequences(1, size, start, int(start + size == prompt))
        spent += steps.of(others, mine) if others is not None else steps.of(mine)
    return spent


def _figures(meant: Deployment, ttft: float, tpot: float) -> Figures:
    output = meant.output.mean
    seconds = (ttft + tpot * (output - 1)) / 1e3
    return Figures(ttft, tpot, meant.concurrency * output / seconds / meant.npus)
