"""How steps are filled, what is rounded, and what was promised."""

from __future__ import annotations

from typing import Annotated, Literal

from astrarium.config import Config, Knob, default
from astrarium.units import OptionalTime, Time

__all__ = ["Buckets", "Objective", "Policy"]


class Policy(Config, frozen=True, kw_only=True):
    """Continuous batching: every step is put together anew (Orca, OSDI 2022), in order of arrival.

    `chunked`: all running sequences decode, and what is left of `max_tokens` goes to prompts, cut where it ends
    (Sarathi-Serve, arXiv 2403.02310). `prefill_first`: whole prompts as soon as they fit, nothing else in their step
    (vLLM, arXiv 2309.06180); else all running sequences decode.

    The cache is in blocks. A request is admitted when there are free blocks for its whole prompt. Where a running
    sequence needs a block and none is free, the request that was admitted last gives up all of its blocks and waits at
    the head of the queue; what it had is computed again (vLLM's recomputation).
    """

    schedule: Annotated[Literal["chunked", "prefill_first"], Knob("What goes into a step.")] = "chunked"
    max_batch: Annotated[int, Knob("Most sequences that run at once (vLLM's max_num_seqs).", ge=1, lt=65_537)] = 256
    max_tokens: Annotated[int, Knob("Most tokens of one step (vLLM's max_num_batched_tokens).", ge=1, lt=10_000_001)
                          ] = 2048
    block: Annotated[int, Knob("Tokens of a cache block (vLLM: 16).", ge=1, lt=65_537)] = 16
    memory_share: Annotated[float, Knob("Share of memory.capacity that weights, cache and working memory may fill "
                                        "(vLLM's gpu_memory_utilization: 0.9).", gt=0, lt=1.0000001)] = 0.9
    seed: Annotated[int, Knob("Seed of which guesses are accepted, with speculation (NumPy's PCG64).", ge=0,
                                lt=2**63)] = 0
    overhead: Annotated[Time, Knob("Host time between two steps: scheduling, sampling, launch. None is assumed.")
                        ] = default("0 ns")


class Buckets(Config, frozen=True, kw_only=True):
    """Step shapes are rounded up to multiples, so that few of them are simulated; 1: exact."""

    context: Annotated[int, Knob("Mean tokens in the cache of decoding sequences.", ge=1)] = 64
    batch: Annotated[int, Knob("Decoding sequences.", ge=1)] = 1
    chunk: Annotated[int, Knob("Prompt tokens of one sequence in a step, and those before them.", ge=1)] = 1


class Objective(Config, frozen=True, kw_only=True):
    """What was promised (SLO); a request is good that keeps all of it (DistServe, arXiv 2401.09670)."""

    ttft: Annotated[OptionalTime, Knob("Most time to the first token.", gt=0)] = default(None)
    tpot: Annotated[OptionalTime, Knob("Most mean time per token after the first.", gt=0)] = default(None)
