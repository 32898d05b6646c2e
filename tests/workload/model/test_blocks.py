"""Blocks of every family: weights, collectives, what travels beside the stream, what a step of inference reads."""

from __future__ import annotations

from typing import Any

import pytest

from astrarium import catalog
from astrarium.errors import InputError, UnsupportedError
from astrarium.vocab import NodeKind
from astrarium.workload.graph import ModelPieces, Options
from astrarium.workload.graph.ir import base
from astrarium.workload.graph.options import layout_of, usual_axes
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.model.decoder import Decoder
from astrarium.workload.model.parameters import parameters
from astrarium.workload.model.stacks import stack_of
from astrarium.workload.pieces import BlockPieces

from .common import pieces, row


@pytest.mark.parametrize("name", catalog.load("models"))
def test_weights_add_up_to_the_parameters(name: str) -> None:
    """Every weight of every block, tied ones once: what `parameters` counts, without fixed position tables."""
    model = row(name)
    options = Options({}, 1, model.seq, uneven="fractional")
    stack = stack_of(model, options)
    layout, once, total = layout_of(options, stack.sizes, stack.axes), set[str](), 0.0
    for number in (*stack.first, *stack.layers, *stack.last):
        for weight, dims in stack.blocks[number].weights.items():
            if not (weight in stack.tied and weight in once):
                total += layout.elements(dims)
            once |= {weight} & stack.tied
    assert total == parameters(model).trained
    assert len(stack.layers) == getattr(model, "layers", 1)


def collectives(block: BlockPieces, side: str, axis: str) -> list[tuple[str, float]]:
    return [(step.op.name, step.bytes) for step in getattr(block, side).steps
            if step.kind == NodeKind.COMM_COLL and step.op is not None and axis in step.axes]


def _layer(found: ModelPieces, name: str) -> BlockPieces:
    return next(block for block in found.blocks if block.name == name)


@pytest.mark.parametrize("sequence", [False, True])
def test_experts_exchange_four_times_a_layer(sequence: bool) -> None:
    """Dispatch and combine, forward and backward, each of top_k rows per token of the rank: GShard (arXiv 2006.16668,
    section 3.2); every rank of tp_sequence brings its own tokens."""
    degrees = {"ep": 8, "edp": 2, "tp": 2}
    block = _layer(pieces(row("deepseek-v3"), 32, degrees=degrees, tp_sequence=sequence), "expert_layer")
    rows = 32 * 4096 / 16 * 8 / (2 if sequence else 1)
    assert collectives(block, "forward", "ep") == [("ALL_TO_ALL", rows * 7168 * 2)] * 2
    assert collectives(block, "backward", "ep") == [("ALL_TO_ALL", rows * 7168 * 2)] * 2


def test_experts_under_tp_gather_rows_and_scatter_results() -> None:
    """Under tp_sequence the rows of all ranks of tp come together at a shard of their experts (Megatron-Core's MoE)."""
    block = _layer(pieces(row("mixtral-8x7b"), 16, degrees={"ep": 2, "edp": 2, "tp": 4}, tp_sequence=True),
                   "expert_layer")
    rows = 16 * 32768 / 4 * 2 * 4096 * 2
    forward = collectives(block, "forward", "tp")
    assert forward.count(("ALL_GATHER", rows / 4)) == forward.count(("REDUCE_SCATTER", rows)) == 1
    assert ("ALL_REDUCE", rows) not in forward + collectives(block, "backward", "tp")


