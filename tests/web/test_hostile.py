"""Requests that are refused: other hosts and origins, traversal, bombs, visitors without a token, read-only servers."""

from __future__ import annotations

import asyncio
import hmac
import http.client
import os
import socket
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Run
from tests.web.hostile import HOSTILE, Hostile
from tests.web.workbench import Server, Visitor, folder_in

pytest.importorskip("fastapi", reason="the workbench needs the extra web")

from astrarium.service.web.app import make_app
from astrarium.service.web.server import link_of
from astrarium.service.web.settings import Settings


def test_there_are_a_hundred_hostile_requests() -> None:
    assert len(HOSTILE) >= 100
    assert len({each.what for each in HOSTILE}) == len(HOSTILE)


def _answered(server: Server, each: Hostile, cookie: str, token: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.putrequest(each.method, each.path.encode("latin-1", "replace").decode("latin-1"),
                          skip_host="Host" in each.headers, skip_accept_encoding=True)
    headers = {"Cookie": cookie, **each.headers}
    if each.method == "POST":
        headers.setdefault("Content-Length", str(len(each.body)))
    for name, value in headers.items():
        connection.putheader(name, value.replace("{token}", token).encode("latin-1", "replace"))
    connection.endheaders()
    try:
        connection.send(each.body)
        found = connection.getresponse()
        return found.status, found.read()
    finally:
        connection.close()


def test_hostile_requests_are_refused(server: Server, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.client.HTTPConnection, "_validate_path", lambda self, url: None)
    outside = server.folder.parent / "secret.txt"
    outside.write_text("secret")
    (server.folder / ".hidden").write_text("secret")
    if not os.path.lexists(server.folder / "link.yaml"):
        (server.folder / "link.yaml").symlink_to(outside)
    visitor.get("/jobs")
    cookie, token = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items()), visitor.token
    before = sorted(path.name for path in server.folder.rglob("*"))
    wrong = []
    for each in HOSTILE:
        status, body = _answered(server, each, cookie, token)
        if status not in each.statuses or b"secret" in body or b"root:" in body or b"Traceback" in body:
            wrong.append((each.what, status, body[:200]))
    assert not wrong
    assert sorted(path.name for path in server.folder.rglob("*")) == before      # nothing was changed
    assert server.process.poll() is None


def test_the_same_requests_from_a_page_are_answered(server: Server, visitor: Visitor) -> None:
    """What the table refuses, it refuses for its one fault."""
    origin = f"http://127.0.0.1:{server.port}"
    for headers in ({}, {"Sec_Fetch_Site": "none"}, {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}):
        assert visitor.ask("GET", "/jobs", **headers).status == 200
    for headers in ({}, {"Origin": origin}, {"Sec_Fetch_Site": "same-origin", "Origin": origin}):
        answer = visitor.ask("POST", "/api/stop?client=a", b"", X_Astrarium_Token=visitor.token, **headers)
        assert (answer.status, answer.json) == (200, {"stopped": False})
    for host in ("localhost", "localhost:9999", "[::1]:80"):       # a tunnel has another port
        assert visitor.ask("GET", "/jobs", Host=host).status == 200


def test_a_body_without_a_length_is_cut_at_the_limit(server: Server, visitor: Visitor) -> None:
    visitor.get("/jobs")
    cookie = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
    with socket.create_connection(("127.0.0.1", server.port), 30) as wire:
        wire.sendall(f"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n"
                     f"X-Astrarium-Token: {visitor.token}\r\nContent-Type: application/json\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n".encode())
        try:
            for _ in range(64):
                wire.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        except OSError:
            pass        # the server has hung up
        assert wire.recv(1 << 16).split()[1] == b"413"


def _called(settings: Settings, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """One request of an application without a server: status, headers, body."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    name, _, query = path.partition("?")
    scope = {"type": "http", "method": method, "path": name, "raw_path": name.encode(), "query_string": query.encode(),
             "root_path": "", "scheme": "http", "http_version": "1.1", "server": ("127.0.0.1", 80),
             "headers": [(key.replace("_", "-").lower().encode(), value.encode()) for key, value in
                         {"Host": "localhost", **headers}.items()]}
    asyncio.run(make_app(settings)(scope, receive, send))
    found = {key.decode(): value.decode() for key, value in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(each.get("body", b"") for each in sent[1:]).decode()


def test_a_token_is_asked_for_and_kept(tmp_path: Path) -> None:
    settings = Settings(str(folder_in(tmp_path)), token="correct-horse")
    for path in ("/", "/?token=wrong", "/jobs?token=correct-horse", "/raw/small.yaml", "/api/jobs",
                 "/static/workbench.js", "/openapi.json"):
        assert _called(settings, "GET", path)[0] == 401, path
    status, headers, _ = _called(settings, "GET", "/?token=correct-horse")
    assert (status, headers["location"]) == (303, "/")      # the token leaves the address
    mark = hmac.new(b"correct-horse", b"visitor", "sha256").hexdigest()
    assert _called(settings, "GET", "/jobs", Cookie=f"astrarium_visitor={mark}")[0] == 200
    assert link_of(settings).endswith("/?token=correct-horse")


def test_a_read_only_server_changes_nothing(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    settings = Settings(str(folder), read_only=True)
    before = sorted(path.name for path in folder.rglob("*"))
    for path in ("/api/jobs", "/api/jobs/none/stop", "/api/designs", "/api/stop?client=a", "/api/files?name=new.yaml"):
        status, _, body = _called(settings, "POST", path)
        assert (status, "read-only" in body) == (403, True), path
    assert "data-read-only" in _called(settings, "GET", "/files")[2]
    assert sorted(path.name for path in folder.rglob("*")) == before


def test_any_address_means_no_other_name(tmp_path: Path) -> None:
    settings = Settings(str(folder_in(tmp_path)), host="0.0.0.0")
    for host, status in (("192.0.2.7:8765", 200), ("localhost", 200), (socket.gethostname(), 200),
                         ("evil.example", 421)):
        assert _called(settings, "GET", "/files", Host=host)[0] == status, host


@pytest.mark.parametrize(("flags", "code", "words"), [
    (("--folder", "none"), 1, "is not a folder; expected one that exists (to make it: mkdir none)"),
    (("--token", "short"), 1, "8 to 200 characters"),
    (("--port", "70000"), 2, "a port, 0 to 65535"), (("--host", "203.0.113.9", "--port", "0"), 1, "cannot be used")])
def test_wrong_flags_are_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...],
                                 code: int, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    said = run("web", *flags)
    assert (said.code, words in said.err) == (code, True), said.err
