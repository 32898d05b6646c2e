"""The rival: the same decoder layer in PyTorch. FLOPs by its counter, collectives by its own DTensor and FSDP."""

from __future__ import annotations

import numpy as np
import pytest

import astrarium as ar
from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.generate import generate
from astrarium.workload.graph import Options, lower_stack
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.stacks import stack_of

torch = pytest.importorskip("torch", reason="the rival needs PyTorch: pip install torch")
pytestmark = [pytest.mark.exam, pytest.mark.filterwarnings("ignore")]
B, S, D, HEADS, KV, FFN_SIZE, V = 2, 64, 128, 8, 4, 352, 512
HEAD = D // HEADS


def linear(inner, outer):
    return torch.nn.Linear(inner, outer, bias=False)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv = linear(D, HEADS * HEAD), linear(D, KV * HEAD), linear(D, KV * HEAD)
        self.wo = linear(HEADS * HEAD, D)

    def forward(self, h):
        q, k, v = self.wq(h), self.wk(h), self.wv(h)
        batch, seq = q.shape[:2]
        q, k, v = (each.view(batch, seq, -1, HEAD).transpose(1, 2) for each in (q, k, v))
        k, v = (each.repeat_interleave(HEADS // KV, dim=1) for each in (k, v))
        scores = torch.softmax(q @ k.transpose(2, 3) / HEAD**0.5, dim=-1)
        return self.wo((scores @ v).transpose(1, 2).reshape(batch, seq, -1))


class FFN(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.gate, self.up, self.down = linear(D, inner), linear(D, inner), linear(inner, D)

    def forward(self, g):
        return self.down(torch.nn.functional.silu(self.gate(g)) * self.up(g))


class Layer(torch.nn.Module):
    """One LLaMA layer with the attention written out."""

    def __init__(self, inner=FFN_SIZE):
        super().__init__()
        self.attention, self.ffn = Attention(), FFN(inner)
        self.norm1, self.norm2 = torch.nn.RMSNorm(D), torch.nn.RMSNorm(D)

    def forward(self, x):
        r = x + self.attention(self.norm1(x))
        return r + self.ffn(self.norm2(r))


def ours(degrees=None, **options):
    model = Decoder(layers=1, d_model=D, heads=HEADS, kv_heads=KV, ffn=FFN_SIZE, vocab=V, positions="none")
    chosen = Options(degrees or {}, B, S, attention="unfused", widths={
        "weights": 4, "activations": 4, "gradients": 4, "state": 4, "stats": 4, "mask": 1, "index": 8}, **options)
    return lower_stack(stack_of(model, chosen), chosen).blocks[1]


def steps(block):
    return [step for piece in (block.forward, block.backward) for step in piece.steps]


def test_flops_of_a_layer():
    """FlopCounterMode over forward and backward on the meta device."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        layer, x = Layer(), torch.empty(B, S, D, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        layer(x).sum().backward()
    assert counter.get_total_flops() == sum(step.gemm for step in steps(ours()))


@pytest.fixture
def world():
    """Four ranks that are not there: collectives are issued, and do nothing."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield dist.device_mesh.init_device_mesh("cpu", (4,))
    dist.destroy_process_group()


def recorded(run):
    """(operation, bytes as Chakra counts them) of every functional collective that `run` issues, sorted."""
    from torch.utils._python_dispatch import TorchDispatchMode

    names = {"all_reduce": CommOp.ALL_REDUCE, "all_gather_into_tensor": CommOp.ALL_GATHER,
             "reduce_scatter_tensor": CommOp.REDUCE_SCATTER, "allreduce_": CommOp.ALL_REDUCE,
             "_allgather_base_": CommOp.ALL_GATHER, "_reduce_scatter_base_": CommOp.REDUCE_SCATTER}
    found = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name = func._schema.name.rpartition("::")[2]
            if name in names and "c10d" in func._schema.name:
                source = args[1] if name.startswith("_") else args[0]
                found.append((names[name], source.numel() * source.element_size()))
            return func(*args, **(kwargs or {}))

    with Recorder():
        run()
    return sorted(found)


def summed_in_backward(h, placements):
    """`h`, whose gradient is brought to `placements` before it flows on; else DTensor may leave it partial longer."""

    class Boundary(torch.autograd.Function):
        @staticmethod
        def forward(ctx, given):
            return given.view_as(given)

        @staticmethod
        def backward(ctx, gradient):
            return gradient.redistribute(placements=placements)

    return Boundary.apply(h)


def collectives(block, axis):
    """Without the gathers that backward repeats where only the shard was kept (Megatron does so, DTensor keeps all)."""
    again = {f"layer.{tensor}.all_gather" for tensor in "hg"}
    chosen = [*block.forward.steps, *(step for step in block.backward.steps if step.name not in again)]
    return sorted((step.op, step.bytes) for step in chosen if step.kind == NodeKind.COMM_COLL and axis in step.axes)


@pytest.mark.parametrize("sequence", [False, True])
def test_tensor_parallel_collectives(world, sequence):
    """parallelize_module with the plan of PyTorch's tensor-parallel tutorial, with and without SequenceParallel."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor import parallel as tp

    layer, outside = Layer(), Shard(1) if sequence else Replicate()
    columns = ("attention.wq", "attention.wk", "attention.wv", "ffn.gate", "ffn.up")
    plan = {name: tp.ColwiseParallel() for name in columns}
    plan |= {name: tp.RowwiseParallel(output_layouts=outside, use_local_output=False)
             for name in ("attention.wo", "ffn.down")}
    plan |= {name: tp.PrepareModuleInput(input_layouts=(outside,), desired_input_layouts=(Replicate(),))
             for name in ("attention", "ffn")}
    plan |= {name: tp.SequenceParallel(use_local_output=False) for name in ("norm1", "norm2") if sequence}
    tp.parallelize_module(layer, world, plan)
    if not sequence:
        for name in ("norm1", "norm2"):
            norm = getattr(layer, name)
            norm.weight = torch.nn.Parameter(distribute_tensor(norm.weight, world, [Replicate()]))
            norm.register_forward_hook(lambda _module, _inputs, h: summed_in_backward(h, [Replicate()]))
    x = distribute_tensor(torch.zeros(B, S, D), world, [outside]).requires_grad_()
    # The loss's own sum, and the gradients of norms (D elements; `Weight.replicas` here), are not the layer's steps.
    got = [each for each in recorded(lambda: layer(x).backward(torch.zeros_like(x))) if each[1] > 4 * D]
    assert got == collectives(ours({"tp": 4}, tp_sequence=sequence), "tp")


class Language(torch.nn.Module):
    """Embedding, three layers, final norm and head; each is between 1 and 2 MB, so each fills a bucket of 1 MB."""

    def __init__(self):
        super().__init__()
        self.embedding, self.norm, self.head = torch.nn.Embedding(2048, D), torch.nn.RMSNorm(D), linear(D, 2048)
        self.layers = torch.nn.ModuleList(Layer(1024) for _ in range(3))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


@pytest.mark.parametrize("batches", [1, 2])
def test_fully_sharded_data_parallelism(world, batches):
    """FSDP2's collectives of `batches` micro-batches, one by one. It gathers the embedding again for backward, which
    needs no weights; here that is left out."""
    from torch.distributed.fsdp import fully_shard

    module = Language()
    for unit in (*module.layers, module.embedding, [module.norm, module.head]):
        fully_shard(unit, mesh=world, reshard_after_forward=True)
    fully_shard(module, mesh=world)
    got = recorded(lambda: [module(torch.zeros(B, S, dtype=torch.long)).sum().backward() for _ in range(batches)])
    model = ar.Decoder(layers=3, d_model=D, heads=HEADS, kv_heads=KV, ffn=1024, vocab=2048, positions="none", seq=S)
    made = generate(ar.Transformer(
        model, global_batch=4 * B * batches, micro_batch=B, dp=4, zero=3, bucket="1 MB", clip=False,
        precision=ar.Precision(weights="fp32", gradients="fp32", activations="fp32"))).classes[0]
    nodes = np.flatnonzero(made.type == NodeKind.COMM_COLL)
    ours = [(CommOp(made.comm_type[node]), int(made.comm_size[node])) for node in nodes]
    assert got == sorted(ours + [(CommOp.ALL_GATHER, 2048 * D * 4 // 4)] * batches)
