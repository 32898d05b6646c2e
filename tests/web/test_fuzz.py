"""Whatever is sent to the API: no answer is an error of the server."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.web.workbench import Server, Visitor

TEXT = st.text(max_size=40) | st.sampled_from([
    "small.yaml", "space.yaml", "workload.tp=4", "workload.tp=0", "network.dims[0].latency=-1 us", "=", "a=", "../x",
    "network.dims[0].npus=1e9", "workload.global_batch=99999999999999999999", "\x00", "a" * 300, "gpt2-small", "stop",
    "h100_sxm",
    "network.dims[9].npus=2", "workload=4", "memory.capacity=1 QB", "compute.model=systolic", "workload.seq=nan"])
VALUE = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
                     lambda each: st.lists(each, max_size=3) | st.dictionaries(TEXT, each, max_size=3), max_leaves=6)
FIELDS = ("verb", "model", "today", "device", "gpus", "purpose", "objective", "seq", "rate", "serving", "space",
          "design", "changes", "minimize", "agent", "trials", "seed", "name", "sets", "ttft")
BODY = st.dictionaries(st.sampled_from(FIELDS) | TEXT, VALUE, max_size=6)
JOB = st.fixed_dictionaries({"verb": st.sampled_from(["plan", "search", "serve"]), "request": BODY})


class _Operation:
    """One operation of the server's schema, and how to draw a request of it."""

    def __init__(self, path: str, method: str, about: dict[str, Any]):
        self.path, self.method = path, method.upper()
        self.places = [each["name"] for each in about.get("parameters", ()) if each["in"] == "path"]
        self.queries = [each["name"] for each in about.get("parameters", ()) if each["in"] == "query"]

    def draw(self, data: st.DataObject) -> tuple[str, bytes | None]:
        """A path with its query, and a body."""
        path = self.path
        for name in self.places:
            path = path.replace("{" + name + "}", quote(data.draw(TEXT), safe=""))
        pairs = [(name, data.draw(TEXT if name != "client" else st.just("a") | TEXT)) for name in self.queries
                 for _ in range(data.draw(st.integers(0, 2)))]
        query = "&".join(f"{name}={quote(value)}" for name, value in pairs)
        body = json.dumps(data.draw(BODY | JOB)).encode() if self.method == "POST" else None
        return path + (f"?{query}" if query else ""), body


def _operations(visitor: Visitor) -> list[_Operation]:
    schema = visitor.get("/openapi.json").json
    return [_Operation(path, method, about) for path, methods in schema["paths"].items()
            for method, about in methods.items() if not path.endswith("/events")]


def test_nothing_that_is_sent_is_an_error_of_the_server(server: Server) -> None:
    visitor = Visitor(server)
    visitor.get("/jobs")
    operations = _operations(visitor)
    assert {"/api/answer", "/api/jobs", "/api/files"} <= {each.path for each in operations}
    seen = set[int]()

    @given(st.data())
    def one(data: st.DataObject) -> None:
        operation = data.draw(st.sampled_from(operations))
        path, body = operation.draw(data)
        answer = visitor.ask(operation.method, path, body, Content_Type="application/json",
                             X_Astrarium_Token=visitor.token)
        seen.add(answer.status)
        assert answer.status < 500, (operation.method, path, body, answer.text)
        assert "Traceback" not in answer.text

    one()
    assert {200, 422} <= seen


@pytest.mark.exam
def test_schemathesis_finds_no_error_of_the_server(server: Server) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="the fuzz of the whole schema needs schemathesis")
    visitor = Visitor(server)
    visitor.get("/jobs")
    headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in visitor.cookies.items()),
               "X-Astrarium-Token": visitor.token}
    schema = schemathesis.openapi.from_dict(visitor.get("/openapi.json").json)
    schema.config.base_url = f"http://127.0.0.1:{server.port}"
    statuses = dict[int, int]()
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events"):
            continue

        @settings(max_examples=60)
        @given(case=operation.as_strategy())
        def one(case: Any) -> None:
            answer = case.call(headers=headers)
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
            assert answer.status_code < 500, (case, answer.text)

        one()
    assert sum(statuses.values()) > 300, statuses
