"""Agents outside this process: the same dialogue over any channel (a program's pipes, HTTP, an assistant's calls)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Protocol

from astrarium.config import Knob
from astrarium.errors import InputError
from astrarium.search.agents.base import Agent, Batch, InFlight, Options, Told
from astrarium.search.axes import Point
from astrarium.search.dialogue import Dialogue
from astrarium.search.evaluate import Judge
from astrarium.search.goal import Goal
from astrarium.search.space import Space

__all__ = ["LONGEST", "QUESTIONS", "Assistant", "Channel", "Message", "Outside", "OutsideOptions", "dialogue_of"]

LONGEST = 1 << 24       # bytes of an answer
QUESTIONS = 100         # explanations before one proposal

Message = Mapping[str, Any]


class Channel(Protocol):
    """How messages travel. It opens with the first request."""

    def answer(self, messages: Sequence[Message]) -> bytes:
        """Send messages, the last of which is an `ask`; returns the answer (JSON). Raises InputError."""

    def end(self, messages: Sequence[Message]) -> None:
        """Send the last messages; nothing is asked any more."""


def dialogue_of(space: Space, goal: Goal) -> Dialogue:
    """The dialogue about a space and a goal."""
    return Dialogue(space, goal, Judge(space, goal).figures)


class Outside:
    """A search by an agent outside: a trial that it was not told yet goes out with the next request. After `attempts`
    refused answers in a row the search ends. `who`: the agent in errors."""

    def __init__(self, open_channel: Callable[[], Channel], opening: Message, dialogue: Dialogue, who: str,
                 attempts: int):
        self._open, self._who, self._attempts = open_channel, who, attempts
        self._dialogue = dialogue
        self._waiting: list[Message] = [opening]
        self._channel: Channel | None = None

    def ask(self, count: int) -> list[Point]:
        """The points that it proposes; a refused answer is explained, and asked for again."""
        if self._channel is None:
            self._channel = self._open()
        said, refused, asked = "", 0, 0
        while refused < self._attempts:
            line = self._channel.answer([*self._waiting, {"type": "ask", "count": count}])
            self._waiting = []
            try:
                answer = self._dialogue.read(line)
                if not answer.explain:
                    return self._dialogue.points_of(answer, count)
                if asked == QUESTIONS:
                    raise InputError("explain", f"was asked {QUESTIONS} times", expected="a proposal")
                asked += 1
                self._waiting = [self._dialogue.explained(answer)]
            except InputError as error:
                said, refused = str(error), refused + 1
                self._waiting = [self._dialogue.refused(error)]
        raise InputError(self._who, f"{self._attempts} answers in a row were refused, the last one: {said}",
                         expected="answers within the space; the same command goes on with this study")

    def hear(self, told: Sequence[Told]) -> None:
        """It is told the starts with its first request."""
        self.tell(told)

    def tell(self, told: Sequence[Told]) -> None:
        """Keep what became of the points for the next request."""
        self._waiting.extend(self._dialogue.told(each) for each in told)

    def close(self) -> None:
        """End the channel; the agent hears the last trials."""
        if self._channel is not None:
            self._channel.end([*self._waiting, {"type": "end"}])


class OutsideOptions(Options, frozen=True, kw_only=True):
    """Options of agents that are asked in lines of JSON."""

    outside: ClassVar[bool] = True
    batch: Batch = 1
    in_flight: InFlight = 0
    patience: Annotated[float, Knob("Seconds that an answer may take.", gt=0)] = 600.0
    attempts: Annotated[int, Knob("Answers to one request that may be refused before the search ends.", ge=1)] = 5

    @abstractmethod
    def channel(self) -> Callable[[], Channel]:
        """What opens the channel, at the first request. Raises InputError for options that name none."""

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:
        """Start a search. Raises InputError as `channel` does."""
        opened, dialogue = self.channel(), dialogue_of(space, goal)
        return Outside(opened, dialogue.opening(self.batch, seed), dialogue, f"agent {self.tag}", self.attempts)


class Assistant(Options, frozen=True, kw_only=True):
    """An agent that calls us: an assistant with the tools of `astrarium mcp`. Answers are stored before they run."""

    tag: ClassVar[str] = "assistant"
    outside: ClassVar[bool] = True
    batch: Batch = 16

    def start(self, space: Space, goal: Goal, seed: int) -> Agent:  # noqa: ARG002
        """Refuse: it is asked by nobody. Raises InputError."""
        raise InputError("agent", "an assistant is not asked: it calls the tools of astrarium mcp",
                         expected="another agent here, or search_start and search_step there")
