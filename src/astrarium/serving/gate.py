"""Prompts that wait for others, so that fewer steps are long (TensorRT-LLM's PyExecutor), or until the engine looks for
new requests (SGLang's scheduler)."""

from __future__ import annotations

from msgspec import Struct, field

from astrarium.serving.job import Job

__all__ = ["Gate"]


class Gate(Struct):
    """Whether the requests that wait may begin.

    While sequences decode, prompts wait for `steps` steps (0: they never wait), or less:
    - on several `ranks` of dp until each of them has one (attention_dp_config.enable_balance, timeout_iters; the steps
      are counted from when prompts last began);
    - on one rank until there are `tokens` tokens for the step (batch_wait_max_tokens_ratio,
      batch_wait_timeout_iters; the steps are counted from the first that waits).
    With `polls` prompts wait for whatever is left of `steps` steps since the engine last looked for requests, or since
    others began (SGLang's SchedulerRecvSkipper: a step of decoding counts 1, one of prompts 1,000).

    `passed`: steps so far; `closed`: whether prompts were kept waiting. A request belongs to the rank that has the
    fewest: `have` requests of each rank, of which `asking` wait.
    """

    steps: int
    ranks: int = 1
    tokens: int = 0
    polls: bool = False
    passed: int = 0
    closed: bool = False
    have: list[int] = field(default_factory=list)
    asking: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """No requests."""
        self.passed, self.closed = 0, False
        self.have, self.asking = [0] * self.ranks, [0] * self.ranks

    def come(self, job: Job) -> None:
        """A new request."""
        job.rank = min(range(self.ranks), key=self.have.__getitem__)
        self.have[job.rank] += 1

    def left(self, job: Job) -> None:
        """A request has gone."""
        self.have[job.rank] -= 1

    def wait(self, job: Job, more: int = 1) -> None:
        """A request waits, or (-1) waits no more."""
        self.asking[job.rank] += more

    def opens(self, decoding: int, tokens: int) -> bool:
        """Whether prompts begin with the next step, if `decoding` sequences decode and there are `tokens` tokens."""
        together = not self.polls and (all(self.asking) if self.ranks > 1 else tokens >= self.tokens)
        counts = self.polls or self.ranks > 1 or any(self.asking)
        self.closed = counts and not together and decoding >= self.ranks and self.passed < self.steps
        if not self.closed:
            self.passed = 0
        return not self.closed

    def advance(self, steps: int) -> None:
        """Count finished steps."""
        if self.polls or self.ranks > 1 or self.closed:
            self.passed = (self.passed + steps - 1) % self.steps + 1

    def began(self) -> None:
        """Prompts are in the next step: the engine looks again right after it."""
        if self.polls:
            self.passed = self.steps

    @property
    def left_over(self) -> int:
        """Steps until prompts begin, or do not any more, if no request arrives."""
        counts = self.polls or self.ranks > 1 or self.closed
        return max(1, self.steps - self.passed) if counts else 1
