"""A step of decoding sequences and prompts: kernels of their own for attention, common ones for everything else."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.workload.inference.systems import inference

from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.passes import replica_of
from astrarium.workload.inference.replica import Replica
from astrarium.workload.pieces import Sketch, Step

DECODING = (Sequences(3, 1, 500), Sequences(5, 1, 900))
FIRST, LATER = Sequences(1, 96), Sequences(2, 128, 256, 0)
ALONE = ("attention", "scores", "mix", "softmax", "index_scores", "select", "update", "delta", "keep_state",
         "convolution_q", "convolution_k", "convolution_v", "keep_q", "keep_k", "keep_v",
         "k_up", "v_up", "k_up+v_up", "join_key", "split_query", "join_query")


def steps(replica: Replica, *parts: Sequences) -> list[Step]:
    pieces = replica.pieces(Packed(parts))
    return [step for block in dict.fromkeys(pieces.layers) for step in pieces.blocks[block].forward.steps]


def mixing(step: Step) -> bool:
    """Whether a step mixes tokens of a sequence; a router has scores, too."""
    name = "+".join(part.rstrip("0123456789").rstrip("_") for part in step.name.rpartition(".")[2].split("+"))
    return name in ALONE and (name != "scores" or step.gemm > 0)


def kernels(found: list[Step], *, mixes: bool) -> Counter[tuple[Sketch | None, float, float]]:
    return Counter((step.kernel and step.kernel._replace(operands=()), step.flops, step.bytes)
                   for step in found if mixing(step) == mixes)


@pytest.mark.parametrize("attention", ["flash", "unfused"])
@pytest.mark.parametrize("model", ["llama3-8b", "gpt-oss-20b", "deepseek-v3", "deepseek-v3.2", "qwen3-next-80b-a3b"])
def test_attention_of_a_mixed_step_is_that_of_its_parts(model: str, attention: str) -> None:
    replica = replica_of(inference(model=model, tp=2, prompt=64, phase="prefill", attention=attention, fusion=False))
    whole = steps(replica, *DECODING, FIRST, LATER)
    alone = [steps(replica, *DECODING), steps(replica, FIRST), steps(replica, LATER)]
    assert kernels(whole, mixes=True) == sum((kernels(each, mixes=True) for each in alone), Counter())
    if model != "deepseek-v3.2":
        tokens = Sequences(1, 8 + 96 + 2 * 128, 0, 9)
        assert kernels(whole, mixes=False) == kernels(steps(replica, tokens), mixes=False)


def test_a_verification_is_not_a_prompt() -> None:
    """Guesses are verified on the latents; a chunk of a prompt makes keys and values of all heads (vLLM's MLA)."""
    replica = replica_of(inference(model="deepseek-v3", tp=8, prompt=64, phase="prefill"))
    verified = [step.kernel for step in steps(replica, Sequences(4, 3, 1000, 3)) if "attention" in step.name]
    assert {(kernel.kind, kernel.shape) for kernel in verified if kernel} == {("mla", (4, 16, 1, 3, 1003, 576, 512))}
    chunk = [step.kernel for step in steps(replica, Sequences(4, 3, 1000, 1)) if "attention" in step.name]
    assert {(kernel.kind, kernel.shape) for kernel in chunk if kernel} == {
        ("attention", (4, 16, 16, 3, 1003, 192, 128))}


def test_beside_prompts_a_decoding_sequence_fills_a_tile() -> None:
    """flash_2: FlashAttention 2 with a paged cache takes 64 queries a block from one sequence, for every head."""
    replica = replica_of(inference(model="llama3-8b", tp=2, prompt=64, phase="prefill", attention="flash_2"))
    beside = {step.kernel.shape: step.flops for step in steps(replica, Sequences(4, 1, 1023), FIRST)
              if step.kernel and step.kernel.kind == "attention"}
    alone = {step.kernel.shape: step.flops for step in steps(replica, Sequences(4, 1, 1023))
             if step.kernel and step.kernel.kind == "attention"}
    assert set(beside) == {(4, 16, 4, 64, 1024, 128, 128), (1, 16, 4, 96, 96, 128, 128)}
    assert set(alone) == {(4, 16, 4, 1, 1024, 128, 128)}
    assert beside[4, 16, 4, 64, 1024, 128, 128] == 64 * alone[4, 16, 4, 1, 1024, 128, 128]


def test_the_parts_make_one_output_before_it_is_used() -> None:
    """The product behind attention waits for the kernels of all parts, and memory has room for the rows of all."""
    replica = replica_of(inference(model="llama3-8b", tp=2, prompt=64, phase="prefill"))
    found = steps(replica, *DECODING, FIRST)
    first, second = (number for number, step in enumerate(found) if "attention" in step.name)
    out = next(step for step in found if step.name.endswith(".out"))
    assert second in out.after
    assert first in found[second].after
    whole, prompt = (replica.working(0, Packed(parts)) for parts in ((*DECODING, FIRST), (Sequences(1, 104),)))
    assert whole == pytest.approx(prompt)


def test_fresh_prompts_score_every_pair_in_the_indexer() -> None:
    """DeepSeek-V3.2: 64 heads of 128 over half a square of 512 tokens, of which every rank does all."""
    replica = replica_of(inference(model="deepseek-v3.2", tp=2, prompt=64, phase="prefill"))
    found = next(step for step in steps(replica, Sequences(2, 512)) if "index_scores" in step.name)
    assert found.gemm == 2 * 2 * 64 * 128 * 512 * 513 / 2
    assert found.kernel is not None
    assert found.kernel.shape == (2, 64, 1, 512, 512, 128, 0)
