"""A hundred requests that no page of the workbench sends: each a line of what it is, and what it may be answered.

A request is (method, path, headers, body); `{token}` stands for a token of the visitor's session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["HOSTILE", "Hostile"]

JSON = {"Content-Type": "application/json", "X-Astrarium-Token": "{token}"}
JOB = b'{"verb": "plan", "request": {"model": "gpt2-small", "device": "h100_sxm", "gpus": 8}}'


class Hostile(NamedTuple):
    """`statuses`: what the server may answer."""

    what: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""
    statuses: tuple[int, ...] = (400, 401, 403, 404, 405, 413, 414, 415, 421, 422)


def _hosts() -> Iterator[Hostile]:
    """Names that a DNS answer could point here (rebinding), and malformed ones."""
    for host in ("evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "127.1",
                 "0.0.0.0", "[::ffff:127.0.0.1]", "localhost@evil.example", "2130706433", "", "[",
                 "LOCALHOST.evil.example:1",
                 "evil.example#localhost", "169.254.169.254", "10.0.0.1"):
        yield Hostile(f"host {host!r}", "GET", "/", {"Host": host}, statuses=(400, 421))


def _origins() -> Iterator[Hostile]:
    """Changes that a page of another server asks the visitor's browser for, with the token or without."""
    for origin in ("http://evil.example", "https://evil.example:443", "null", "http://localhost:1", "http://127.0.0.1:1",
                   "file://", "http://127.0.0.1.evil.example", "chrome-extension://abc", "http://127.0.0.1@evil.example"):
        yield Hostile(f"origin {origin}", "POST", "/api/jobs", {**JSON, "Origin": origin}, JOB, (403,))
    for site in ("cross-site", "same-site"):
        yield Hostile(f"{site} change", "POST", "/api/jobs", {**JSON, "Sec-Fetch-Site": site}, JOB, (403,))
        for mode in ("no-cors", "cors", "websocket"):
            yield Hostile(f"{site} question, {mode}", "GET", "/api/answer?design=small.yaml&client=a",
                          {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}, statuses=(403,))
        yield Hostile(f"{site} view in a frame", "GET", "/raw/small.yaml",
                      {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}, statuses=(403,))


def _tokens() -> Iterator[Hostile]:
    """Changes without the token of the session."""
    for path in ("/api/jobs", "/api/designs", "/api/files?name=x.yaml", "/api/stop?client=a", "/api/jobs/none/stop"):
        for name, token in (("no", None), ("a wrong", "0" * 64), ("an empty", ""), ("an odd", "é{token}")):
            headers = {} if token is None else {"X-Astrarium-Token": token}
            yield Hostile(f"{name} token: {path}", "POST", path, {"Content-Type": "application/json", **headers}, JOB,
                          (403,))
    yield Hostile("a form", "POST", "/api/jobs", {"Content-Type": "application/x-www-form-urlencoded"}, b"verb=plan",
                  (403,))


def _paths() -> Iterator[Hostile]:
    """Names that leave the folder."""
    for name in ("../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd",
                 "%2fetc%2fpasswd", "..\\..\\etc\\passwd", "small.yaml%00.txt", "link.yaml", ".hidden",
                 "jobs/../../secret", "a/b/c/d/e/f",
                 "~root/.ssh/id_rsa", "file:%2f%2f%2fetc%2fpasswd", "%c0%ae%c0%ae/etc/passwd", "small.yaml/..", "con"):
        yield Hostile(f"download {name}", "GET", f"/raw/{name}", {}, statuses=(400, 404, 422))
    for view in ("design", "file", "page", "job", "static"):
        yield Hostile(f"{view} outside", "GET", f"/{view}/..%2f..%2fetc%2fpasswd", {}, statuses=(400, 404, 422))
    for name in ("../x.yaml", "/tmp/x.yaml", "x.py", ".bashrc", "x.so", "x.yaml%00", "jobs/none/job.json", "",
                 "a" * 300 + ".yaml", "x.html", "x.toml.exe"):
        yield Hostile(f"store {name[:30]!r}", "POST", f"/api/files?name={name}", JSON, b"x", (400, 404, 422))
    yield Hostile("save outside", "POST", "/api/designs", JSON,
                  b'{"design": "small.yaml", "name": "../x.yaml"}', (422,))
    yield Hostile("save a program", "POST", "/api/designs", JSON, b'{"design": "small.yaml", "name": "x.py"}', (422,))


