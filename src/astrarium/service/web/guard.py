"""What every request passes first: host, origin, visitor, method, size. An ASGI layer without a dependency.

A request that changes something is a POST. It comes from a page of this server (`Origin`, `Sec-Fetch-Site`) and has the
token of its visitor's session (`X-Astrarium-Token`), and the server is not read-only. A request for a page may come
from anywhere: it changes nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from astrarium.service.web.settings import Settings

__all__ = ["SESSION", "App", "Guard", "Receive", "RefusedError", "Send", "headers_of", "known_host", "one_header"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

SESSION, VISITOR = "astrarium_session", "astrarium_visitor"
LONGEST = 16 << 10      # bytes of path and query
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
          "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
HEADERS = {"content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer",
           "x-frame-options": "DENY", "cross-origin-opener-policy": "same-origin",
           "cross-origin-resource-policy": "same-origin", "cache-control": "no-store"}


class RefusedError(Exception):
    """A request that is not answered: the HTTP status, and a sentence for the visitor."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status, self.message = status, message


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"astrarium web: {text}\n")


class Guard:
    """The layer around the application."""

    def __init__(self, app: App, settings: Settings, log: Callable[[str], object] = _to_stderr):
        self.app, self.settings, self.log = app, settings, log
        self._secret = secrets.token_bytes(32)

    def token_of(self, session: str) -> str:
        """The token with which a page of a session makes changes."""
        return hmac.new(self._secret, session.encode(), hashlib.sha256).hexdigest()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer or refuse one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if body is not None and body.over and not started:      # whatever the application makes of its end
                started = True
                await _say(send, 413, f"the request is larger than {body.most:,} bytes", scope)
            if body is not None and body.over:
                return
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = _with(message.get("headers", ()), cookies)
            await send(message)

        cookies: list[str] = []
        body: _Body | None = None
        try:
            scope["astrarium_session"] = self._admit(scope, cookies)
            body = _Body(receive, self._most(scope))
            await self.app(scope, body.read, answer)
        except RefusedError as refused:
            if not started:
                await _say(answer, refused.status, refused.message, scope)
        except Exception as error:      # our bug: the visitor hears no detail, the console one line
            self.log(f"{scope['method']} {scope['path']}: {type(error).__name__}: {error}")
            if not started:
                await _say(answer, 500, "this is a bug of ours; the server's console has a line about it", scope)

    def _admit(self, scope: MutableMapping[str, Any], cookies: list[str]) -> str:
        """The session of a request that may be answered; `cookies` gets those to set. Raises RefusedError."""
        headers = headers_of(scope)
        host = one_header(headers, "host")
        known_host(host, self.settings)
        method, path, query = scope["method"], scope["path"], scope.get("query_string", b"")
        if method not in ("GET", "HEAD", "POST"):
            raise RefusedError(405, "only GET and POST are answered")
        _plain_path(scope)
        site = headers.get("sec-fetch-site", ["none"])[0]
        page = method != "POST" and headers.get("sec-fetch-mode", ["navigate"])[0] == "navigate"
        if site not in ("same-origin", "none") and not page:
            raise RefusedError(403, "the request comes from a page of another server")
        jar = _cookies(headers)
        self._known_visitor(jar, query.decode("latin-1"), path, cookies)
        session = jar.get(SESSION, "")
        if not (len(session) == 32 and session.isalnum()):
            session = secrets.token_hex(16)
            cookies.append(f"{SESSION}={session}; Path=/; HttpOnly; SameSite=Strict")
        if method == "POST":
            self._may_change(headers, host, session)
        return session

    def _known_visitor(self, jar: dict[str, str], query: str, path: str, cookies: list[str]) -> None:
        """Raises RefusedError for a visitor without the token; the link of the console brings it, a cookie keeps it."""
        token = self.settings.token
        if not token:
            return
        mark = hmac.new(token.encode(), b"visitor", hashlib.sha256).hexdigest()
        if hmac.compare_digest(jar.get(VISITOR, "").encode(), mark.encode()):
            return
        given = parse_qs(query, max_num_fields=200).get("token", [""])[0] if path == "/" else ""
        if not hmac.compare_digest(given.encode(), token.encode()):
            raise RefusedError(401, "a token is missing: open the link that `astrarium web` printed")
        cookies.append(f"{VISITOR}={mark}; Path=/; HttpOnly; SameSite=Strict")

    def _may_change(self, headers: dict[str, list[str]], host: str, session: str) -> None:
        if self.settings.read_only:
            raise RefusedError(403, "this workbench is read-only")
        for origin in headers.get("origin", []):
            if urlsplit(origin).netloc.lower() != host.lower() or urlsplit(origin).scheme not in ("http", "https"):
                raise RefusedError(403, "the request comes from a page of another server")
        given = headers.get("x-astrarium-token", [""])[0]
        if not hmac.compare_digest(given.encode(), self.token_of(session).encode()):
            raise RefusedError(403, "this page is of an earlier start of the server: load it again")
        if "content-encoding" in headers:
            raise RefusedError(415, "requests are not decompressed: send the file as it is")

    def _most(self, scope: MutableMapping[str, Any]) -> int:
        """Bytes that a request may have; Raises RefusedError where it says that it has more."""
        most = self.settings.upload if scope["path"] == "/api/files" else self.settings.body
        for length in headers_of(scope).get("content-length", []):
            if not length.isdecimal() or len(length) > 15 or int(length) > most:
                raise RefusedError(413, f"the request is larger than {most:,} bytes")
        return most


