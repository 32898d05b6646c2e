"""The socket of a server."""

from __future__ import annotations

import socket

from astrarium.errors import InputError
from astrarium.service.web.settings import Settings

__all__ = ["listening", "port_of"]


def listening(settings: Settings, flag: str = "") -> socket.socket:
    """A socket at the address of the settings, which `flag` gave (empty: --host and --port). Raises InputError if it
    cannot be used."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise InputError(flag or ("--port" if settings.port else "--host"),
                         f"{settings.host}:{settings.port} cannot be used ({error.strerror or error})",
                         expected="an address of this machine and a free port") from None
    return listener


def port_of(listener: socket.socket) -> int:
    """Its port."""
    return int(listener.getsockname()[1])
