"""What a workbench is started with."""

from __future__ import annotations

import secrets
import socket

from msgspec import Struct

from astrarium.errors import InputError

__all__ = ["LOCAL", "Settings", "token_for"]

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
UPLOAD = 64 << 20       # bytes of one dropped file
BODY = 1 << 16          # bytes of any other request
SECONDS = 60.0          # CPU seconds of one answer


def token_for(host: str, given: str | None) -> str:
    """The token of a server: as given, else none where only this machine reaches it, and a new one elsewhere. Raises
    InputError."""
    if given is None:
        return "" if host in LOCAL else secrets.token_urlsafe(24)
    if not (8 <= len(given) <= 200 and given.isascii() and given.isprintable() and " " not in given):
        raise InputError("--token", "is not one", expected="8 to 200 characters without spaces")
    return given


class Settings(Struct, frozen=True):
    """`folder`: absolute; all that is read and written is below it. `token`: required of a visitor, empty: none is.
    `read_only`: refuse whatever changes the folder or starts work. `upload`, `body`: bytes of requests. `seconds`: of
    CPU time for one answer; `processes`: answers at a time, and long jobs at a time."""

    folder: str
    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""
    read_only: bool = False
    upload: int = UPLOAD
    body: int = BODY
    seconds: float = SECONDS
    processes: int = 2

    @property
    def names(self) -> frozenset[str]:
        """Names of hosts by which a browser may call the server. A name that an attacker owns is none of them, so that
        a page of theirs cannot reach it (DNS rebinding)."""
        if self.host in LOCAL:
            return LOCAL
        if self.host in ("0.0.0.0", "::"):
            return LOCAL | {socket.gethostname().lower(), socket.getfqdn().lower()}
        return LOCAL | {self.host.lower()}

    @property
    def any_address(self) -> bool:
        """Whether a browser may call the server by a literal address, which no DNS answer can point elsewhere."""
        return self.host in ("0.0.0.0", "::")
