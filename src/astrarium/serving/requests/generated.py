"""Streams from a seed: arrivals at random or of a closed loop, with lengths, shared prefixes and conversations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from astrarium.arrays import I64
from astrarium.config import Config, Knob, Problem, default
from astrarium.errors import InputError
from astrarium.serving.requests.lengths import Lengths, drawn
from astrarium.serving.requests.stream import LONGEST, MOST, PS, Arrivals, Prefixes, Requests, Turns
from astrarium.units import Time
from astrarium.workload.inference.use_cases import USE_CASES

__all__ = ["ClosedLoop", "Gamma", "Poisson", "Prefix", "Session"]

Rules = tuple[Callable[[Any], Iterable[Problem]], ...]
NO_SEED = "lengths, prefixes and numbers of turns are drawn from it"


class Prefix(Config, frozen=True, kw_only=True):
    """System prompts that requests share: each begins with one of `groups`, drawn evenly; its own prompt follows."""

    tokens: Annotated[int, Knob("Tokens of a system prompt.", ge=1, lt=LONGEST)]
    groups: Annotated[int, Knob("Different ones.", ge=1, lt=MOST)] = 1


class Session(Config, frozen=True, kw_only=True):
    """Conversations: the next turn comes when the answer has been read; its prompt is all that was said before, and
    `prompt` tokens more. `rate` and `concurrency` then count conversations, `count` requests."""

    turns: Annotated[int | Lengths, Knob("Turns of a conversation.", ge=1, lt=10_001)]
    think: Annotated[Time, Knob("From an answer to the next turn.")] = default("0 ns")


def _rules(stream: Generated) -> Iterator[Problem]:
    for field in ("prompt", "output"):
        given = getattr(stream, field)
        if stream.use_case is not None and given is not None:
            yield Problem(field, "has no effect together with use_case", f"no {field}, or no use_case")
        if stream.use_case is None and given is None:
            yield Problem(field, "is missing", "tokens, a distribution, or a use_case")
    if stream.seed is None and stream.random:
        yield Problem("seed", "is missing", f"a whole number: {NO_SEED}")


class Generated(Arrivals, frozen=True, kw_only=True):
    """Requests that are made up. The same seed gives the same stream."""

    rules: ClassVar[Rules] = (_rules,)
    count: Annotated[int, Knob("Requests in all.", ge=1, lt=MOST + 1)]
    seed: Annotated[int | None, Knob("Seed of what is drawn (NumPy's PCG64).", ge=0, lt=2**63)] = None
    use_case: Annotated[str | None, Knob("Named lengths, in place of prompt and output.", choices=tuple(USE_CASES))
                        ] = None
    prompt: Annotated[int | Lengths | None, Knob("Tokens of a prompt.", ge=1, lt=LONGEST)] = None
    output: Annotated[int | Lengths | None, Knob("Tokens to generate, the first one included.", ge=1, lt=LONGEST)
                      ] = None
    prefix: Annotated[Prefix | None, Knob("A system prompt before each prompt, shared by many.")] = None
    session: Annotated[Session | None, Knob("Conversations of several turns.")] = None

    @property
    def random(self) -> bool:
        """Whether anything is drawn."""
        turns = None if self.session is None else self.session.turns
        lengths = any(isinstance(each, Lengths) for each in (self.prompt, self.output, turns))
        return lengths or (self.prefix is not None and self.prefix.groups > 1)

    @abstractmethod
    def gaps(self, count: int, generator: np.random.Generator | None, /) -> npt.NDArray[np.float64] | None:
        """Times in ps from each of `count` arrivals to the next; None: of a closed loop."""

    @property
    def users(self) -> int | None:
        """Users of a closed loop."""
        return None

    def requests(self) -> Requests:
        """The requests: arrivals are drawn first, then lengths of prompts and answers, turns, prefixes."""
        generator = None if self.seed is None else np.random.Generator(np.random.PCG64(self.seed))
        gaps = self.gaps(self.count, generator)
        if gaps is not None and float(gaps.sum()) > 2**62:
            raise InputError("requests.rate", f"{getattr(self, 'rate', 0):g} per second is too slow for the clock",
                             expected="all requests within 53 days")
        arrival = np.zeros(self.count, np.int64) if gaps is None else np.rint(np.cumsum(gaps)).astype(np.int64)
        prompt, output = (drawn(each, self.count, generator) for each in self._lengths())
        sizes = self._turns(generator)
        turn = np.arange(self.count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        session = np.repeat(np.arange(len(sizes)), sizes)
        prefix = 0 if self.prefix is None else self.prefix.tokens
        if self.session is not None:        # all that was said before
            said = np.cumsum(prompt + output) - prompt - output
            prompt = prompt + said - said[turn == 0][session]
            arrival = np.where(turn == 0, arrival[session], 0)
        notes = () if self.users is None or self.users <= len(sizes) else (
            f"requests.concurrency: {self.users:,} users, but only {len(sizes):,} requests or conversations (count): "
            "no more are in the system at once",)
        groups = None if self.prefix is None else _groups(self.prefix, len(sizes), generator)[session]
        return Requests(arrival, prompt + prefix, output, self.users,
                        prefixes=None if groups is None else Prefixes(
                            np.arange(self.count + 1), groups, np.full(self.count, prefix, np.int64)),
                        turns=None if self.session is None else _follow(turn, session, self.session), group=groups,
                        groups=() if self.prefix is None else [f"prefix {each}" for each in range(self.prefix.groups)],
                        notes=notes)

    def _lengths(self) -> tuple[int | Lengths, int | Lengths]:
        """Lengths of prompts and answers. A use case's `generated` are the tokens after the first."""
        if self.use_case is not None:
            case = USE_CASES[self.use_case]
            return case.prompt, case.generated + 1
        assert self.prompt is not None
        assert self.output is not None
        return self.prompt, self.output

    def _turns(self, generator: np.random.Generator | None) -> I64:
        """Requests of each conversation: as many as `count` in all."""
        if self.session is None:
            return np.ones(self.count, np.int64)
        sizes: I64 = drawn(self.session.turns, self.count, generator)
        ends = np.cumsum(sizes)
        last = int(np.searchsorted(ends, self.count))
        sizes = np.copy(sizes[:last + 1])
        sizes[last] -= int(ends[last]) - self.count
        return sizes


