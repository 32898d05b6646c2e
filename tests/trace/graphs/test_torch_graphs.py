"""Graphs of PyTorch: FLOPs against its counter and our generator, collectives of meshes, models beyond the machine."""

from __future__ import annotations

import pytest

from astrarium.errors import UnsupportedError
from astrarium.simulate import simulate
from astrarium.trace import check, read_traces, traces_of_bytes
from astrarium.trace.counts import statistics
from astrarium.trace.graphs import compiled_trace, dispatched_trace, export_trace, joint_trace
from astrarium.vocab import CommOp, NodeKind

from .llama import B, D, S, layer_of, ours

torch = pytest.importorskip("torch", reason='graphs of PyTorch need it: pip install "astrarium[torch]"')
pytestmark = [pytest.mark.exam, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def layer():
    with torch.device("meta"):
        return layer_of(torch), torch.empty(B, S, D, requires_grad=True)


def counted(module, x, backward):
    """The rival: FlopCounterMode."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        out = module(x)
        if backward:
            out.sum().backward()
    return counter.get_total_flops()


def good(trace, ranks=1):
    """The trace reads back without errors, with its kind; returns its nodes by id."""
    traces = traces_of_bytes([trace.encode()] * ranks)
    assert [each for each in check(traces) if each.severity == "error"] == []
    found = statistics(traces.classes[0])
    assert found.metadata["kind"] == trace.kind
    assert found.nodes == len(trace.nodes)
    return {node.id: node for node in trace.nodes}


def test_export_before_transformation(layer):
    trace = export_trace(layer[0], layer[1:])
    nodes = good(trace)
    assert trace.kind == "pre"
    assert trace.gemm_flops == counted(*layer, backward=False) == ours()[0]
    named = {node.name: node for node in trace.nodes}
    gate = next(node for node in trace.nodes if node.attr("module") and node.attr("module").value.endswith("gate"))
    assert gate.attr("num_ops").value == 2 * B * S * D * 352
    assert gate.attr("tensor_size").value == 4 * (B * S * D + D * 352 + B * S * 352)
    assert nodes[max(gate.data_deps)].attr("op_type").value in ("aten::rms_norm", "aten::_fused_rms_norm", "aten::mul")
    softmax = next(node for node in named.values() if "softmax" in node.attr("op_type").value)
    assert len(softmax.data_deps) == 1


def test_joint_graph_has_the_backward_pass(layer):
    trace = joint_trace(layer[0], layer[1:])
    good(trace)
    assert trace.kind == "post"
    assert trace.gemm_flops == counted(*layer, backward=True) == sum(ours())


@pytest.mark.parametrize("passes", [False, True])
def test_inductor_after_partitioning(passes):
    """Fake tensors: partitioned graphs have the counter's FLOPs, and backward waits for forward."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with torch.device("meta"):
        expected = counted(layer_of(torch), torch.empty(B, S, D, requires_grad=True), backward=True)
    with FakeTensorMode(allow_non_fake_inputs=True):
        trace = compiled_trace(layer_of(torch), (torch.empty(B, S, D, requires_grad=True),), passes=passes)
    nodes = good(trace)
    assert trace.gemm_flops == expected
    first = next(node for node in trace.nodes if node.name.startswith("backward."))
    assert any(not node.name.startswith("backward.") for node in trace.nodes)
    waits = {parent for node in trace.nodes if node.id >= first.id for parent in node.data_deps if parent < first.id}
    assert waits
    assert all(nodes[parent].id < first.id for parent in waits)


def test_a_model_far_larger_than_the_machine():
    """8 layers of 16,384: 25 billion parameters, 100 GB that nobody has here; 6 N T FLOPs as a closed form."""
    layers, d, ffn, heads, kv, tokens = 8, 16384, 53248, 128, 8, 512
    with torch.device("meta"):
        model = torch.nn.Sequential(*[layer_of(torch, d, heads, kv, ffn) for _ in range(layers)])
        x = torch.empty(1, tokens, d, requires_grad=True)
    weights = sum(p.numel() for p in model.parameters() if p.dim() > 1)
    trace = joint_trace(model, (x,))
    assert weights * 4 > 1e11
    attention = 3 * layers * 2 * 2 * tokens * tokens * d
    assert trace.gemm_flops == 6 * weights * tokens + attention
    assert len(trace.nodes) > layers * 50


@pytest.fixture
def mesh():
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    yield dist.device_mesh.init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    dist.destroy_process_group()


def test_collectives_of_a_mesh(mesh, tmp_path):
    """Tensor parallelism of 4 in a mesh of 2 x 4 that is not there: group and bytes; the trace then runs."""
    from torch.distributed.tensor import parallel as tp

    class Pair(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(64, 256, bias=False), torch.nn.Linear(256, 64, bias=False)

        def forward(self, x):
            return self.b(torch.relu(self.a(x)))

    pair = tp.parallelize_module(Pair(), mesh["tp"], {"a": tp.ColwiseParallel(), "b": tp.RowwiseParallel()})
    trace = compiled_trace(pair, (torch.randn(16, 64, requires_grad=True),))
    good(trace, 4)
    colls = [node for node in trace.nodes if node.type == NodeKind.COMM_COLL]
    assert list(trace.groups.values()) == [(0, 1, 2, 3)]
    # forward: the sum of b's partial results; backward: the gradient of a's input
    assert [(node.attr("comm_type").value, node.attr("comm_size").value) for node in colls] == [(0, 16 * 64 * 4)] * 2
    assert trace.gemm_flops == 6 * 16 * 64 * 256 * 2 // 4
    trace.write(tmp_path / "tp", 4)
    from astrarium.design import load_design

    (tmp_path / "d.yaml").write_text("""
workload: {source: trace, path: tp.*.et}
compute: {model: roofline, peak: 10 TFLOP/s}
memory: {bandwidth: 1 TB/s}
network: {dims: [{shape: ring, npus: 4, bandwidth: 10 GB/s, latency: 1 us}]}
""")
    result = simulate(load_design(tmp_path / "d.yaml"))
    assert result.makespan > 0
    assert read_traces(tmp_path / "tp").ranks == 4


@pytest.mark.parametrize("again", [False, True])
def test_fsdp_on_a_fake_process_group(mesh, again):
    """FSDP2 over dp, a step with its optimizer: gathers of the parts forward (and again backward), scatters of whole
    gradients; the counter's FLOPs."""
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Sequential(torch.nn.Linear(64, 256, bias=False), torch.nn.Linear(256, 64, bias=False))
    for part in model:
        fully_shard(part, mesh=mesh["dp"], reshard_after_forward=again)
    fully_shard(model, mesh=mesh["dp"], reshard_after_forward=again)
    optimizer, x = torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(16, 64)

    def step():
        model(x).sum().backward()
        optimizer.step()

    trace = dispatched_trace(step)
    nodes = {node.id: node for node in trace.nodes}
    colls = [(CommOp(node.attr("comm_type").value).name, node.attr("comm_size").value)
             for node in trace.nodes if node.type == NodeKind.COMM_COLL]
    weight = 64 * 256 * 4
    gathers = [("ALL_GATHER", weight // 2)] * (4 if again else 2)
    assert sorted(colls) == [*gathers, ("REDUCE_SCATTER", weight), ("REDUCE_SCATTER", weight)]
    assert list(trace.groups.values()) == [(0, 4)]
    assert trace.gemm_flops == (2 + 3) * 2 * 16 * 64 * 256      # the first layer's input needs no gradient
    first = next(node for node in trace.nodes if "mm" in node.name)
    assert any(nodes[parent].type == NodeKind.COMM_COLL for parent in ancestors(nodes, first))


@pytest.mark.parametrize("where", ["meta", "fake"])
def test_dispatch_without_memory(where):
    """A layer on `meta` and under FakeTensorMode: the counter's FLOPs, and every backward product waits for forward."""
    import contextlib

    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode() if where == "fake" else contextlib.nullcontext()
    with mode, torch.device("meta" if where == "meta" else "cpu"):
        layer, x = layer_of(torch), torch.empty(B, S, D, requires_grad=True)
        trace = dispatched_trace(lambda: layer(x).sum().backward())
    nodes = good(trace)
    assert trace.gemm_flops == sum(ours())
    last = [node for node in trace.nodes if "mm" in node.name][-1]
    assert len(ancestors(nodes, last)) > 20


def ancestors(nodes, node):
    """Everything that a node waits for, however far back."""
    found, left = set(), list(node.data_deps)
    while left:
        parent = left.pop()
        if parent not in found:
            found.add(parent)
            left += nodes[parent].data_deps
    return found


def test_control_flow_is_refused_by_name():
    class Choice(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))

    with pytest.raises(UnsupportedError, match="cond"):
        export_trace(Choice(), (torch.randn(3),))
