"""Write the quick start's traces: one transformer layer, forward, backward and optimiser, for 32 ranks on 4 DGX H100.

Shapes are those of llama-3-70b (Meta, "The Llama 3 Herd of Models", table 3); tensor parallel as in Megatron-LM
(Shoeybi et al. 2019: two all-reduces forward, two backward), data parallel with one gradient all-reduce per block,
mixed-precision Adam (12 bytes of fp32 state per parameter). Matrix products count 2 flops per multiply-add; causal
attention half of the square, and 2.5 times its forward work backward (FlashAttention-2, Dao 2023).

    python examples/quickstart/make_trace.py            writes traces/layer.RANK.et and groups.json beside this file
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from astrarium import CommOp, NodeKind
from astrarium.trace import TraceBuilder, attribute

HIDDEN, FFN, HEADS, KV_HEADS, HEAD = 8192, 28672, 64, 8, 128
SEQUENCE, BATCH = 4096, 4                # tokens per sequence, sequences per data-parallel rank
TP, DP = 8, 4
BYTES, ADAM_BYTES = 2, 12                # bf16; fp32 master weight and two moments

TOKENS = SEQUENCE * BATCH
ACTIVATION = TOKENS * HIDDEN * BYTES     # the residual stream, whole on every tensor-parallel rank
QKV = (HEADS + 2 * KV_HEADS) * HEAD      # columns of the fused projection

PARAMETERS = {                           # of one rank
    "w_qkv": HIDDEN * QKV // TP,
    "w_out": HIDDEN * HIDDEN // TP,
    "w_gate_up": HIDDEN * 2 * FFN // TP,
    "w_down": FFN * HIDDEN // TP,
}
SIZES = {                                # bytes of every other tensor of one rank
    **dict.fromkeys(("x", "n1", "attn", "r1", "n2", "mlp", "y", "dy", "dn2", "dr1", "dn1", "dx"), ACTIVATION),
    **dict.fromkeys(("qkv", "dqkv"), TOKENS * QKV // TP * BYTES),
    **dict.fromkeys(("ctx", "dctx"), ACTIVATION // TP),
    **dict.fromkeys(("gate_up", "dgate_up"), TOKENS * 2 * FFN // TP * BYTES),
    **dict.fromkeys(("act", "dact"), TOKENS * FFN // TP * BYTES),
    **{name: n * BYTES for name, n in PARAMETERS.items()},
    **{f"g_{name[2:]}": n * BYTES for name, n in PARAMETERS.items()},
    **{f"adam_{name[2:]}": n * ADAM_BYTES for name, n in PARAMETERS.items()},
}
FLOPS_QKV, FLOPS_OUT, FLOPS_GATE_UP, FLOPS_DOWN = (2 * TOKENS * n for n in PARAMETERS.values())
FLOPS_ATTENTION = 2 * 2 * TOKENS * SEQUENCE * HIDDEN // TP // 2


@dataclass
class Layer:
    """Adds the nodes of one rank to `trace`; a method returns the node id, which later nodes take in `after`."""

    trace: TraceBuilder
    tp_group: str
    dp_group: str

    def compute(self, name: str, flops: int, reads: str, writes: str, *after: int) -> int:
        """One kernel; `reads` and `writes` are tensor names, which give its memory traffic and the memory in use."""
        tensors = (reads.split(), writes.split())
        traffic = sum(SIZES[tensor] for names in tensors for tensor in names)
        inputs, outputs = ([text for tensor in names for text in (tensor, str(SIZES[tensor]))] for names in tensors)
        attrs = [attribute("is_cpu_op", False), attribute("num_ops", flops), attribute("tensor_size", traffic),
                 attribute("inputs", inputs, "string_list"), attribute("outputs", outputs, "string_list")]
        return self.trace.node(NodeKind.COMP, name, attrs, after=after)

    def all_reduce(self, name: str, size: int, group: str, *after: int) -> int:
        """All-reduce of `size` bytes per rank over `group`."""
        return self.trace.coll(name, CommOp.ALL_REDUCE, size, group=group, after=after)

    def forward(self) -> int:
        """Attention block, then feed-forward block; returns the last node."""
        last = self.compute("attn_norm", 4 * TOKENS * HIDDEN, "x", "n1")
        last = self.compute("qkv", FLOPS_QKV, "n1 w_qkv", "qkv", last)
        last = self.compute("attention", FLOPS_ATTENTION, "qkv", "ctx", last)
        last = self.compute("attn_out", FLOPS_OUT, "ctx w_out", "attn", last)
        last = self.all_reduce("attn_out_all_reduce", ACTIVATION, self.tp_group, last)
        last = self.compute("mlp_norm", 5 * TOKENS * HIDDEN, "x attn", "r1 n2", last)
        last = self.compute("gate_up", FLOPS_GATE_UP, "n2 w_gate_up", "gate_up", last)
        last = self.compute("swiglu", 5 * TOKENS * FFN // TP, "gate_up", "act", last)
        last = self.compute("down", FLOPS_DOWN, "act w_down", "mlp", last)
        last = self.all_reduce("down_all_reduce", ACTIVATION, self.tp_group, last)
        return self.compute("residual", TOKENS * HIDDEN, "r1 mlp", "y", last)

    def backward_mlp(self, last: int) -> tuple[int, int]:
        """Feed-forward block; its gradients travel while the attention block computes. Returns (last, gradients)."""
        last = self.compute("down_grad", 2 * FLOPS_DOWN, "dy act w_down", "dact g_down", last)
        last = self.compute("swiglu_grad", 8 * TOKENS * FFN // TP, "dact gate_up", "dgate_up", last)
        last = self.compute("gate_up_grad", 2 * FLOPS_GATE_UP, "dgate_up n2 w_gate_up", "dn2 g_gate_up", last)
        tensor_parallel = self.all_reduce("gate_up_grad_all_reduce", ACTIVATION, self.tp_group, last)
        gradients = self.all_reduce("mlp_gradients", SIZES["g_down"] + SIZES["g_gate_up"], self.dp_group, last)
        return self.compute("mlp_norm_grad", 8 * TOKENS * HIDDEN, "dn2 r1 dy", "dr1", tensor_parallel), gradients

    def backward_attention(self, last: int) -> tuple[int, int]:
        """Attention block. Returns (last, gradients)."""
        last = self.compute("attn_out_grad", 2 * FLOPS_OUT, "dr1 ctx w_out", "dctx g_out", last)
        last = self.compute("attention_grad", FLOPS_ATTENTION * 5 // 2, "dctx qkv", "dqkv", last)
        last = self.compute("qkv_grad", 2 * FLOPS_QKV, "dqkv n1 w_qkv", "dn1 g_qkv", last)
        tensor_parallel = self.all_reduce("qkv_grad_all_reduce", ACTIVATION, self.tp_group, last)
        gradients = self.all_reduce("attention_gradients", SIZES["g_out"] + SIZES["g_qkv"], self.dp_group, last)
        return self.compute("attn_norm_grad", 8 * TOKENS * HIDDEN, "dn1 x dr1", "dx", tensor_parallel), gradients

    def optimiser(self, *after: int) -> None:
        """Adam, 12 flops per parameter; it waits for every gradient, because clipping needs the norm of all."""
        reads = " ".join(f"g_{name[2:]} adam_{name[2:]} {name}" for name in PARAMETERS)
        self.compute("adam", 12 * sum(PARAMETERS.values()), reads, "", *after)


def rank_trace(rank: int) -> TraceBuilder:
    """The trace of one rank: tensor parallel is innermost (a DGX), data parallel outermost."""
    layer = Layer(TraceBuilder(), tp_group=str(1 + rank // TP), dp_group=str(1 + DP + rank % TP))
    last = layer.forward()
    last = layer.compute("output_grad", TOKENS * HIDDEN, "y", "dy", last)
    last, mlp_gradients = layer.backward_mlp(last)
    layer.optimiser(*layer.backward_attention(last), mlp_gradients)
    return layer.trace


def groups() -> dict[str, list[int]]:
    """Group name -> ranks, as ASTRA-sim's --comm-group-configuration reads it."""
    tensor = {str(1 + d): [d * TP + t for t in range(TP)] for d in range(DP)}
    data = {str(1 + DP + t): [d * TP + t for d in range(DP)] for t in range(TP)}
    return tensor | data


def main() -> None:
    """Write the traces and the groups."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=here, help="folder to write into (default: this one)")
    out = parser.parse_args().out
    (out / "traces").mkdir(parents=True, exist_ok=True)
    for rank in range(TP * DP):
        rank_trace(rank).write(out / "traces" / f"layer.{rank}.et", compress=True)
    lines = ",\n".join(f'  "{name}": {json.dumps(ranks)}' for name, ranks in groups().items())
    (out / "groups.json").write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