class _Body:
    """The body of a request, which ends once it is longer than `most` bytes, whatever its headers say."""

    def __init__(self, receive: Receive, most: int):
        self.receive, self.most, self.over = receive, most, False
        self._left = most

    async def read(self) -> Message:
        """The next part."""
        message = await self.receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.over = True
            raise RefusedError(413, f"the request is larger than {self.most:,} bytes")
        return message


def known_host(host: str, settings: Settings) -> None:
    """Check the header Host. Raises RefusedError if the server does not have that name."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        name = ""
    if name in settings.names:
        return
    if settings.any_address:
        try:
            ipaddress.ip_address(name)
            return
        except ValueError:
            pass
    raise RefusedError(421, "the server has another name: use the link that it printed")


def headers_of(scope: MutableMapping[str, Any]) -> dict[str, list[str]]:
    """Headers of a request by name in lower case."""
    found: dict[str, list[str]] = {}
    for name, value in scope.get("headers", ()):
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def one_header(headers: dict[str, list[str]], name: str) -> str:
    """The value of a header. Raises RefusedError where there is none, or more than one."""
    values = headers.get(name, [])
    if len(values) != 1:
        raise RefusedError(400, f"expected one header {name}")
    return values[0]


def _plain_path(scope: MutableMapping[str, Any]) -> None:
    """Raises RefusedError for a path that means another one, and for an overlong address."""
    raw = scope.get("raw_path") or scope["path"].encode()
    if len(raw) + len(scope.get("query_string", b"")) > LONGEST:
        raise RefusedError(414, f"the address is longer than {LONGEST:,} bytes")
    path = scope["path"]
    parts = path.split("/")
    if "\\" in path or "//" in path or any(part in (".", "..") for part in parts) or any(
            ord(letter) < 32 or ord(letter) == 127 for letter in path):
        raise RefusedError(400, "the path is not a plain one")


def _cookies(headers: dict[str, list[str]]) -> dict[str, str]:
    try:
        jar = SimpleCookie("; ".join(headers.get("cookie", [])))
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in jar.items()}


def _with(headers: Any, cookies: list[str]) -> list[tuple[bytes, bytes]]:
    """Headers of an answer with ours; one that is there already stays."""
    found = [(bytes(name), bytes(value)) for name, value in headers]
    have = {name.lower() for name, _ in found}
    found += [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in have]
    return found + [(b"set-cookie", each.encode()) for each in cookies]


async def _say(send: Send, status: int, message: str, scope: MutableMapping[str, Any]) -> None:
    """A refusal as JSON of one field, and as text for a page."""
    if scope["path"].startswith("/api/"):
        kind, body = b"application/json", b'{"error": ' + _quoted(message) + b"}"
    else:
        kind, body = b"text/plain; charset=utf-8", f"{message}\n".encode()
    await send({"type": "http.response.start", "status": status,
                "headers": [(b"content-type", kind), (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})


def _quoted(text: str) -> bytes:
    import json

    return json.dumps(text).encode()
