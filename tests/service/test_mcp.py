"""The MCP server, by the package's own client: in this process, and as `astrarium mcp`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Run
from tests.service.conftest import DESIGN, SPACE

from astrarium.service.answer import RefusedError
from astrarium.service.limits import Limits
from astrarium.service.mcp import server_of
from astrarium.service.operations import OPERATIONS
from astrarium.service.workers import Workers, folder_at

# Not imported here: that is a second in each process which collects the tests.
pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra mcp is not installed")
anyio = pytest.importorskip("anyio")

KNOBS = ("collective.chunks", "network.dims[0].bandwidth")
CLIENT = Callable[[Any], Awaitable[None]]


def with_client(server: Any, work: CLIENT) -> None:
    """Run `work` with a client of a server."""
    from mcp import Client

    async def session() -> None:
        with anyio.fail_after(300):
            async with Client(server) as client:
                await work(client)

    anyio.run(session)


def texts(result: Any) -> str:
    """What the model reads."""
    return str(result.content[0].text)


def test_every_operation_is_a_tool(workers: Workers) -> None:
    async def work(client: Any) -> None:
        listed = {each.name: each for each in (await client.list_tools()).tools}
        assert set(OPERATIONS) <= set(listed)
        assert "20 s of CPU time" in client.instructions
        for name in OPERATIONS:
            schema = listed[name].input_schema
            assert (schema["type"], schema["additionalProperties"]) == ("object", False)
        assert listed["plan"].input_schema["required"] == ["device"]
        assert listed["catalog"].annotations.read_only_hint
        assert not listed["run"].annotations.read_only_hint
        assert listed["run"].annotations.destructive_hint       # it may save over a file of the folder
        assert not listed["catalog"].annotations.destructive_hint
        assert len(json.dumps([each.model_dump(mode="json") for each in listed.values()])) < 28_000      # tokens

    with_client(server_of(workers), work)


def test_tools_answer_with_texts_and_exact_numbers(workers: Workers) -> None:
    async def work(client: Any) -> None:
        said = await client.call_tool("run", {"design": "a.yaml"})
        assert not said.is_error
        assert said.structured_content["numbers"]["makespan"] == {"value": 390888892, "unit": "ps"}
        assert "390.9 us" in texts(said)
        said = await client.call_tool("run", {"design": "a.yaml", "changes": {"network.dims[0].bandwith": "1 GB/s"}})
        about = said.structured_content
        assert (said.is_error, about["kind"], about["nearest"]) == (True, "input", "bandwidth")
        assert "did you mean 'bandwidth'?" in texts(said)
        for name, request in (("nope", {}), ("run", {}), ("run", {"design": 3}), ("show", {"name": "/etc/passwd"})):
            assert (await client.call_tool(name, request)).is_error

    with_client(server_of(workers), work)


def test_progress_is_told_and_a_call_is_cancelled(workers: Workers) -> None:
    async def work(client: Any) -> None:
        told: list[tuple[float, float | None, str | None]] = []
        with anyio.CancelScope() as scope:
            async def heard(done: float, total: float | None, text: str | None) -> None:
                told.append((done, total, text))
                scope.cancel()

            await client.call_tool("probe", {"what": "sleep"}, progress_callback=heard)
        assert told[0] == (1, 2, "asleep")
        begun = time.monotonic()
        assert not (await client.call_tool("probe", {"what": "pid"})).is_error      # there is one worker
        assert time.monotonic() - begun < 100

    with_client(server_of(workers), work)


@pytest.mark.exam
def test_an_assistant_searches(workers: Workers) -> None:
    """Coordinate descent with the answers of the tools alone."""
    async def work(client: Any) -> None:
        start = await client.call_tool("search_start", {"space": "space.yaml", "study": "m.study"})
        said = start.structured_content["found"]
        knobs = {each["name"]: each["values"] for each in said["space"]["knobs"]}
        best, value = said["trials"][0]["values"], said["trials"][0]["objectives"]["makespan"]
        for name, values in knobs.items():
            tries = [{**best, name: each} for each in values if each != best[name]]
            answer = (await client.call_tool("search_step", {"study": "m.study", "propose": tries})).structured_content
            for trial in answer["found"]["trials"]:
                if trial["feasible"] and trial["objectives"]["makespan"] < value:
                    best, value = trial["values"], trial["objectives"]["makespan"]
        report = (await client.call_tool("search_report", {"study": "m.study"})).structured_content["found"]
        assert (value, best[KNOBS[1]], len(report["best"])) == (438500.0, "400 GB/s", 6)

    with_client(server_of(workers), work)


def test_the_command_serves_on_standard_input(tmp_path: Path) -> None:
    from mcp import StdioServerParameters

    (tmp_path / "a.yaml").write_text(DESIGN)
    words = ["-m", "astrarium", "mcp", "--folder", str(tmp_path), "--limit", "7 s", "--limit", "3 designs",
             "--read-only"]
    server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))

    async def work(client: Any) -> None:
        assert "7 s of CPU time, 4 GB of memory and 3 designs" in client.instructions
        said = await client.call_tool("run", {"design": "a.yaml"})
        assert said.structured_content["numbers"]["makespan"]["value"] == 390888892
        assert "read-only" in texts(await client.call_tool("save", {"name": "b.yaml", "text": "x"}))

    with_client(server, work)
    assert [each.name for each in tmp_path.iterdir()] == ["a.yaml"]


def test_the_command_serves_over_http(tmp_path: Path) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    (tmp_path / "a.yaml").write_text(DESIGN)
    words = ["-m", "astrarium", "mcp", "--folder", str(tmp_path), "--http", "0", "--token", "correct-horse"]
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as it:
        try:
            assert it.stdout is not None
            address = it.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")

            async def session() -> None:
                bearer = {"Authorization": "Bearer correct-horse"}
                with anyio.fail_after(300):
                    async with httpx2.AsyncClient() as plain:
                        for headers, status in (({}, 401), ({"Authorization": "Bearer wrong-horse"}, 401),
                                                ({**bearer, "Origin": "http://localhost:1"}, 403),
                                                ({**bearer, "Host": "evil.example"}, 421)):
                            asked = await plain.post(address, json={}, headers=headers)
                            assert asked.status_code == status, headers
                    async with httpx2.AsyncClient(headers=bearer, timeout=300) as http, Client(
                            streamable_http_client(address, http_client=http)) as client:
                        said = await client.call_tool("run", {"design": "a.yaml"})
                        assert said.structured_content["numbers"]["makespan"]["value"] == 390888892

            anyio.run(session)
        finally:
            it.terminate()


def test_a_token_without_http_is_refused(run: Run) -> None:
    assert "--token" in run("mcp", "--token", "correct-horse").err


def test_a_port_that_is_taken_is_named_with_its_flag(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = [sys.executable, "-m", "astrarium", "mcp", "--folder", str(tmp_path), "--http", str(port)]
        said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == 1
    assert f"--http: 127.0.0.1:{port} cannot be used" in said.stderr


def test_a_field_of_a_tool_without_fields_is_refused(workers: Workers) -> None:
    with pytest.raises(RefusedError, match="x: unknown field; expected no fields"):
        workers.call("files", {"x": 1})


def test_a_wrong_folder_and_a_wrong_limit_are_refused(run: Run, tmp_path: Path) -> None:
    assert "is not a folder" in run("mcp", "--folder", tmp_path / "none").err
    assert "is not a limit" in run("mcp", "--limit", "much").err


@pytest.mark.exam
def test_a_thousand_trials_take_under_5_ms_of_our_time_each(tmp_path: Path) -> None:
    """CPU time of client, server and worker for trials whose designs have run before, so that all of it is ours."""
    (tmp_path / "a.yaml").write_text(DESIGN)
    (tmp_path / "space.yaml").write_text(SPACE)
    limits = Limits(designs=1005)
    points = [{KNOBS[0]: chunks, KNOBS[1]: "400 GB/s"} for chunks in (1, 2, 4, 8)]

    async def work(client: Any) -> None:
        await client.call_tool("search_start", {"space": "space.yaml", "study": "m.study"})
        await client.call_tool("search_step", {"study": "m.study", "propose": points})
        used, begun = 0.0, time.process_time()
        for number in range(1000):
            asked = {"study": "m.study", "propose": [points[number % 4]]}
            said = (await client.call_tool("search_step", asked)).structured_content
            assert said["found"]["trials"][0]["trial"] == number + 5
            used += said["cpu_seconds"]
        ours = time.process_time() - begun
        print(f"{ours:.2f} ms a trial of client and server, {used:.2f} ms of the worker")
        assert ours + used < 5.0

    with Workers(folder_at(str(tmp_path), limits), limits, count=1) as found:
        with_client(server_of(found), work)