def _bodies() -> Iterator[Hostile]:
    """Bombs and nonsense."""
    yield Hostile("compressed upload", "POST", "/api/files?name=b.yaml", {**JSON, "Content-Encoding": "gzip"},
                  b"\x1f\x8b", (415,))
    yield Hostile("length beyond the limit", "POST", "/api/files?name=b.yaml",
                  {**JSON, "Content-Length": "99999999999"}, statuses=(413,))
    yield Hostile("length of no number", "POST", "/api/jobs", {**JSON, "Content-Length": "-1"}, b"", (400, 413))
    yield Hostile("large request", "POST", "/api/jobs", JSON, b'{"verb": "' + b"x" * (1 << 17) + b'"}', (413,))
    yield Hostile("deep JSON", "POST", "/api/jobs", JSON, b"[" * 30_000, (400, 422))
    yield Hostile("no JSON", "POST", "/api/jobs", JSON, b"\xff\xfe{", (400, 422))
    yield Hostile("unknown field", "POST", "/api/jobs", JSON, b'{"verb": "plan", "request": {"plugin": 1}}', (422,))
    yield Hostile("unknown verb", "POST", "/api/jobs", JSON, b'{"verb": "os.system", "request": {}}', (422,))
    yield Hostile("an agent that is a program", "POST", "/api/jobs", JSON,
                  b'{"verb": "search", "request": {"space": "space.yaml", "agent": "command:sh -c id"}}', (422,))
    yield Hostile("a flag as a model", "POST", "/api/jobs", JSON,
                  b'{"verb": "plan", "request": {"model": "--plugin=x.py", "device": "h100_sxm", "gpus": 8}}', (422,))
    yield Hostile("a device file outside", "POST", "/api/jobs", JSON,
                  b'{"verb": "plan", "request": {"model": "gpt2-small", "device": "/etc/x.toml", "gpus": 8}}', (422,))
    yield Hostile("a model outside", "POST", "/api/jobs", JSON,
                  b'{"verb": "plan", "request": {"model": "a/../../x.json", "device": "h100_sxm", "gpus": 8}}', (422,))
    yield Hostile("infinite numbers", "POST", "/api/jobs", JSON,
                  b'{"verb": "serve", "request": {"serving": "small.yaml", "changes": {"requests.rate": Infinity}}}',
                  (422,))
    yield Hostile("1e300 devices", "POST", "/api/jobs", JSON,
                  b'{"verb": "plan", "request": {"model": "gpt2-small", "device": "h100_sxm", "gpus": 1e300}}', (422,))
    yield Hostile("long address", "GET", "/api/answer?design=small.yaml&client=a&set=" + "x" * 20_000, {},
                  statuses=(400, 414))
    yield Hostile("many changes", "GET", "/api/answer?design=small.yaml&client=a" + "&set=a=1" * 65, {},
                  statuses=(422,))
    yield Hostile("odd client", "GET", "/api/progress?client=../../x", {}, statuses=(422,))
    yield Hostile("a study of another job", "POST", "/api/jobs", JSON,
                  b'{"verb": "search", "request": {"space": "/etc/space.yaml", "study": "jobs/other/search.study"}}',
                  (422,))
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        yield Hostile(method, method, "/api/jobs", {}, statuses=(405,))


HOSTILE = (*_hosts(), *_origins(), *_tokens(), *_paths(), *_bodies())
