"""Starts the server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import uvicorn
from msgspec.structs import replace

from astrarium.service.web.app import make_app
from astrarium.service.web.listen import listening, port_of
from astrarium.service.web.settings import LOCAL, Settings

__all__ = ["serve"]


def serve(settings: Settings, told: Callable[[str], None]) -> None:
    """Serve until the process is asked to end; `told` gets the link first. Raises InputError if the port is taken."""
    listener = listening(settings)
    settings = replace(settings, port=port_of(listener))
    config = uvicorn.Config(make_app(settings), log_level="warning", access_log=False, server_header=False,
                            date_header=False, limit_concurrency=200, h11_max_incomplete_event_size=1 << 15,
                            timeout_keep_alive=30, timeout_graceful_shutdown=2, ws="none", proxy_headers=False)
    told(link_of(settings))
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


def link_of(settings: Settings) -> str:
    """The link to open."""
    host = socket.gethostname() if settings.host in ("0.0.0.0", "::") else settings.host
    host = f"[{host}]" if ":" in host else "localhost" if host in LOCAL else host
    return f"http://{host}:{settings.port}/" + (f"?token={settings.token}" if settings.token else "")
