"""Requests that are refused: other hosts and origins, traversal, bombs, visitors without a token, read-only servers."""

from __future__ import annotations

import http.client
import os
import socket
from pathlib import Path

import pytest
from tests.web.hostile import HOSTILE, Hostile
from tests.web.workbench import Server, Visitor, folder_in, served


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
        wire.sendall(f"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\nX-Astrarium-Token: {visitor.token}"
                     "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        try:
            for _ in range(64):
                wire.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        except OSError:
            pass        # the server has hung up
        assert wire.recv(1 << 16).split()[1] == b"413"


def test_a_token_is_asked_for_and_kept(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    with served(folder, "--token", "correct-horse") as server:
        assert server.link.endswith("/?token=correct-horse")
        visitor = Visitor(server)
        for path in ("/", "/?token=wrong", "/jobs?token=correct-horse", "/raw/small.yaml", "/api/jobs", "/static/workbench.js",
                     "/openapi.json"):
            assert visitor.ask("GET", path).status == 401, path
        answer = visitor.get("/?token=correct-horse")
        assert (answer.status, answer.headers["location"]) == (303, "/")       # the token leaves the address
        assert visitor.get("/jobs").status == 200
        assert all("HttpOnly" in each and "SameSite=Strict" in each for each in answer.cookies)


def test_a_read_only_server_changes_nothing(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    with served(folder, "--read-only") as server:
        visitor = Visitor(server)
        before = sorted(path.name for path in folder.rglob("*"))
        for path, value in (("/api/jobs", {"verb": "search", "space": "space.yaml"}), ("/api/jobs/none/stop", {}),
                            ("/api/designs", {"design": "small.yaml", "name": "new.yaml"}), ("/api/stop?client=a", {})):
            assert visitor.post(path, value).status == 403
        assert visitor.drop("new.yaml", b"x").status == 403
        found = visitor.get("/api/answer", [("design", "small.yaml"), ("client", "a"), ("set", "workload.tp=4")])
        assert "makespan_ps" in found.json      # looking and turning knobs changes nothing
        assert "data-read-only" in visitor.get("/").text
        assert sorted(path.name for path in folder.rglob("*")) == before


@pytest.mark.parametrize(("flags", "code", "words"), [
    (("--folder", "none"), 1, "is not a folder"), (("--token", "short"), 1, "8 to 200 characters"),
    (("--port", "70000"), 2, "a port, 0 to 65535"), (("--host", "203.0.113.9", "--port", "0"), 1, "cannot be used")])
def test_wrong_flags_are_refused(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...],
                                 code: int, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    said = run("web", *flags)
    assert (said.code, words in said.err) == (code, True), said.err
