"""A decoder's FLOPs, activation bytes and collective volumes against the papers' closed forms."""

from __future__ import annotations

import pytest

from astrarium.vocab import CommOp, NodeKind
from astrarium.workload.graph import Options, lower_stack
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.stacks import stack_of

GPT = Decoder(layers=96, d_model=12288, heads=96, ffn=49152, vocab=51200, gated=False, activation="gelu", norm="layer",
              positions="learned", max_positions=2048, biases=("qkv", "out", "mlp"))
LLAMA = Decoder(layers=80, d_model=8192, heads=64, kv_heads=8, ffn=28672, vocab=128256)
B, S, L, H, A, V = 8, 2048, 96, 12288, 96, 51200


def pieces(model=GPT, **options):
    degrees = options.pop("degrees", {})
    chosen = Options(degrees, options.pop("batch", B), options.pop("seq", S), **options)
    return lower_stack(stack_of(model, chosen), chosen)


def total(found, key, *, layers_only=False):
    order = found.layers if layers_only else (*found.first, *found.layers, *found.last)
    return sum(getattr(step, key) for number in order for piece in (found.blocks[number].forward,
               found.blocks[number].backward) for step in piece.steps)


@pytest.mark.parametrize("tp", [1, 8])
def test_flops_with_recomputation(tp):
    """96 B s l h^2 (1 + s / 6h + V / 16 l h): Narayanan et al., arXiv 2104.04473, equation 3."""
    found = pieces(degrees={"tp": tp}, attention="unfused", recompute="full")
    assert total(found, "gemm") * tp == pytest.approx(
        96 * B * S * L * H**2 * (1 + S / (6 * H) + V / (16 * L * H)), 1e-12)


@pytest.mark.parametrize("tp", [1, 8])
def test_flops_without_recomputation(tp):
    """The same without its third forward pass over the layers: 72 B s l h^2 (1 + s / 6h + V / 12 l h)."""
    found = pieces(degrees={"tp": tp}, attention="unfused")
    assert total(found, "gemm") * tp == pytest.approx(
        72 * B * S * L * H**2 * (1 + S / (6 * H) + V / (12 * L * H)), 1e-12)


def test_flops_of_selective_recomputation():
    """The attention core's forward pass again: 4 B s^2 h a layer (Korthikanti et al., arXiv 2205.05198, appendix A)."""
    base, again = (total(pieces(attention="unfused", recompute=each), "gemm") for each in ("none", "selective"))
    assert again - base == pytest.approx(4 * B * S**2 * H * L, 1e-9)


def test_flash_attention_computes_the_scores_twice_in_backward():
    flash, unfused = (total(pieces(attention=each), "gemm") for each in ("flash", "unfused"))
    assert flash - unfused == pytest.approx(2 * B * S**2 * H * L, 1e-9)


@pytest.mark.parametrize(("tp", "sequence", "recompute", "expected"), [
    (1, False, "none", 34 + 5 * A * S / H),
    (8, False, "none", 10 + 24 / 8 + 5 * A * S / (H * 8)),
    (8, True, "none", (34 + 5 * A * S / H) / 8),
    (1, False, "selective", 34),
    (8, True, "selective", 34 / 8),
    (8, False, "full", 2),
    (8, True, "full", 2 / 8),
])
def test_activation_memory_of_a_layer(tp, sequence, recompute, expected):
    """Bytes per layer over s b h: Korthikanti et al., arXiv 2205.05198, table 2."""
    found = pieces(degrees={"tp": tp}, attention="unfused", dropout=True, tp_sequence=sequence, recompute=recompute)
    assert found.blocks[1].saved == pytest.approx(expected * S * B * H, 1e-12)


def volume(block, op, axis):
    """(number, bytes each) of one collective kind of a block's two passes."""
    sizes = [step.bytes for piece in (block.forward, block.backward) for step in piece.steps
             if step.kind == NodeKind.COMM_COLL and step.op == op and axis in step.axes]
    return len(sizes), set(sizes)


def test_tensor_parallelism_reduces_four_times_a_layer():
    """Two all_reduces of b s h in forward and two in backward (Shoeybi et al., arXiv 1909.08053, section 3)."""
    block = pieces(degrees={"tp": 8}).blocks[1]
    assert volume(block, CommOp.ALL_REDUCE, "tp") == (4, {2 * B * S * H})


def test_sequence_parallelism_gathers_and_scatters():
    """Each all_reduce becomes reduce_scatter and all_gather, and backward gathers what it kept sharded again
    (Korthikanti et al., arXiv 2205.05198, section 4.2.2)."""
    block = pieces(degrees={"tp": 8}, tp_sequence=True).blocks[1]
    assert volume(block, CommOp.REDUCE_SCATTER, "tp") == (4, {2 * B * S * H})
    assert volume(block, CommOp.ALL_GATHER, "tp") == (6, {2 * B * S * H / 8})
    assert volume(block, CommOp.ALL_REDUCE, "tp") == (0, set())


