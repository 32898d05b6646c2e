"""What JAX itself writes: FLOPs against XLA's cost analysis and a closed form, collectives of `shard_map`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from astrarium.trace import check, traces_of_bytes
from astrarium.trace.graphs import stablehlo_text
from astrarium.vocab import CommOp

pytest.importorskip("jax", reason="the rival is JAX: pip install jax")
pytestmark = pytest.mark.exam

SCRIPT = """
import json, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
a = [jnp.zeros(s, jnp.float32) for s in ((64, 256), (256, 32), (8, 64))]
def loss(w1, w2, x):
    return jnp.sum(jax.nn.softmax(jax.nn.gelu(x @ w1) @ w2) ** 2)
one = jax.jit(jax.value_and_grad(loss, argnums=(0, 1))).lower(*a)
def part(w1, w2, x):
    y = jax.lax.psum(jax.nn.relu(x @ w1) @ w2, "tp")
    z = jax.lax.psum_scatter(jax.lax.all_gather(y, "dp"), "dp")
    r = jax.lax.ppermute(z, "tp", [(0, 1), (1, 0)])
    return jax.lax.all_to_all(r.reshape(2, -1), "tp", 0, 0)
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("dp", "tp"))
four = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=(P(None, "tp"), P("tp", None), P("dp", None)),
                             out_specs=P(("dp", "tp")), check_vma=False)).lower(*a)
stack = jnp.zeros((5, 64, 64))
def deep(ws, x):
    return jnp.sum(jax.lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, ws)[0] ** 2)
loop = jax.jit(jax.grad(deep)).lower(stack, a[2]).as_text()
print(json.dumps({"loop": loop, "one": one.as_text(), "flops": one.cost_analysis()["flops"], "four": four.as_text()}))
"""


@pytest.fixture(scope="module")
def lowered():
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    found = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-2000:]
    return json.loads(found.stdout.splitlines()[-1])


def test_flops(lowered):
    """Forward, both weights' gradients and the hidden layer's: 3 x forward without the input's gradient."""
    trace = stablehlo_text(lowered["one"])
    assert trace.gemm_flops == 2 * 8 * (64 * 256 + 256 * 32) * 3 - 2 * 8 * 64 * 256
    assert trace.gemm_flops + trace.other_flops == pytest.approx(lowered["flops"], rel=0.02)


def test_a_scan_is_unrolled_forward_and_backward(lowered):
    """5 layers of (8, 64) x (64, 64): 3 products each; XLA's own analysis counts a loop's body once."""
    trace = stablehlo_text(lowered["loop"])
    assert trace.gemm_flops == 5 * 3 * 2 * 8 * 64 * 64
    sliced = sum(node.attr("tensor_size").value for node in trace.nodes if "slice" in node.attr("op_type").value)
    assert sliced < 5 * 20 * 4 * 64 * 64     # parts, not the stack in every turn
    assert check(traces_of_bytes([trace.encode()])) == []


def test_collectives(lowered):
    traces = [stablehlo_text(lowered["four"], rank=rank) for rank in range(4)]
    assert check(traces_of_bytes([trace.encode() for trace in traces])) == []
    colls = [(node.attr("comm_type").value, node.attr("comm_size").value, traces[2].groups[node.attr("pg_name").value])
             for node in traces[2].nodes if node.attr("comm_type")]
    assert colls == [(CommOp.ALL_REDUCE, 512, (2, 3)), (CommOp.ALL_GATHER, 512, (0, 2)),
                     (CommOp.REDUCE_SCATTER, 1024, (0, 2)), (CommOp.ALL_TO_ALL, 512, (2, 3))]
    assert traces[2].gemm_flops == (2 * 4 * 64 * 128 + 2 * 4 * 128 * 32)
