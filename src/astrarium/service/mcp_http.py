"""The MCP server over streamable HTTP (extra: mcp): the transport of the package behind a check of each request."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from astrarium.service.mcp import server_of
from astrarium.service.web.guard import App, Receive, RefusedError, Send, headers_of, known_host, one_header
from astrarium.service.web.listen import listening, port_of
from astrarium.service.web.settings import Settings
from astrarium.service.workers import Workers

__all__ = ["http_app", "run_http"]

PATH = "/mcp"


class _Guard:
    """Answers requests that name this server, come from no page of a browser, and have the token."""

    def __init__(self, app: App, settings: Settings):
        self.app, self.settings = app, settings

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer or refuse one request."""
        if scope["type"] == "http":
            try:
                self._admit(headers_of(scope))
            except RefusedError as refused:
                await send({"type": "http.response.start", "status": refused.status,
                            "headers": [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]})
                await send({"type": "http.response.body", "body": refused.message.encode()})
                return
        await self.app(scope, receive, send)

    def _admit(self, headers: dict[str, list[str]]) -> None:
        """Raises RefusedError."""
        known_host(one_header(headers, "host"), self.settings)
        if "origin" in headers:
            raise RefusedError(403, "the request comes from a page of a browser")
        given = headers.get("authorization", [""])[0]
        if self.settings.token and not hmac.compare_digest(given.encode(), f"Bearer {self.settings.token}".encode()):
            raise RefusedError(401, "a token is missing: send the header Authorization: Bearer TOKEN")


def http_app(workers: Workers, settings: Settings) -> App:
    """The server as an ASGI application."""
    from mcp.server.transport_security import TransportSecuritySettings

    app = server_of(workers).streamable_http_app(
        streamable_http_path=PATH, max_request_body_size=workers.limits.request,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False))      # ours is before it
    return _Guard(app, settings)


def run_http(workers: Workers, settings: Settings, told: Callable[[str], None]) -> Awaitable[None]:
    """Serve clients until the process is asked to end; `told` gets the address first. Raises InputError if the port is
    taken."""
    import uvicorn

    listener = listening(settings, "--http")
    told(f"http://{settings.host}:{port_of(listener)}{PATH}")
    config = uvicorn.Config(http_app(workers, settings), log_level="warning", access_log=False, server_header=False,
                            limit_concurrency=200, timeout_graceful_shutdown=2, ws="none", proxy_headers=False)
    return uvicorn.Server(config).serve(sockets=[listener])
