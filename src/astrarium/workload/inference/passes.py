"""From an Inference to passes: chunks of prefill, decode steps, drafts and verifications."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from astrarium.trace.work import Generated
from astrarium.workload.graph.packed import Packed, Sequences
from astrarium.workload.inference.config import Inference
from astrarium.workload.inference.formats import resolved
from astrarium.workload.inference.program import Pass, Program, assemble
from astrarium.workload.inference.replica import Replica
from astrarium.workload.inference.speculative import expected_tokens, guessing

__all__ = ["decode_passes", "inference", "prefill_passes", "program_of", "replica_of"]


def inference(workload: Inference) -> Generated:
    """What every rank runs. Raises InputError where a size of the model does not divide (`uneven: refuse`)."""
    return assemble(program_of(workload))


def program_of(workload: Inference) -> Program:
    """Models and rounds of passes."""
    models = [replica_of(workload)]
    if workload.speculation is not None:
        models.append(replica_of(workload, draft=True))
    return Program(tuple(models), tuple(_rounds(workload)), workload.micro_batches, _generated(workload))


def _generated(workload: Inference) -> float:
    """Tokens that decode gives each sequence."""
    if workload.phase == "request":
        return float(workload.lengths[1])
    speculation = workload.speculation
    each = 1.0 if speculation is None else expected_tokens(speculation.acceptance, speculation.tokens)
    return workload.steps * each


def replica_of(workload: Inference, *, draft: bool = False) -> Replica:
    """The model, or the draft, on its ranks."""
    found = Replica(workload.model, workload.mesh, resolved(workload.formats, workload.model.checkpoint),
                    workload.compression, workload.attention, workload.mask, workload.fusion, workload.uneven,
                    tuple(workload.stage_layers or ()), workload.exchange, workload.routing, workload.redundant_experts,
                    operators=workload.operators, fused_weights=workload.fused_weights,
                    launch=float(workload.host_launch))
    return found.drafting(workload.speculation.draft) if draft and workload.speculation else found


def _rounds(workload: Inference) -> Iterator[Pass]:
    count, (prompt, generated) = workload.sequences, workload.lengths
    if workload.phase != "decode":
        yield from prefill_passes(count, prompt, workload.chunk)
        if workload.speculation is not None:
            yield from prefill_passes(count, prompt, workload.chunk, model=1)
    if workload.phase == "decode" and workload.mix is not None:
        for step in range(workload.steps):
            counts = Counter(past + step for past in workload.mix)
            yield Pass("decode", Packed(tuple(Sequences(counts[past], 1, past) for past in sorted(counts))), waits=True)
    elif workload.phase == "decode":
        yield from decode_passes(workload, [workload.mean_context] * workload.steps)
    elif workload.phase == "request":
        rounds = generated
        per = Fraction(1)
        if workload.speculation is not None:
            tokens = expected_tokens(workload.speculation.acceptance, workload.speculation.tokens)
            rounds, per = math.ceil(generated / tokens), Fraction(tokens)
        each = [prompt + int(number * per) for number in range(rounds)]
        yield from decode_passes(workload, each if workload.contexts == "each" else [workload.mean_context] * rounds)


def prefill_passes(count: int, prompt: int, chunk: int | None = None, *, model: int = 0) -> Iterator[Pass]:
    """Prompts of `count` sequences, in chunks; the last one samples the first token."""
    size, name = chunk or prompt, ("prefill", "draft_prefill")[model]
    for past in range(0, prompt, size):
        new = min(size, prompt - past)
        yield Pass(name, Packed((Sequences(count, new, past, int(past + new == prompt)),)), model=model)


def decode_passes(workload: Inference, contexts: list[int]) -> Iterator[Pass]:
    """A decode step (or drafts and their verification) at each of `contexts` tokens in the cache."""
    count, speculation = workload.sequences, workload.speculation
    for past in contexts:
        if speculation is None:
            yield Pass("decode", Packed((Sequences(count, 1, past),)), waits=True)
            continue
        for guess in range(speculation.tokens):
            part = guessing(count, past, guess, speculation.tokens, module=speculation.draft == "mtp")
            yield Pass("draft", Packed((part,)), model=1)
        verified = speculation.tokens + 1
        yield Pass("verify", Packed((Sequences(count, verified, past, verified),)), waits=True)
