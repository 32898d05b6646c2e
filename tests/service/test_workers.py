"""Workers: nothing outside the folder, nothing beyond the limits, and life after both."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from astrarium.service.answer import Refusal, RefusedError
from astrarium.service.limits import Limits
from astrarium.service.workers import Call, Workers, folder_at


def refused(workers: Workers, operation: str, request: object, **more: object) -> Refusal:
    """Why it was refused."""
    with pytest.raises(RefusedError) as said:
        workers.call(operation, request, **more)      # type: ignore[arg-type]
    return said.value.refusal


@pytest.mark.parametrize(("what", "path", "words"), [
    ("read", "/etc/passwd", "outside"), ("read", "../up", "outside"), ("write", "../up", "outside"),
    ("append", "../up", "outside"), ("create", "../up", "outside"), ("write", "/dev/shm/astrarium", "outside"),
    ("list", "/", "outside"), ("remove", "../up", "outside"), ("move", "../up", "outside"),
    ("link", "/etc/passwd", "outside"), ("database", "../up.study", "outside"),
    ("database", "file:/tmp/up.study?mode=rwc", "outside"), ("program", "", "program"), ("shell", "", "program"),
    ("fork", "", "program"), ("library", "libm.so.6", "library"), ("library", "a.so", "library"),
    ("connect", "localhost", "server"), ("connect", "127.0.0.1", "server")])
def test_what_leaves_the_folder_is_refused(workers: Workers, folder: Path, what: str, path: str, words: str) -> None:
    (folder.parent / "up").write_text("kept")
    said = refused(workers, "probe", {"what": what, "path": path})
    assert said.kind == "input"
    assert words in said.message
    assert (folder.parent / "up").read_text() == "kept"
    assert (folder / "a.yaml").exists()


def test_a_worker_goes_on_after_refusals(workers: Workers) -> None:
    first = workers.call("probe", {"what": "pid"}).title
    assert refused(workers, "probe", {"what": "bug"}).kind == "bug"
    assert workers.call("probe", {"what": "print"}).title == "14"
    assert refused(workers, "probe", {"what": "memory"}).kind == "limit"
    assert workers.call("probe", {"what": "odd", "path": "x"}).found == {"text": "1 GB", "number": 0.5, "odd": "x"}
    assert refused(workers, "probe", {"what": "odd"}).kind == "bug"      # 1j is not plain data
    assert workers.call("probe", {"what": "pid"}).title == first


def test_a_dead_worker_is_replaced(workers: Workers) -> None:
    first = workers.call("probe", {"what": "pid"}).title
    assert refused(workers, "probe", {"what": "crash"}).kind == "limit"
    assert workers.call("probe", {"what": "pid"}).title != first


def test_cpu_time_is_limited(workers: Workers, folder: Path) -> None:
    limits, begun = Limits(seconds=0.2), time.process_time()
    with Workers(folder_at(str(folder), limits), limits, operations=workers.operations, count=1) as short:
        pid = short.call("probe", {"what": "pid"}).title
        said = refused(short, "probe", {"what": "spin"})
        assert (said.kind, "200 ms of CPU time" in said.message) == ("limit", True)
        assert short.call("probe", {"what": "pid"}).title == pid
    assert time.process_time() - begun < 1      # ours: the waiting costs nothing


def test_a_call_is_cancelled_while_it_runs(workers: Workers) -> None:
    call, seen = Call(), threading.Event()
    threading.Thread(target=lambda: (seen.wait(60), call.cancel())).start()
    said = refused(workers, "probe", {"what": "sleep"}, call=call, progress=lambda _: seen.set())
    assert (said.kind, seen.is_set()) == ("stopped", True)
    assert workers.call("probe", {"what": "pid"}).title
    assert refused(workers, "probe", {"what": "pid"}, call=call).kind == "stopped"       # it stays cancelled


def test_requests_are_checked(workers: Workers) -> None:
    assert refused(workers, "nope", {}).expected
    said = refused(workers, "run", {"desin": "a.yaml"})
    assert (said.path, said.nearest) == ("desin", "design")
    said = refused(workers, "plan", {"model": "gpt2-small", "device": "h100_sxm", "gpus": "8"})
    assert (said.path, said.message) == ("gpus", "Expected `int | null`, got `str`")
    assert refused(workers, "plan", {"model": "gpt2-small", "device": "h100_sxm", "gpus": 0}).path == "gpus"
    assert refused(workers, "save", {"name": "big.yaml", "text": "x" * 200_000}).kind == "limit"
    deep: dict[str, object] = {}
    for _ in range(3000):
        deep = {"a": deep}
    assert refused(workers, "run", {"design": deep}).kind in ("input", "limit")
    assert refused(workers, "run", {"design": object()}).kind == "input"


def test_progress_has_tables_of_rounded_figures() -> None:
    """Cells that know their exact value, as those of the layouts that a plan has so far."""
    from multiprocessing import Pipe

    from astrarium.report.tables.table import Table
    from astrarium.service.answer import Progress
    from astrarium.service.worker import _Telling
    from astrarium.units import format_time

    here, there = Pipe()
    table = Table("so far", "<>", [("tp 1", format_time(1234.5e6))], ("layout", "step"))
    _Telling(there)(Progress(1, None, "1 layout simulated", table=table))
    assert b'["tp 1","1.234 s"]' in here.recv_bytes()
