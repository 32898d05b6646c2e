"""StableHLO text: FLOPs and bytes in closed form, groups of collectives, and refusals by name."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astrarium.errors import AstrariumError, InputError, UnsupportedError
from astrarium.trace import check, traces_of_bytes
from astrarium.trace.graphs import stablehlo_text
from astrarium.vocab import CommOp, NodeKind

MLP = """
module @jit_step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x64xf32> {jax.buffer = "x}"}, %arg1: tensor<64x256xbf16>)\
 -> (tensor<8x256xf32> {jax.result_info = ""}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.convert %arg1 : (tensor<64x256xbf16>) -> tensor<64x256xf32> loc(#loc3)
    %1 = stablehlo.dot_general %arg0, %0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] :\
 (tensor<8x64xf32>, tensor<64x256xf32>) -> tensor<8x256xf32>
    %2 = call @relu(%1) : (tensor<8x256xf32>) -> tensor<8x256xf32>
    %3 = stablehlo.reduce(%2 init: %cst) applies stablehlo.add across dimensions = [1] :\
 (tensor<8x256xf32>, tensor<f32>) -> tensor<8xf32>
    %4 = "stablehlo.all_reduce"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,\
 replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %9 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }) : (tensor<8x256xf32>) -> tensor<8x256xf32>
    %5 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<8xf32>) -> tensor<8x256xf32>
    %6 = stablehlo.add %4, %5 : tensor<8x256xf32>
    return %6 : tensor<8x256xf32>
  }
  func.func private @relu(%arg0: tensor<8x256xf32>) -> tensor<8x256xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x256xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<8x256xf32>
    return %1 : tensor<8x256xf32>
  }
}
"""


LOOP = """%c = stablehlo.constant dense<0> : tensor<i32>
%r:3 = stablehlo.while(%i = %c, %w = %arg1, %x = %arg0) : tensor<i32>, tensor<3x16x16xf32>, tensor<8x16xf32>
cond {
  %c_1 = stablehlo.constant dense<3> : tensor<i32>
  %1 = stablehlo.compare LT, %i, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %1 : tensor<i1>
} do {
  %c_1 = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.dynamic_slice %w, %i, %c_1, %c_1, sizes = [1, 16, 16] : (tensor<3x16x16xf32>, tensor<i32>,\
 tensor<i32>, tensor<i32>) -> tensor<1x16x16xf32>
  %2 = stablehlo.reshape %1 : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
  %3 = stablehlo.dot_general %x, %2, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x16xf32>) ->\
 tensor<8x16xf32>
  %4:2 = "stablehlo.while"(%c_1, %3) ({
  ^bb0(%j: tensor<i32>, %y: tensor<8x16xf32>):
    %5 = stablehlo.compare LT, %j, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %5 : tensor<i1>
  }, {
  ^bb0(%j: tensor<i32>, %y: tensor<8x16xf32>):
    %c_2 = stablehlo.constant dense<1> : tensor<i32>
    %5 = stablehlo.add %j, %c_2 : tensor<i32>
    %6 = stablehlo.tanh %y : tensor<8x16xf32>
    stablehlo.return %5, %6 : tensor<i32>, tensor<8x16xf32>
  }) : (tensor<i32>, tensor<8x16xf32>) -> (tensor<i32>, tensor<8x16xf32>)
  %c_3 = stablehlo.constant dense<1> : tensor<i32>
  %7 = stablehlo.add %i, %c_3 : tensor<i32>
  stablehlo.return %7, %w, %4#1 : tensor<i32>, tensor<3x16x16xf32>, tensor<8x16xf32>
}"""


def body(*lines: str, arguments: str = "%arg0: tensor<8x16xf32>") -> str:
    inside = "\n".join(f"    {line}" for line in lines)
    return f"module {{\n  func.func public @main({arguments}) -> tensor<f32> {{\n{inside}\n    return %0\n  }}\n}}\n"


def test_a_step_with_a_call_a_reduction_and_a_group():
    trace = stablehlo_text(MLP, rank=3)
    files = [stablehlo_text(MLP, rank=rank).encode() for rank in range(4)]
    assert [finding for finding in check(traces_of_bytes(files)) if finding.severity == "error"] == []
    assert trace.kind == "post"
    assert trace.gemm_flops == 2 * 8 * 64 * 256
    # convert, maximum, reduce (per element read), add; movements have none
    assert trace.other_flops == 64 * 256 + 8 * 256 + 8 * 256 + 8 * 256
    by_op = {node.attr("op_type").value: node for node in trace.nodes if node.attr("op_type")}
    dot, reduced = by_op["stablehlo.dot_general"], by_op["stablehlo.all_reduce"]
    assert dot.attr("tensor_size").value == 4 * (8 * 64 + 64 * 256 + 8 * 256)
    assert dot.data_deps == (by_op["stablehlo.convert"].id,)
    assert by_op["stablehlo.maximum"].data_deps[0] == dot.id
    assert reduced.data_deps == (by_op["stablehlo.maximum"].id,)
    assert (reduced.attr("comm_type").value, reduced.attr("comm_size").value) == (CommOp.ALL_REDUCE, 8 * 256 * 4)
    assert trace.groups[reduced.attr("pg_name").value] == (2, 3)
    assert reduced.id in by_op["stablehlo.add"].data_deps


@pytest.mark.parametrize(("word", "attributes", "op", "size"), [
    ("all_gather", "all_gather_dim = 0 : i64", CommOp.ALL_GATHER, 8 * 16 * 4),
    ("reduce_scatter", "scatter_dimension = 0 : i64", CommOp.REDUCE_SCATTER, 8 * 16 * 4),
    ("all_to_all", "concat_dimension = 0 : i64, split_count = 4 : i64", CommOp.ALL_TO_ALL, 8 * 16 * 4),
    ("collective_broadcast", "", CommOp.BROADCAST, 8 * 16 * 4)])
def test_collectives(word, attributes, op, size):
    groups = "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>"
    given_ = ", ".join(each for each in (attributes, groups) if each)
    text = body(f'%0 = "stablehlo.{word}"(%arg0) <{{{given_}}}> : (tensor<8x16xf32>) -> tensor<32x16xf32>')
    node, = stablehlo_text(text).nodes
    assert (node.attr("comm_type").value, node.attr("comm_size").value) == (op, size)
    assert node.attr("pg_name") is None     # all ranks


def test_a_permutation_is_messages():
    text = body('%0 = "stablehlo.collective_permute"(%arg0) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 0]]> : '
                'tensor<3x2xi64>}> : (tensor<8x16xf32>) -> tensor<8x16xf32>',
                "%1 = stablehlo.negate %0 : tensor<8x16xf32>")
    files = [stablehlo_text(text, rank=rank) for rank in range(3)]
    assert check(traces_of_bytes([each.encode() for each in files])) == []
    send, recv, last = files[1].nodes
    assert (send.type, send.attr("comm_dst").value) == (NodeKind.COMM_SEND, 2)
    assert (recv.type, recv.attr("comm_src").value) == (NodeKind.COMM_RECV, 0)
    assert last.data_deps == (send.id, recv.id)


@pytest.mark.parametrize(("line", "flops"), [
    ("%0 = stablehlo.dot_general %arg0, %arg0, batching_dims = [0] x [0], contracting_dims = [2] x [1] : "
     "(tensor<4x8x16xf32>, tensor<4x16x32xf32>) -> tensor<4x8x32xf32>", 2 * 4 * 8 * 32 * 16),
    ('%0 = "stablehlo.dot_general"(%arg0, %arg0) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = '
     "[1], rhs_contracting_dimensions = [0]>} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>",
     2 * 8 * 4 * 16),
    ("%0 = stablehlo.convolution(%arg0, %arg0) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = "
     "{stride = [1, 1]} {batch_group_count = 1 : i64} : (tensor<2x8x8x3xf32>, tensor<3x3x3x16xf32>) -> "
     "tensor<2x6x6x16xf32>", 2 * 2 * 6 * 6 * 16 * 27)])
def test_products(line, flops):
    assert stablehlo_text(body(line)).gemm_flops == flops


@pytest.mark.parametrize(("line", "error", "words"), [
    ("%0 = stablehlo.fft %arg0, type = FFT : (tensor<8xf32>) -> tensor<8xf32>", UnsupportedError, "stablehlo.fft"),
    ("%0 = stablehlo.custom_call @x(%arg0) : (tensor<8xf32>) -> tensor<8xf32>", UnsupportedError, "custom_call @x"),
    (LOOP.replace("%c = stablehlo.constant dense<0> : tensor<i32>", "%c = stablehlo.convert %arg0 : tensor<i32>"),
     UnsupportedError, "a loop whose number of turns depends on data"),
    ('%0 = "stablehlo.case"(%arg0) ({\nstablehlo.return %arg0 : tensor<i32>\n}) : (tensor<i32>) -> tensor<i32>',
     UnsupportedError, "which branch runs depends on data"),
    ("%0:2 = stablehlo.while(%a = %arg0) : tensor<i32>", InputError, "a while without its condition and body"),
    ("%0 = stablehlo.multipl %arg0, %arg0 : tensor<8xf32>", UnsupportedError, "multiply"),
    ("%0 = stablehlo.add %arg0, %arg0 : tensor<?xf32>", InputError, "dynamic shape"),
    ("%0 = stablehlo.add %arg0, %arg0 : tensor<8xq9>", InputError, "q9"),
    ("%0 = call @gone(%arg0) : (tensor<8xf32>) -> tensor<8xf32>", InputError, "not there"),
    ("%0 = call @main(%arg0) : (tensor<8xf32>) -> tensor<8xf32>", InputError, "calls itself"),
    ('%0 = "stablehlo.all_reduce"(%arg0) ({', InputError, "without replica_groups")])
def test_refused_by_name_and_line(line, error, words):
    with pytest.raises(error, match=words) as caught:
        stablehlo_text(body(line))
    assert "line" in str(caught.value) or "@main" in str(caught.value)


def test_a_loop_that_counts_is_unrolled():
    """Three turns of a product with a slice of the stacked weights, and of a loop as often as the turn's number."""
    trace = stablehlo_text(body(*LOOP.splitlines(), "%0 = stablehlo.add %r#2, %r#2 : tensor<8x16xf32>",
                                arguments="%arg0: tensor<8x16xf32>, %arg1: tensor<3x16x16xf32>"))
    assert [finding for finding in check(traces_of_bytes([trace.encode()])) if finding.severity == "error"] == []
    assert trace.gemm_flops == 3 * 2 * 8 * 16 * 16
    by_op = [node.attr("op_type").value.rpartition(".")[2] for node in trace.nodes]
    turn = ["dynamic_slice", "dot_general"]
    assert by_op == [*turn, *turn, "tanh", *turn, "tanh", "tanh", "add"]     # no node for counters
    dots = [node for node in trace.nodes if "dot_general" in node.attr("op_type").value]
    cut = [node for node in trace.nodes if "dynamic_slice" in node.attr("op_type").value]
    assert [node.attr("tensor_size").value for node in cut] == [2 * 4 * 16 * 16] * 3      # the slice, not the stack
    assert dots[1].data_deps == (dots[0].id, cut[1].id)      # turn 0 has no inner turn
    assert len({node.name for node in trace.nodes}) == len(trace.nodes)


