"""An agent behind a URL: every request is a POST of lines of JSON, and its answer is one object."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar
from urllib.parse import urlsplit

import msgspec

from astrarium.config import Knob
from astrarium.errors import InputError
from astrarium.search.agents.outside import LONGEST, Channel, Message, OutsideOptions

if TYPE_CHECKING:
    from http.client import HTTPResponse

__all__ = ["Http"]

WHO = "agent http"
FAREWELL = 1.0      # seconds for the last message
LINES = "application/jsonl"


class Http(OutsideOptions, frozen=True, kw_only=True):
    """A server as an agent: the messages of `command` by POST, described in the guide on searches. It is sent nothing
    twice, so it keeps what it was told; a search that goes on begins with the knobs and all trials."""

    tag: ClassVar[str] = "http"
    http: Annotated[str, Knob("The URL without `http:`, such as //localhost:8000/ask, or a whole one.")] = ""

    def channel(self) -> Callable[[], Channel]:
        """The server, which hears of the search with the first request. Raises InputError for what is no URL."""
        url = f"http:{self.http}" if self.http.startswith("//") else self.http
        try:
            parts = urlsplit(url)
            fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            fits = False
        if not fits:
            raise InputError("agent.http", f"{url[:80]!r} is not a URL of http or https",
                             expected="--agent http://localhost:8000/ask")
        return lambda: _Server(url, self.patience)


class _Server:
    """A server, as a channel."""

    def __init__(self, url: str, patience: float):
        self.url, self.patience = url, patience

    def answer(self, messages: Sequence[Message]) -> bytes:
        """Send messages, and return the body of the answer. Raises InputError if there is none."""
        with self._opened(messages, self.patience) as answer:
            found: bytes = answer.read(LONGEST + 1)
        if len(found) > LONGEST:
            raise InputError(WHO, f"an answer of {self.url} is longer than {LONGEST:,} bytes")
        return found

    def end(self, messages: Sequence[Message]) -> None:
        """Send the last messages; whatever comes back does not matter any more."""
        with contextlib.suppress(InputError), self._opened(messages, FAREWELL):
            pass

    def _opened(self, messages: Sequence[Message], patience: float) -> HTTPResponse:
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        body = b"".join(msgspec.json.encode(each) + b"\n" for each in messages)
        try:
            answer: HTTPResponse = urlopen(Request(self.url, body, {"Content-Type": LINES}), timeout=patience)
        except HTTPError as error:
            with error:
                raise InputError(WHO, f"{self.url} answered {error.code} {error.reason}",
                                 expected="200 and an answer") from None
        except (OSError, HTTPException) as error:
            said = getattr(error, "reason", error)
            raise InputError(WHO, f"{self.url} did not answer ({said or type(error).__name__})",
                             expected="a server that answers; the same command goes on with this study") from None
        return answer
