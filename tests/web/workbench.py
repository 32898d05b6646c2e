"""A server of the workbench for tests, and a visitor of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

DESIGN = """workload: {source: transformer, model: gpt2-small, dp: 4, tp: 2, pp: 1, global_batch: 32, seq: 256}
compute: h100_sxm
memory: {capacity: 80 GB, bandwidth: 3.35 TB/s}
network:
  dims:
  - {shape: switch, npus: 8, bandwidth: 450 GB/s, latency: 1 us}
"""
SPACE = """base: small.yaml
choices:
  network.dims[0].bandwidth: [50 GB/s, 100 GB/s, 200 GB/s, 450 GB/s]
  network.dims[0].latency: [1 us, 2 us, 4 us, 8 us]
minimize: makespan
"""


class Answer:
    """What a visitor got."""

    def __init__(self, status: int, headers: list[tuple[str, str]], body: bytes):
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers}
        self.cookies = [value for name, value in headers if name.lower() == "set-cookie"]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Server:
    """A running `astrarium web`; `link` is what it printed."""

    def __init__(self, folder: Path, *flags: str):
        self.folder = folder
        with open(folder.parent / f"{folder.name}.err", "ab") as talk:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "astrarium", "web", "--folder", str(folder), "--port", "0", *flags],
                stdout=subprocess.PIPE, stderr=talk, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
        assert self.process.stdout is not None
        self.link = self.process.stdout.readline().strip()
        found = re.match(r"http://[^/:]+:(\d+)/", self.link)
        assert found, self.link
        self.port = int(found[1])

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        self.process.send_signal(number)
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Visitor:
    """A browser without a screen: cookies, and the token of the page that was loaded last."""

    def __init__(self, server: Server):
        self.server, self.cookies, self.token = server, dict[str, str](), ""

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """One request; underscores of header names are dashes, and a header `None` is left out."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        with contextlib.closing(connection):
            sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()),
                    **{name.replace("_", "-"): value for name, value in headers.items()}}
            connection.request(method, path, body, sent)
            found = connection.getresponse()
            answer = Answer(found.status, found.getheaders(), found.read())
        for each in answer.cookies:
            name, _, rest = each.partition("=")
            self.cookies[name] = rest.partition(";")[0]
        mark = re.search(rb'data-token="([0-9a-f]{64})"', answer.body)
        self.token = mark[1].decode() if mark else self.token
        return answer

    def get(self, path: str, query: Any = ()) -> Answer:
        """Load something."""
        return self.ask("GET", path + (f"?{urlencode(query)}" if query else ""))

    def post(self, path: str, value: Any) -> Answer:
        """Change something, as the page's script does."""
        if not self.token:
            self.get("/jobs")
        return self.ask("POST", path, json.dumps(value).encode(), Content_Type="application/json",
                        X_Astrarium_Token=self.token)

    def drop(self, name: str, data: bytes) -> Answer:
        """Drop a file."""
        if not self.token:
            self.get("/jobs")
        return self.ask("POST", f"/api/files?name={quote(name)}", data, X_Astrarium_Token=self.token)


def folder_in(path: Path) -> Path:
    """A folder with a small design and a space of it."""
    folder = path / "bench"
    folder.mkdir()
    (folder / "small.yaml").write_text(DESIGN)
    (folder / "space.yaml").write_text(SPACE)
    return folder


def write_serving(folder: Path) -> None:
    """A serving file and its design."""
    (folder / "engine.yaml").write_text(
        "workload: {source: inference, tp: 4, batch: 1, prompt: 32, generated: 4, model: {family: decoder, layers: 2, "
        "d_model: 128, heads: 4, ffn: 256, vocab: 512, seq: 64}}\ncompute: h100_sxm\n"
        "memory: {capacity: 80 GB, bandwidth: 3.35 TB/s}\n"
        "network: {dims: [{shape: ring, npus: 4, bandwidth: 100 GB/s, latency: 500 ns}]}\n")
    (folder / "stream.yaml").write_text(
        "design: engine.yaml\nrequests: {kind: poisson, rate: 100, count: 20, seed: 1, prompt: 32, output: 4}\n")


@contextlib.contextmanager
def served(folder: Path, *flags: str) -> Iterator[Server]:
    """A server for a block."""
    server = Server(folder, *flags)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end()