def test_sp_gathers_keys_and_values():
    """Keys and values in forward and again in backward, their gradients scattered: 2 b s d_kv each."""
    block = pieces(LLAMA, degrees={"sp": 4}).blocks[1]
    keys = 2 * B * S * 8 * 128
    assert volume(block, CommOp.ALL_GATHER, "sp") == (4, {keys / 4})
    assert volume(block, CommOp.REDUCE_SCATTER, "sp") == (2, {keys})


def test_ulysses_exchanges_queries_keys_values_and_outputs():
    """Four all_to_alls in forward (Jacobs et al., arXiv 2309.14509, section 3.2), and in backward one for each of the
    four gradients: attention's operands wait as the exchange left them, its result as attention and as the product
    behind it read it."""
    block = pieces(LLAMA, degrees={"sp": 4}, sp_attention="all_to_all").blocks[1]
    count, sizes = volume(block, CommOp.ALL_TO_ALL, "sp")
    whole = 2 * B * S / 4
    assert sizes == {whole * 8192, whole * 1024}
    forward = [step for step in block.forward.steps if step.kind == NodeKind.COMM_COLL]
    assert (len(forward), count) == (4, 4 + 4)
    gathered = pieces(LLAMA, degrees={"sp": 4}).blocks[1]
    assert block.saved - gathered.saved == 2 * B * S / 4 * 8192     # the result, twice
    again = pieces(LLAMA, degrees={"sp": 4}, sp_attention="all_to_all", recompute="full").blocks[1]
    assert volume(again, CommOp.ALL_TO_ALL, "sp") == (4 + 4 + 4, sizes)


def test_ring_attention_passes_keys_and_values_around():
    """n - 1 times in forward and in backward; their gradients n times (Liu et al., arXiv 2310.01889)."""
    block = pieces(LLAMA, degrees={"cp": 4}).blocks[1]
    sends = {name: [step.bytes for step in piece.steps if step.kind == NodeKind.COMM_SEND]
             for name, piece in (("forward", block.forward), ("backward", block.backward))}
    shard = 2 * 2 * B * S // 4 * 8 * 128
    assert sends == {"forward": [shard] * 3, "backward": [shard] * (3 + 4)}


@pytest.mark.parametrize("degrees", [{"tp": 4}, {"sp": 4}, {"cp": 4}, {"edp": 4}, {"ep": 2, "tp": 2}])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_work_is_divided(degrees, recompute):
    """Products over all ranks are those of one rank."""
    one, many = (total(pieces(LLAMA, degrees=each, recompute=recompute), "gemm") for each in ({}, degrees))
    assert many * 4 == pytest.approx(one, 1e-12)


@pytest.mark.parametrize(("degrees", "sequence", "replicas"), [
    ({"edp": 4, "tp": 2}, False, {"norm1_scale": ("edp",), "wq": ("edp",), "wdown": ("edp",)}),
    ({"edp": 4, "tp": 2}, True, {"norm1_scale": ("edp", "tp"), "wq": ("edp",), "wdown": ("edp",)}),
    ({"edp": 4, "sp": 2}, False, {"norm1_scale": ("edp", "sp"), "wq": ("edp", "sp")}),
    ({"ep": 2, "edp": 2, "cp": 2}, False, {"wq": ("ep", "edp", "cp")}),
])
def test_gradients_are_summed_over_the_axes_that_shard_tokens(degrees, sequence, replicas):
    weights = pieces(LLAMA, degrees=degrees, tp_sequence=sequence).blocks[1].weights
    found = {weight.name: weight.replicas for weight in weights}
    assert {name: found[name] for name in replicas} == replicas


def test_pieces_point_backwards_only():
    for recompute in ("none", "selective", "full"):
        for attention in ("flash", "unfused"):
            found = pieces(degrees={"tp": 2, "cp": 2, "edp": 2}, attention=attention, recompute=recompute,
                           tp_sequence=True, cp_attention="ring" if attention == "flash" else "gather")
            for block in found.blocks:
                for piece in (block.forward, block.backward):
                    assert all(before < number for number, step in enumerate(piece.steps) for before in step.after)
                    assert 0 <= piece.exit < len(piece.steps)


def test_fusion_changes_bytes_and_nodes_but_no_work():
    fused, apart = (pieces(degrees={"tp": 8}, fuse=each) for each in (True, False))
    assert total(fused, "flops") == pytest.approx(total(apart, "flops"), 1e-12)
    assert total(fused, "bytes") < total(apart, "bytes")
    assert len(fused.blocks[1].backward.steps) < len(apart.blocks[1].backward.steps)
    assert fused.blocks[1].saved == apart.blocks[1].saved
