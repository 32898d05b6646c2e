"""How steps are filled, what is rounded, and what was promised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from astrarium.config import Config, Knob, Problem, default
from astrarium.units import Bandwidth, Bytes, OptionalTime, Time

__all__ = ["Buckets", "Objective", "Policy", "Tier"]

Rules = tuple[Callable[[Any], Iterable[Problem]], ...]


class Tier(Config, frozen=True, kw_only=True):
    """Memory behind the cache of a server: prefixes that requests left are read back from it, not computed again.

    Writing goes on in the background and costs nothing (SGLang's HiCache and vLLM's offloading write through).
    """

    capacity: Annotated[Bytes, Knob("Bytes of a server's cache that it keeps.", gt=0)]
    bandwidth: Annotated[Bandwidth, Knob("Of reading, by all NPUs of a server together.", gt=0)]
    latency: Annotated[Time, Knob("Before a read.")] = default("0 ns")
    shared: Annotated[bool, Knob("Whether all servers have it in common (a remote store); then capacity and bandwidth "
                                 "are those of the whole.")] = False


def _rules(policy: Policy) -> Iterator[Problem]:
    if policy.preemption == "swap" and not policy.tiers:
        yield Problem("preemption", "swap has nowhere to go", "a tier, or recompute")
    if policy.tiers and not policy.prefix_cache and policy.preemption != "swap":
        yield Problem("tiers", "have no effect without a prefix cache: nothing is read back from them",
                      "prefix_cache: true, preemption: swap, or no tiers")
    if list(policy.graphs) != sorted(set(policy.graphs)):
        yield Problem("graphs", f"{list(policy.graphs)[:8]} are not in ascending order",
                      f"{sorted(set(policy.graphs))[:8]}")


class Policy(Config, frozen=True, kw_only=True):
    """Continuous batching: every step is put together anew (Orca, OSDI 2022), in order of arrival or priority.

    `chunked`: all running sequences decode, and what is left of `max_tokens` goes to prompts, cut where it ends
    (Sarathi-Serve, arXiv 2403.02310; vLLM's V1 scheduler; SGLang's mixed chunks). `inflight`: in the same step, but
    only whole prompts (TensorRT-LLM without chunked context). `prefill_first`: prompts as soon as they fit, nothing
    else in their step (vLLM's first scheduler, arXiv 2309.06180; SGLang), whole, or with `chunk` in parts; else all
    running sequences decode.

    The cache is in blocks. A request is admitted when there are free blocks for its whole prompt (vLLM's
    scheduler_reserve_full_isl). If a running sequence needs a block and none is free, the request that was admitted
    last (with `priorities`, the last of the last priority) gives up all of its blocks and waits at the head of the
    queue; what it had is computed again, or swapped to the host and back.
    """

    rules: ClassVar[Rules] = (_rules,)
    schedule: Annotated[Literal["chunked", "inflight", "prefill_first"], Knob("What goes into a step.")] = "chunked"
    max_batch: Annotated[int, Knob("Most sequences that run at once (vLLM's max_num_seqs, SGLang's "
                                   "max_running_requests, TensorRT-LLM's max_batch_size); never more than max_tokens.",
                                   ge=1, lt=65_537)] = 256
    max_tokens: Annotated[int, Knob("Most tokens of one step (vLLM's max_num_batched_tokens, TensorRT-LLM's "
                                    "max_num_tokens), or of its prompts, where they have steps of their own (SGLang's "
                                    "chunked_prefill_size).", ge=1, lt=10_000_001)] = 2048
    chunk: Annotated[int | None, Knob("Most tokens of one prompt in a step (vLLM's long_prefill_token_threshold); with "
                                      "prefill_first prompts are cut only where it is given.", ge=1, lt=10_000_001)
                     ] = None
    block: Annotated[int, Knob("Tokens of a cache block (vLLM: 16; SGLang: 1; TensorRT-LLM: 32).", ge=1, lt=65_537)
                     ] = 16
    memory_share: Annotated[float, Knob("Share of memory.capacity that weights, cache and working memory may fill "
                                        "(vLLM's gpu_memory_utilization: 0.9).", gt=0, lt=1.0000001)] = 0.9
    reserve: Annotated[float, Knob("Share of the cache that running requests may still need for their answers, which "
                                   "must be free when another is admitted. 0: vLLM, and TensorRT-LLM's "
                                   "MAX_UTILIZATION; 1: its GUARANTEED_NO_EVICT; SGLang goes from 0.7 to 0.1.",
                                   ge=0, lt=1.0000001)] = 0.0
    prefix_cache: Annotated[bool, Knob("Whether requests find the cache of equal prompts before them.")] = True
    tiers: Annotated[Sequence[Tier], Knob("Memory behind the cache, fastest first.")] = ()
    preemption: Annotated[Literal["recompute", "swap"], Knob("What becomes of the cache of a sequence that gives way; "
                                                             "swap: to the first tier and back.")] = "recompute"
    priorities: Annotated[bool, Knob("Whether requests are ordered by priority (smaller first), then by arrival.")
                          ] = False
    routing: Annotated[Literal["fewest", "round_robin", "prefix", "cache_aware"], Knob(
        "Which of several servers a request goes to: with the fewest requests; in turn; with the fewest blocks to "
        "compute and in use (NVIDIA Dynamo's KV router); or which was sent the longest prefix of its prompt "
        "(the default of SGLang's gateway and vLLM's router). One router over all instances of a fleet.")] = "fewest"
    migrate: Annotated[bool, Knob("Whether requests of an instance that goes down keep their tokens, and compute their "
                                  "cache again elsewhere (NVIDIA Dynamo's request migration); else they begin again.")
                       ] = False
    seed: Annotated[int, Knob("Seed of the acceptance of guesses in speculation (NumPy's PCG64).", ge=0,
                                lt=2**63)] = 0
    overhead: Annotated[Time, Knob("Host time between two steps: scheduling, sampling, launch. None is assumed.")
                        ] = default("0 ns")
    sequence_overhead: Annotated[Time, Knob("Host time a step for each of its sequences. None is assumed.")
                                 ] = default("0 ns")
    stream_offset: Annotated[Time, Knob("From a token's step to the client, and from the client to the queue: added to "
                                        "the first token and to the last. None is assumed.", lt=2**42)] = default(
                                            "0 ns")
    launch: Annotated[OptionalTime, Knob("Host time to launch a kernel outside CUDA graphs: a step takes at least "
                                         "that of all of its kernels. Left out: none is assumed; needed where "
                                         "`graphs` is empty on a stack that has graphs.")] = default(None)
    ahead: Annotated[bool, Knob("Whether the next step is scheduled while one runs: a request that comes meanwhile is "
                                "not in it (vLLM's asynchronous scheduling, from 0.14 on; the overlap schedulers of "
                                "SGLang and TensorRT-LLM).")] = False
    wait_steps: Annotated[int, Knob("Most steps that prompts wait while others decode: until each rank of dp that "
                                    "shares experts has one (TensorRT-LLM's attention_dp_config with enable_balance: "
                                    "timeout_iters), or on one rank until a step would have wait_share of max_tokens "
                                    "(its batch_wait_timeout_iters). 0: none wait.", ge=0, lt=1_000_001)] = 0
    wait_share: Annotated[float, Knob("Share of max_tokens for which prompts wait (batch_wait_max_tokens_ratio).",
                                      gt=0, lt=1.0000001)] = 1.0
    poll: Annotated[int, Knob("Steps of decoding between looks for new requests; after a step with prompts the engine "
                              "looks at once (SGLang's --scheduler-recv-interval). Of schedule prefill_first.", ge=1,
                              lt=1_000_001)] = 1
    graphs: Annotated[Sequence[int], Knob("Sizes in tokens of captured CUDA graphs: a smaller step is padded to the "
                                          "next one; a larger one is not, and its kernels are launched one by one. "
                                          "Steps with prompts have them only with schedule chunked (vLLM). None: no "
                                          "padding (and no graphs, with `launch`).", ge=1, lt=10_000_001)] = ()

    @property
    def whole(self) -> bool:
        """Whether a prompt is never cut."""
        return self.schedule != "chunked" and self.chunk is None


class Buckets(Config, frozen=True, kw_only=True):
    """Steps that are simulated one by one (which have no tables) are rounded up to multiples, so that there are few; 1:
    exact."""

    context: Annotated[int, Knob("Mean tokens in the cache of decoding sequences.", ge=1)] = 64
    batch: Annotated[int, Knob("Decoding sequences.", ge=1)] = 1
    chunk: Annotated[int, Knob("Prompt tokens of one sequence in a step, and those before them.", ge=1)] = 1


class Objective(Config, frozen=True, kw_only=True):
    """What was promised (SLO); a request is good that keeps all of it (DistServe, arXiv 2401.09670)."""

    ttft: Annotated[OptionalTime, Knob("Most time to the first token.", gt=0)] = default(None)
    tpot: Annotated[OptionalTime, Knob("Most mean time per token after the first.", gt=0)] = default(None)
