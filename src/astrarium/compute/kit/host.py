"""Host time of an operator of eager PyTorch: a decoder so small that the device waits for the host."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

__all__ = ["LAYERS", "host_ns"]

LAYERS = 16
HIDDEN, FFN, HEADS, LENGTH, VOCAB = 64, 128, 4, 32, 256
STEPS, WARM = 7, 3


class Layer:
    """Weights of a decoder layer with separate q, k, v, gate and up (Llama's), in bf16."""

    def __init__(self, torch: Any, device: str) -> None:
        def weight(*shape: int) -> Any:
            return (torch.randn(shape, device=device) * 0.02).to(torch.bfloat16).requires_grad_()

        self.norms = [weight(HIDDEN) for _ in range(2)]
        self.qkvo = [weight(HIDDEN, HIDDEN) for _ in range(4)]
        self.gate, self.up, self.down = weight(FFN, HIDDEN), weight(FFN, HIDDEN), weight(HIDDEN, FFN)

    @property
    def weights(self) -> list[Any]:
        return [*self.norms, *self.qkvo, self.gate, self.up, self.down]

    def __call__(self, torch: Any, one: Any, cos: Any, sin: Any) -> Any:
        functional = torch.nn.functional
        normed = functional.rms_norm(one, (HIDDEN,), self.norms[0])
        query, key, value = (functional.linear(normed, weight).view(1, LENGTH, HEADS, -1).transpose(1, 2)
                             for weight in self.qkvo[:3])
        query, key = (_turned(torch, each, cos, sin) for each in (query, key))
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        one = one + functional.linear(seen.transpose(1, 2).reshape(1, LENGTH, HIDDEN), self.qkvo[3])
        normed = functional.rms_norm(one, (HIDDEN,), self.norms[1])
        gated = functional.silu(functional.linear(normed, self.gate)) * functional.linear(normed, self.up)
        return one + functional.linear(gated, self.down)


def _turned(torch: Any, one: Any, cos: Any, sin: Any) -> Any:
    """A rotary position of halves."""
    low, high = one.chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


def host_ns(torch: Any, device: str) -> float:
    """Median ns of the host until it has launched a training step: forward, backward, fused AdamW. Divide by the
    step's operators."""
    layers = [Layer(torch, device) for _ in range(LAYERS)]
    table = (torch.randn(VOCAB, HIDDEN, device=device) * 0.02).to(torch.bfloat16).requires_grad_()
    last = torch.ones(HIDDEN, device=device, dtype=torch.bfloat16, requires_grad=True)
    cos, sin = (torch.randn(LENGTH, HIDDEN // HEADS // 2, device=device).to(torch.bfloat16) for _ in range(2))
    tokens = torch.randint(VOCAB, (1, LENGTH), device=device)
    weights = [table, last, *(weight for layer in layers for weight in layer.weights)]
    optimizer = torch.optim.AdamW(weights, fused=device == "cuda")
    functional, times = torch.nn.functional, list[int]()
    for _ in range(WARM + STEPS):
        start = time.perf_counter_ns()
        one = functional.embedding(tokens, table)
        for layer in layers:
            one = layer(torch, one, cos, sin)
        logits = functional.linear(functional.rms_norm(one, (HIDDEN,), last), table)
        functional.cross_entropy(logits.float().view(-1, VOCAB), tokens.view(-1)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append(time.perf_counter_ns() - start)
        if device == "cuda":
            torch.cuda.synchronize()
    return float(np.median(times[WARM:]))