@pytest.mark.parametrize(("degrees", "rows"), [({"tp": 8}, 64), ({"tp": 8, "ep": 2}, 32)])
def test_a_step_of_inference_reduces_routed_and_shared_experts_once(degrees: dict[str, int], rows: int) -> None:
    """tokens x d behind attention and behind all experts (vLLM's models/deepseek_v2.py), not a row for each of a
    token's 8 experts."""
    step = Packed((Sequences(rows, 1, 1500),))
    block = _layer(pieces(row("deepseek-v3"), 64 // rows, degrees=degrees, packed=step, seq=rows, backward=False),
                   "expert_layer")
    assert collectives(block, "forward", "tp") == [("ALL_REDUCE", rows * 7168 * 2)] * 2


@pytest.mark.parametrize("sequence", [False, True])
def test_without_ep_training_reduces_tokens_of_experts(sequence: bool) -> None:
    """Megatron-Core's all_gather dispatcher: tokens are gathered, their sums scattered. Forward reduces attention,
    routed and shared experts; backward the FFN's input, and attention's by way of q_rank."""
    block = _layer(pieces(row("deepseek-v3"), 2, degrees={"tp": 4}, tp_sequence=sequence), "expert_layer")
    tokens = 2 * 4096 * 7168 * 2
    op, sizes = "REDUCE_SCATTER" if sequence else "ALL_REDUCE", {}
    for side in ("forward", "backward"):
        sizes[side] = [size for name, size in collectives(block, side, "tp") if name == op and size >= tokens / 8]
    assert sizes["forward"] == [tokens] * 3
    assert sizes["backward"] == pytest.approx([tokens, tokens * 1536 / 7168])


def test_norms_over_all_heads_sum_up_squares_over_tp() -> None:
    """MiniMax-M2 (SGLang's MiniMaxM2RMSNormTP): a number of fp32 for q and k of every token, both passes;
    norms of single heads need none."""
    block = _layer(pieces(row("minimax-m2"), 2, degrees={"tp": 4}, seq=512), "expert_layer")
    for side in ("forward", "backward"):
        assert collectives(block, side, "tp").count(("ALL_REDUCE", 2 * 512 * 4)) == 2
    alone = _layer(pieces(row("minimax-m2"), 2, seq=512), "expert_layer")
    assert not any("squares" in step.name for step in alone.forward.steps)
    heads = _layer(pieces(row("qwen3-30b-a3b"), 2, degrees={"tp": 4}, seq=512), "expert_layer")
    assert len(collectives(heads, "forward", "tp")) == 2


def test_gradients_of_experts_are_summed_over_edp_alone() -> None:
    block = _layer(pieces(row("mixtral-8x7b"), 8, degrees={"ep": 4, "edp": 2}), "expert_layer")
    found = {weight.name: (weight.replicas, weight.dense) for weight in block.weights}
    assert found["wexpert_up"] == (("edp",), False)
    assert found["wrouter"] == found["wq"] == (("ep", "edp"), True)


def test_latents_are_gathered_not_the_stream() -> None:
    """Under tp_sequence latent attention brings together the short vectors: q_rank, kv_rank and the rotated key."""
    block = _layer(pieces(row("deepseek-v3"), 8, degrees={"tp": 8}, tp_sequence=True), "layer")
    tokens = 8 * 4096 / 8 * 2
    gathered = [size for op, size in collectives(block, "forward", "tp") if op == "ALL_GATHER"]
    assert gathered == [tokens * 1536, tokens * 512, tokens * 64, tokens * 7168]    # the last: the FFN's input


def test_bags_are_exchanged_once_each_way() -> None:
    """DLRM: every rank gets 26 vectors of 128 for each of its samples (arXiv 1906.00091, section 3.1)."""
    found = pieces(row("dlrm-dcnv2"), 65536, degrees={"ep": 8, "edp": 2})
    size = 65536 / 16 * 26 * 128 * 2
    assert collectives(found.blocks[0], "forward", "ep") == [("ALL_TO_ALL", size)]
    assert collectives(found.blocks[0], "backward", "ep") == [("ALL_TO_ALL", size)]
    table = found.blocks[0].weights[0]
    assert (table.name, table.replicas, table.dense) == ("tables", ("edp",), False)
    assert table.elements == pytest.approx(204184588 * 128 / 8, rel=1e-3)


@pytest.mark.parametrize("axis", ["tp", "sp", "cp"])
def test_axes_that_divide_nothing_of_a_recommendation_model(axis: str) -> None:
    with pytest.raises(UnsupportedError, match=f"workload.{axis}: divides nothing"):
        pieces(row("dlrm-dcnv2"), 64, degrees={axis: 2})


def test_memory_travels_with_the_decoder() -> None:
    """A stage of T5's decoder hands on its stream and the encoder's output, whose gradient comes back."""
    found = pieces(row("t5-11b"), 4, degrees={"tp": 2})
    stream = 4 * 512 * 1024 * 2
    assert [block.output for block in found.blocks] == [stream, stream, stream, 2 * stream, 2 * stream, 2 * stream,
                                                        stream, 0]
    decoder = _layer(found, "decoder_layer")
    assert collectives(decoder, "forward", "tp") == [("ALL_REDUCE", stream)] * 3
    # of the FFN, of the queries to the memory, of what was before, and of the memory itself
    assert collectives(decoder, "backward", "tp") == [("ALL_REDUCE", stream)] * 4


def test_condition_of_a_diffusion_transformer() -> None:
    """Scale, shift and gate are the same for all tokens: where tokens are sharded, their gradients are summed."""
    layer = _layer(pieces(row("dit-xl-2"), 4, degrees={"sp": 4}), "layer")
    assert ("ALL_REDUCE", 4 * 6 * 1152 * 2) in collectives(layer, "backward", "sp")
    assert layer.output == 4 * 256 / 4 * 1152 * 2 + 4 * 1152 * 2


def test_states_of_mamba_cross_shards() -> None:
    """One state per head and shard of the sequence is gathered."""
    layer = _layer(pieces(row("mamba2-2.7b"), 2, degrees={"sp": 4}), "layer")
    assert collectives(layer, "forward", "sp") == [("ALL_GATHER", 2 * 80 * 64 * 128 * 2)]


@pytest.mark.parametrize("name", ["llama3-8b", "deepseek-v3", "t5-11b", "dit-xl-2"])
def test_a_ring_needs_flash_attention(name: str) -> None:
    """Unfused scores would be those of local keys alone."""
    with pytest.raises(UnsupportedError, match=r"workload\.cp_attention: ring needs"):
        pieces(row(name), 4, degrees={"cp": 2}, attention="unfused")
    pieces(row(name), 4, degrees={"cp": 2}, attention="unfused", cp_attention="gather")


@pytest.mark.parametrize(("name", "expected"), [("vit-b-16", 197), ("dit-xl-2", 256), ("whisper-large-v3", 1500)])
def test_lengths_that_a_model_does_not_have(name: str, expected: int) -> None:
    with pytest.raises(InputError, match=f"workload.seq: 100 is not .*; expected {expected}"):
        pieces(row(name), seq=100)


def test_steps_of_inference_are_for_models_that_generate() -> None:
    with pytest.raises(UnsupportedError, match=r"workload\.model\.family: encoder has no steps of inference"):
        step("bert-base", Sequences(1, 1, 99))


def step(name: str, *parts: Sequences, **options: Any) -> ModelPieces:
    packed = Packed(parts)
    return pieces(row(name), packed=packed, seq=packed.tokens, backward=False, attention="flash", **options)


@pytest.mark.parametrize(("name", "printed"), [("deepseek-v3", 70.272), ("llama3-405b", 516.096)])
def test_cache_per_token(name: str, printed: float) -> None:
    """KB per token in bf16: Insights into DeepSeek-V3, arXiv 2505.09343, table 1."""
    model = row(name)
    packed = Packed((Sequences(1, 1, 999),))
    options = Options({}, 1, 1, packed=packed, backward=False)
    stack = stack_of(model, options)
    layout = layout_of(options, stack.sizes, stack.axes)
    total = sum(layout.elements(dims) for number in stack.layers for dims in stack.blocks[number].states.values())
    assert 2 * total / 1000 / 1000 == printed


def test_latent_attention_over_a_cache_is_absorbed() -> None:
    """Per new token and head: q_nope by the key matrix, kv_rank + rope and kv_rank per cached token, then the value
    matrix (arXiv 2405.04434, section 2.1.2)."""
    block = _layer(step("deepseek-v3", Sequences(4, 1, 1023)), "layer")
    found = {each.name.partition(".")[2]: each for each in block.forward.steps}
    assert found["attention"].gemm == 4 * 1024 * 128 * 2 * (576 + 512)
    assert found["attention"].bytes == 2 * (4 * 1024 * 576 + 4 * 128 * (576 + 512))
    assert found["k_up"].gemm == found["v_up"].gemm == 4 * 2 * 128 * 128 * 512
    fresh = _layer(step("deepseek-v3", Sequences(4, 1024)), "layer")
    assert next(each for each in fresh.forward.steps if "attention" in each.name).gemm == (
        4 * 1024**2 * 128 * 2 * (192 + 128))


@pytest.mark.parametrize("ep", [1, 8])
def test_a_small_step_reads_only_the_experts_that_are_hit(ep: int) -> None:
    """16 tokens choose 8 of 256 each: 256 (1 - (1 - 8/256)^16) experts are expected to have a row."""
    found = step("deepseek-v3", Sequences(16 // ep, 1, 100), batch=ep, degrees={"ep": ep})
    block = _layer(found, "expert_layer")
    down = next(each for each in block.forward.steps if each.name.endswith("expert_down"))
    hit = 256 * (1 - (1 - 8 / 256) ** 16)
    assert down.bytes == pytest.approx(2 * (hit * 2048 * 7168 + 16 * 8 * (2048 + 7168)) / ep)
    assert down.gemm == 2 * 16 * 8 * 2048 * 7168 / ep


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3", "bert-large", "t5-11b", "whisper-large-v3", "dit-xl-2",
                                  "mamba2-2.7b"])
def test_pieces_point_backwards_only(name: str) -> None:
    for recompute in ("none", "selective", "full"):
        for attention in ("flash", "unfused"):
            found = pieces(row(name), 8, degrees={"tp": 2, "sp": 2, "ep": 2, "edp": 2}, attention=attention,
                           recompute=recompute, tp_sequence=True)
            for block in found.blocks:
                for piece in (block.forward, block.backward):
                    assert all(before < number for number, step in enumerate(piece.steps) for before in step.after)
                    assert 0 <= piece.exit < len(piece.steps)


WHOLE = {"seq.all", "experts.src", "experts.router", "tables.all", "shards.all", "vectors.other", "seq.index"}


@pytest.mark.parametrize("name", catalog.load("models"))
def test_variants_of_sharded_dims_that_no_axis_shards_are_meant(name: str) -> None:
    """A variant that the table of axes does not name is whole on every rank: these few, and no slip of the pen."""
    model = row(name)
    packed = Packed((Sequences(2, 1, 9), Sequences(1, 4)))
    every = [Options({}, 1, model.seq, tp_sequence=True, uneven="fractional")]
    if isinstance(model, Decoder):
        every.append(Options({}, 1, packed.tokens, packed=packed, backward=False, uneven="fractional"))
    for options in every:
        stack = stack_of(model, options)
        table = {**usual_axes(options), **stack.axes}
        sharded = {base(dim) for dim, axes in table.items() if axes}
        dims = {dim for block in stack.blocks for op in block.ops for use in (*op.inputs, *op.outputs)
                for dim in use.dims}
        assert {dim for dim in dims if dim not in table and base(dim) in sharded} <= WHOLE


def test_mamba_decodes_from_a_state() -> None:
    """A decode step reads and writes every state once, whatever the context: batch x heads x P x N in all layers, and
    the last three inputs of the convolution."""
    found = {past: _layer(step("mamba2-2.7b", Sequences(4, 1, past)), "layer") for past in (1, 100_000)}
    assert found[1] == found[100_000]
    update = next(each for each in found[1].forward.steps if "update" in each.name)
    state = 4 * 80 * 64 * 128
    assert update.flops >= 6 * state
    assert 2 * 2 * state <= update.bytes <= 2.1 * 2 * state
    model = row("mamba2-2.7b")
    packed = Packed((Sequences(4, 1, 9),))
    options = Options({}, 1, 4, packed=packed, backward=False)
    stack = stack_of(model, options)
    layout = layout_of(options, stack.sizes, stack.axes)
    assert sum(layout.elements(dims) for dims in stack.blocks[1].states.values()) == state + 4 * 3 * (5120 + 2 * 128)


@pytest.mark.parametrize("parts", [(Sequences(3, 512),), (Sequences(2, 300), Sequences(1, 424)),
                                   (Sequences(3, 512, 64, 0),)])
def test_mamba_prefills_in_chunks(parts: tuple[Sequences, ...]) -> None:
    """The products of training's forward pass: as many pairs of positions as chunks of 256 of each sequence have."""
    tokens = sum(part.count * part.new for part in parts)
    pairs = sum(part.count * (part.new // 256 * 256**2 + (part.new % 256) ** 2) for part in parts)
    projections = 2560 * (2 * 5120 + 2 * 128 + 80) + 5120 * 2560
    found = sum(each.gemm for each in _layer(step("mamba2-2.7b", *parts), "layer").forward.steps)
    expected = 2 * (tokens * projections + pairs * (128 + 5120) + 2 * tokens * 128 * 5120)
    assert found == pytest.approx(expected, rel=1e-12)