def _groups(prefix: Prefix, count: int, generator: np.random.Generator | None) -> I64:
    if prefix.groups == 1 or generator is None:
        return np.zeros(count, np.int64)
    return generator.integers(0, prefix.groups, count, np.int64)


def _follow(turn: I64, session: I64, given: Session) -> Turns:
    after = np.arange(1, len(turn) + 1)
    after[:-1][turn[1:] == 0] = -1
    after[-1] = -1
    return Turns(after, np.full(len(turn), round(float(given.think) * 1000), np.int64), session)


class Poisson(Generated, frozen=True, kw_only=True):
    """Requests at random: the time between two is exponential."""

    tag: ClassVar[str] = "poisson"
    rate: Annotated[float, Knob("Requests per second.", gt=0)]
    seed: Annotated[int, Knob("Seed of what is drawn (NumPy's PCG64).", ge=0, lt=2**63)]

    def gaps(self, count: int, generator: np.random.Generator | None, /) -> npt.NDArray[np.float64]:
        """Times in ps from each arrival to the next."""
        assert generator is not None
        return generator.exponential(PS / self.rate, count)


class Gamma(Generated, frozen=True, kw_only=True):
    """Requests in bursts: the time between two is gamma distributed (vLLM's --burstiness is 1 / cv^2)."""

    tag: ClassVar[str] = "gamma"
    rate: Annotated[float, Knob("Requests per second.", gt=0)]
    cv: Annotated[float, Knob("Standard deviation of the time between two over its mean; 1: Poisson.", gt=0, lt=1000)]
    seed: Annotated[int, Knob("Seed of what is drawn (NumPy's PCG64).", ge=0, lt=2**63)]

    def gaps(self, count: int, generator: np.random.Generator | None, /) -> npt.NDArray[np.float64]:
        """Times in ps from each arrival to the next."""
        assert generator is not None
        return generator.gamma(1 / self.cv**2, self.cv**2 * PS / self.rate, count)


class ClosedLoop(Generated, frozen=True, kw_only=True):
    """A number of users, each with one request at a time: the next one comes when the last is answered."""

    tag: ClassVar[str] = "closed_loop"
    concurrency: Annotated[int, Knob("Users.", ge=1, lt=MOST)]

    def gaps(self, _count: int, _generator: np.random.Generator | None, /) -> None:
        """None: requests come by themselves."""
        return

    @property
    def users(self) -> int | None:
        """Users."""
        return self.concurrency
