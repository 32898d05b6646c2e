"""One LLaMA layer in PyTorch with its attention written out, and the same in our generator."""

from __future__ import annotations

from astrarium.workload.graph import Options, lower_stack
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.stacks import stack_of

B, S, D, HEADS, KV, FFN, V = 2, 64, 128, 8, 4, 352, 512


def layer_of(torch, d=D, heads=HEADS, kv=KV, ffn=FFN):
    """The module, with grouped-query attention."""
    head = d // heads

    def linear(inner, outer):
        return torch.nn.Linear(inner, outer, bias=False)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.wq, self.wk, self.wv = linear(d, d), linear(d, kv * head), linear(d, kv * head)
            self.wo, self.gate, self.up, self.down = linear(d, d), linear(d, ffn), linear(d, ffn), linear(ffn, d)
            self.norm1, self.norm2 = torch.nn.RMSNorm(d), torch.nn.RMSNorm(d)

        def attention(self, h):
            batch, seq = h.shape[:2]
            q, k, v = (w(h).view(batch, seq, -1, head).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
            k, v = (each.repeat_interleave(heads // kv, dim=1) for each in (k, v))
            scores = torch.softmax(q @ k.transpose(2, 3) / head**0.5, dim=-1)
            return self.wo((scores @ v).transpose(1, 2).reshape(batch, seq, -1))

        def forward(self, x):
            r = x + self.attention(self.norm1(x))
            g = self.norm2(r)
            return r + self.down(torch.nn.functional.silu(self.gate(g)) * self.up(g))

    return Layer()


def ours():
    """(forward, backward) FLOPs of matrix products of the same layer in `workload`."""
    model = Decoder(layers=1, d_model=D, heads=HEADS, kv_heads=KV, ffn=FFN, vocab=V, positions="none")
    chosen = Options({}, B, S, attention="unfused")
    block = lower_stack(stack_of(model, chosen), chosen).blocks[1]
    return sum(step.gemm for step in block.forward.steps), sum(step.gemm for step in block.backward.steps)