@pytest.mark.parametrize(("constant", "word"), [(0, "sine"), (1, "cosine"), (7, "cosine"), (-1, "cosine")])
def test_a_branch_that_a_constant_chooses(constant, word):
    text = body(f"%c = stablehlo.constant dense<{constant}> : tensor<i32>", '''%0 = "stablehlo.case"(%c) ({
      %3 = stablehlo.sine %arg0 : tensor<8x16xf32>
      stablehlo.return %3 : tensor<8x16xf32>
    }, {
      %3 = stablehlo.cosine %arg0 : tensor<8x16xf32>
      stablehlo.return %3 : tensor<8x16xf32>
    }) : (tensor<i32>) -> tensor<8x16xf32>''')
    node, = stablehlo_text(text).nodes
    assert node.attr("op_type").value == f"stablehlo.{word}"


@pytest.mark.parametrize(("target", "types", "flops", "other"), [
    ("lapack_spotrf_ffi", "(tensor<3x6x6xf32>) -> tensor<3x6x6xf32>", 3 * 6**3 // 3, 0),
    ("lapack_dgetrf_ffi", "(tensor<6x6xf64>) -> (tensor<6x6xf64>, tensor<6xi32>)", 2 * 6**3 // 3, 0),
    ("lapack_sgetrf_ffi", "(tensor<9x6xf32>) -> tensor<9x6xf32>", 9 * 6**2 - 6**3 // 3, 0),
    ("cusolver_geqrf_ffi", "(tensor<9x6xf32>) -> tensor<9x6xf32>", 2 * 6**2 * (9 - 2), 0),
    ("lapack_zpotrf_ffi", "(tensor<6x6xcomplex<f64>>) -> tensor<6x6xcomplex<f64>>", 4 * 6**3 // 3, 0),
    ("cu_threefry2x32_ffi", "(tensor<2xui32>) -> tensor<64xui32>", 0, 64),
    ("TopK", "(tensor<64xf32>) -> tensor<3xf32>", 0, 0)])
def test_custom_calls_whose_cost_is_known(target, types, flops, other):
    text = body(f'%0 = stablehlo.custom_call @{target}(%arg0) {{backend_config = ""}} : {types}')
    trace = stablehlo_text(text)
    assert (trace.gemm_flops, trace.other_flops, len(trace.nodes)) == (flops, other, 1)


def test_a_mark_for_the_compiler_costs_nothing():
    text = body("%1 = stablehlo.custom_call @Sharding(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>",
                "%2 = stablehlo.tanh %1 : tensor<8x16xf32>", "%0 = stablehlo.tanh %2 : tensor<8x16xf32>")
    first, second = stablehlo_text(text).nodes
    assert (first.data_deps, second.data_deps) == ((), (first.id,))


@given(st.text(alphabet="%0123#=<>{}()[]:\"x \nfuncmainstablehlo.addtensor@-,", max_size=300))
def test_hostile_text(text):
    for whole in (text, MLP[:900] + text, body(text)):
        with contextlib.suppress(AstrariumError):
            stablehlo_text(whole)


PARTED = """module @jit_f attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4, "pp"=1]>
  func.func public @main(%arg0: tensor<8x16xf32>ARGUMENT) -> tensor<8x16xf32> {
    BODY
    return %0 : tensor<8x16xf32>
  }
}
"""
ADD = "%0 = stablehlo.add %arg0, %arg0 : tensor<8x16xf32>"
INSIDE = """%0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"dp"}, {}]>]\
 out_shardings=[<@mesh, [{"dp"}, {}]>] manual_axes={AXES} (%arg1: tensor<4x16xf32>) {
  %1 = sdy.sharding_constraint %arg1 <@mesh, [{?}, {?}]> : tensor<4x16xf32>
  %2 = stablehlo.add %1, %arg1 : tensor<4x16xf32>
  sdy.return %2 : tensor<4x16xf32>
} : (tensor<8x16xf32>) -> tensor<8x16xf32>"""
SDY = ' {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}'
GSPMD = ' {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"}'


@pytest.mark.parametrize(("argument", "body", "words"), [
    (SDY, ADD, "line 4: stablehlo.add outside a manual computation, in a module that XLA partitions over 8 devices"),
    (GSPMD, ADD, "line 4: stablehlo.add outside a manual computation"),
    (SDY, INSIDE.replace("AXES", '"dp"'), "line 4: a manual_computation that leaves the axes tp of its mesh to XLA")])
def test_work_that_xla_partitions_is_refused(argument: str, body: str, words: str) -> None:
    """Its tensors are those of all devices; each gets a part that only the compiled module says."""
    with pytest.raises(UnsupportedError, match=re.escape(words)):
        stablehlo_text(PARTED.replace("ARGUMENT", argument).replace("BODY", body))


@pytest.mark.parametrize(("argument", "body", "elements"), [
    ("", ADD, 128), (SDY, INSIDE.replace("AXES", '"dp", "tp"'), 64)], ids=["replicated", "manual"])
def test_work_of_one_device_is_read(argument: str, body: str, elements: int) -> None:
    found = stablehlo_text(PARTED.replace("ARGUMENT", argument).replace("BODY", body))
    assert [each.attr("num_ops").value for each in found.nodes if each.name.startswith("add")] == [elements]
