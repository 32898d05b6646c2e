"""Data-parallel ranks that share experts: each has its own sequences, and the others wait for the busiest one at
every layer's experts.

In a step with prompts no rank is padded: experts get the tokens that all ranks have (SGLang's DpPaddingMode.SUM_LEN,
all_rank_num_tokens of TensorRT-LLM, vLLM outside of CUDA graphs). Gathering them is a broadcast of each rank's tokens
(vLLM's all_gatherv, TensorRT-LLM's allgather with sizes), so the rank with the fewest receives all others', which takes
as long as if all had a (ranks - 1)th of that. In a graph all ranks have as many as the busiest one.
"""

from __future__ import annotations

import heapq

from msgspec import Struct

from astrarium.arrays import I64
from astrarium.serving.shape import Prompt, Shape, StepTimes

__all__ = ["Lockstep", "busiest"]


class Lockstep(Struct, frozen=True):
    """Times of steps whose sequences are spread over `ranks` as evenly as can be; `times` are those of a step in which
    every rank has the same sequences."""

    times: StepTimes
    ranks: int

    @property
    def how(self) -> str:
        """Where times come from, in words."""
        return self.times.how

    def of(self, shape: Shape, /) -> int:
        """Time of a step in ps."""
        return self.times.of(busiest(shape, self.ranks))

    def decoding(self, count: int, context: int, steps: int, padding: int = 0, /) -> I64:
        """Times of successive decode steps in ps [steps]."""
        each = busiest(Shape(count, context, (), padding), self.ranks)
        return self.times.decoding(each.count, each.context, steps, each.padding)


def busiest(shape: Shape, ranks: int) -> Shape:
    """What the busiest rank does of a step: decoding sequences are dealt out, of mean context; each prompt, the longest
    first, goes to the rank with the fewest tokens."""
    whole, more = divmod(shape.count, ranks)
    queue = [(whole + (rank < more), rank) for rank in range(ranks)]
    heapq.heapify(queue)
    given: list[list[Prompt]] = [[] for _ in range(ranks)]
    for prompt in sorted(shape.prompts, reverse=True):
        tokens, rank = queue[0]
        given[rank].append(prompt)
        heapq.heapreplace(queue, (tokens + prompt[0], rank))
    count = whole + (more > 0)
    context = -(-shape.context * count // shape.count) if count else 0
    busy, padding = tuple(given[max(queue)[1]]), -(-shape.padding // ranks)
    if padding or not busy:
        return Shape(count, context, busy, padding)
    tokens, least = sum(many for many, _ in queue), queue[0][0]
    return Shape(count, context, busy, shared=(-(-tokens // ranks), -(-(tokens - least) // (ranks - 1))))
