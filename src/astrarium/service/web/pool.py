"""Answers for open pages, by the workers of the service (`service.workers`).

A client (one open page) has one answer at a time. A newer question takes the place of the one that waits, and
interrupts the one that runs; if that does not end soon, its worker is killed and replaced.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec import Struct

from astrarium.service.answer import Progress, RefusedError
from astrarium.service.limits import Limits
from astrarium.service.web.answers.question import OPERATION, Ask
from astrarium.service.web.settings import Settings
from astrarium.service.workers import Call, Workers, folder_at

__all__ = ["BUSY", "Pool"]

GRACE = 2.0             # seconds in which an interrupted answer ends
SPARE = 1               # workers more than processors, so that one long answer does not hold up the others
BUSY = 64               # questions that may wait


class _Asked(Struct, eq=False):
    """A question of a client: `call` once a worker has it."""

    client: str
    question: Ask
    answer: asyncio.Future[dict[str, Any]]
    begun: float
    call: Call | None = None
    text: str = ""


class Pool:
    """Answers `settings.processes` questions and `SPARE` more at a time. Use it from the event loop's thread."""

    def __init__(self, settings: Settings):
        limits, count = Limits(seconds=settings.seconds), settings.processes + SPARE
        self._workers = Workers(folder_at(settings.folder, limits, writable=not settings.read_only), limits,
                                operations={"web": OPERATION}, count=count)
        self._threads = ThreadPoolExecutor(count)
        self._free = count
        self._waiting: list[_Asked] = []
        self._by_client: dict[str, _Asked] = {}

    async def ask(self, client: str, question: Ask) -> dict[str, Any]:
        """The answer: `{"error": ...}` for a refusal; `{"replaced": True}` where the client has asked anew."""
        self.stop(client)
        if len(self._waiting) >= BUSY:
            return {"error": "the server is busy: too many questions wait", "busy": True}
        asked = _Asked(client, question, asyncio.get_running_loop().create_future(), time.monotonic())
        self._by_client[client] = asked
        self._waiting.append(asked)
        self._serve()
        try:
            return await asked.answer
        finally:
            if self._by_client.get(client) is asked:
                del self._by_client[client]
            if asked in self._waiting:
                self._waiting.remove(asked)

    def progress(self, client: str) -> str:
        """How far the client's answer is; empty where there is none."""
        asked = self._by_client.get(client)
        if asked is None:
            return ""
        seconds = f"{time.monotonic() - asked.begun:.0f} s"
        return f"{seconds}, waits for other answers" if asked.call is None else f"{seconds} {asked.text}".strip()

    def stop(self, client: str) -> bool:
        """End the client's question; whether there was one."""
        asked = self._by_client.pop(client, None)
        if asked is None:
            return False
        if not asked.answer.done():
            asked.answer.set_result({"replaced": True})
        if asked in self._waiting:
            self._waiting.remove(asked)
        if asked.call is not None:
            asked.call.interrupt()
            asyncio.get_running_loop().call_later(GRACE, asked.call.cancel)
        return True

    async def close(self) -> None:
        """End the workers."""
        await asyncio.to_thread(self._workers.close)
        self._threads.shutdown(wait=False)

    def _serve(self) -> None:
        """Give what waits to workers that are free."""
        while self._free and self._waiting:
            asked = self._waiting.pop(0)
            asked.call = Call()
            self._free -= 1
            asyncio.get_running_loop().create_task(self._run(asked, asked.call))

    async def _run(self, asked: _Asked, call: Call) -> None:
        def tell(progress: Progress) -> None:
            asked.text = progress.text

        def work() -> dict[str, Any]:
            try:
                found = self._workers.call("web", asked.question, call=call, progress=tell)
                return {**found.found, "command": found.command}
            except RefusedError as error:
                kind = error.refusal.kind
                return {"error": error.refusal.text, **({"bug": True} if kind == "bug" else {})}
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._free += 1
            self._serve()
        if not asked.answer.done():
            asked.answer.set_result(found)
