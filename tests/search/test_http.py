"""Agents behind a URL: the messages of a command agent by POST."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Run
from tests.search.designs import small_space

from astrarium.errors import InputError
from astrarium.search import search
from astrarium.search.agents.http import Http
from astrarium.search.choice import jsonable

BASE = {axis.name: jsonable(axis.values[point]) for axis, point in zip(small_space().axes, small_space().point(0))}
Answers = Callable[[int], tuple[int, bytes]]


class Server(HTTPServer):
    """Answers request n with `answers(n)`; `heard`: the messages of each request."""

    def __init__(self, answers: Answers):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers, self.heard = answers, list[list[dict[str, Any]]]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/ask"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        assert self.headers["Content-Type"] == "application/jsonl"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.heard.append([json.loads(line) for line in body.splitlines()])
        code, answer = self.server.answers(len(self.server.heard))
        self.send_response(code)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def serve() -> Iterator[Callable[[Answers], Server]]:
    """`serve(answers)` -> a server that runs."""
    running: list[Server] = []

    def begin(answers: Answers) -> Server:
        running.append(Server(answers))
        threading.Thread(target=running[-1].serve_forever, args=(0.01,), daemon=True).start()
        return running[-1]

    yield begin
    for each in running:
        each.shutdown()
        each.server_close()


def proposal(number: int) -> tuple[int, bytes]:
    """Chunks 1 and 4 in turn."""
    return 200, json.dumps({"propose": [{**BASE, "collective.chunks": [1, 4][number % 2]}]}).encode()


def test_a_server_is_asked_once_for_each_trial_and_resumes(serve: Callable[[Answers], Server], tmp_path: Path) -> None:
    server, file = serve(proposal), tmp_path / "kept.study"
    first = search(small_space(), "makespan", agent="http:" + server.url[5:], trials=3, study=file)
    assert first.trials == 3
    kinds = [[each["type"] for each in messages] for messages in server.heard]
    assert kinds == [["space", "trial", "ask"], ["trial", "ask"], ["trial", "end"]]
    second = search(small_space(), "makespan", agent="http:" + server.url[5:], trials=4, study=file)
    assert (second.fresh, second.trials) == (1, 4)
    assert [each["type"] for each in server.heard[3]] == ["space", "trial", "trial", "trial", "ask"]


@pytest.mark.parametrize(("answers", "words"), [
    (lambda _: (500, b"no"), "answered 500"), (lambda _: (200, b"<html>"), "5 answers in a row were refused"),
    (lambda _: (307, b""), "answered 307"), (lambda _: (200, b""), "5 answers in a row were refused")])
def test_a_server_that_fails_ends_the_search(serve: Callable[[Answers], Server], answers: Answers, words: str) -> None:
    with pytest.raises(InputError, match=words):
        search(small_space(), "makespan", agent=Http(http=serve(answers).url), trials=3)


def test_nobody_there_and_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"//127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(InputError, match=r"did not answer \(timed out"):
            search(small_space(), "makespan", agent=Http(http=address, patience=0.2), trials=2)
    with pytest.raises(InputError, match="did not answer"):
        search(small_space(), "makespan", agent=Http(http=address), trials=2)


@pytest.mark.parametrize("url", ["", "//", "ftp://a/b", "file:///etc/passwd", "http://", "http://[x", "http://a:99999/"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(InputError, match=r"agent\.http"):
        search(small_space(), "makespan", agent=Http(http=url), trials=2)


def test_the_command_line_takes_urls_and_files_do_not(run: Run, tmp_path: Path) -> None:
    space = ("base: {workload: {source: collective, op: all_reduce, payload: 1 MB}, network: {dims: [{shape: ring, "
             "npus: 4, bandwidth: 50 GB/s, latency: 1 us}]}}\nchoices: {collective.chunks: [1, 2]}\n")
    (tmp_path / "space.yaml").write_text(space)
    for url in ("http://127.0.0.1:1/ask", "https://127.0.0.1:1/ask"):
        said = run("search", tmp_path / "space.yaml", "--no-study", "--trials", "2", "--agent", url)
        assert (said.code, f"{url} did not answer" in said.err) == (1, True)
        (tmp_path / "named.yaml").write_text(f"{space}agent: {url}\n")
        said = run("search", tmp_path / "named.yaml", "--no-study")
        assert (said.code, "http is outside this process" in said.err) == (1, True), said.err
