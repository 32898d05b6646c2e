"""A study that an assistant drives: the loop of a search in a thread, which waits for the next answer."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

from msgspec import Struct

from astrarium.errors import AstrariumError, InputError
from astrarium.search.agents.outside import Message, Outside, dialogue_of
from astrarium.search.limits import Limits as DesignLimits
from astrarium.search.store import Store
from astrarium.search.study import Progress, conduct
from astrarium.search.studyfile import Plan
from astrarium.search.workers import Workers
from astrarium.service.limits import Limits

__all__ = ["Session", "State"]

ATTEMPTS = 1 << 30      # refused answers in a row: an assistant may ask for ever
TICK = 0.5              # seconds between two looks for a signal


class State(Struct, frozen=True):
    """Where a study is: messages since the last answer, in their order; whether it has ended."""

    messages: Sequence[Message]
    ended: bool


class Session:
    """An open study. `opening`: the first message (knobs, values, goal).

    Args:
        plan: Of the study; its agent is an assistant.
        path: The study file.
        limits: Of the operations; a study has at most as many trials as they allow designs.
    """

    def __init__(self, plan: Plan, path: str, limits: Limits):
        self.plan, self.path, self.limits = plan, path, limits
        self.dialogue = dialogue_of(plan.space, plan.goal)
        self.opening = self.dialogue.opening(plan.agent.batch, plan.seed)
        self.tell: Callable[[Progress], None] = _silent
        self.ended = False
        self._last: Sequence[Message] = ()
        self._out: queue.SimpleQueue[State | BaseException] = queue.SimpleQueue()
        self._in: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> State:
        """What was said since the last answer, once the study asks again. Raises the error that ended it."""
        while True:
            try:
                found = self._out.get(timeout=TICK)
                break
            except queue.Empty:
                continue
        if isinstance(found, BaseException):
            self.ended = True
            raise found
        self.ended = found.ended
        return found

    def step(self, line: bytes) -> State:
        """Answer the study, and wait for what comes of it. Raises InputError if it has ended."""
        if self.ended:
            raise InputError("study", f"{self.path} has ended", expected="search_report, or another study (a study "
                             f"here has at most {self.limits.designs:,} trials)")
        self._in.put(line)
        return self.wait()

    def answer(self, messages: Sequence[Message]) -> bytes:
        """As the channel of the agent, in the thread of the search: say what happened, and wait for the next call."""
        self._out.put(State(messages, False))
        return self._in.get()

    def end(self, messages: Sequence[Message]) -> None:
        """As the channel: keep the last messages."""
        self._last = messages

    def _told(self, state: Progress) -> None:
        self.tell(state)

    def _run(self) -> None:
        plan = self.plan
        agent = Outside(lambda: self, self.opening, self.dialogue, "agent assistant", ATTEMPTS)
        limit = DesignLimits(seconds=self.limits.design)
        try:
            with Workers(plan.space, plan.goal, limits=limit) as workers, Store(self.path) as store:
                conduct(plan, self.limits.designs, store, workers, self._told, agent=agent)
            self._out.put(State(self._last, True))
        except BaseException as error:
            self._out.put(error if isinstance(error, AstrariumError) else RuntimeError(repr(error)))


def _silent(_: Progress) -> None:
    """Nobody listens."""
