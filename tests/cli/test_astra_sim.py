"""The drop-in face: ASTRA-sim's flags, lines and JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from astrarium.cli import main

from .conftest import RANKS, Run

LINE = re.compile(r"sys\[(\d+)\] finished, (\d+) cycles, exposed communication (-?\d+) cycles\.")


def rows(text: str) -> list[tuple[int, int, int]]:
    """(rank, finish, exposed) of every line; every line must be one of ASTRA-sim's."""
    found = []
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        assert match is not None, line
        found.append((int(match[1]), int(match[2]), int(match[3])))
    return found


def test_lines_and_json_say_the_same(flags: list[str], run: Run) -> None:
    lines, said = run("astra-sim", *flags), run("astra-sim", *flags, "--json")
    assert (lines.code, lines.err, said.code, said.err) == (0, "", 0, "")
    found = json.loads(said.out)
    by_rank = [(row["rank"], row["finish_ns"], row["exposed_comm_ns"]) for row in found["ranks"]]
    assert rows(lines.out) == by_rank
    assert [row[0] for row in by_rank] == list(range(RANKS))
    assert found["makespan_ns"] == max(row[1] for row in by_rank)
    assert set(found["cpu_s"]) == {"start", "read", "lower", "execute"}
    assert all(value >= 0 for value in found["cpu_s"].values())
    assert found["cpu_s"]["start"] > 0
    assert found["events"] > 0
    assert 1 <= found["classes"] <= RANKS


def test_a_ring_by_hand(flags: list[str], run: Run) -> None:
    """An all_reduce of 1 MiB in 2 chunks on a ring of 4 at 50 * 2^30 B/s and 500 ns, a message and 3 us of compute.

    Compute is 5 + 3 us; exposed communication is what remains of the finish, by ASTRA-sim's definition.
    """
    for _, finish, exposed in rows(run("astra-sim", *flags).out):
        assert finish - exposed == 8_000
        assert finish > 8_000 + 6 * 500


@pytest.mark.parametrize("more", [["--fold", "off"], ["--fold=auto"], ["--pure"]])
def test_folding_and_the_pure_engine_give_the_same_lines(more: list[str], flags: list[str], run: Run) -> None:
    assert run("astra-sim", *flags, *more).out == run("astra-sim", *flags).out


def test_flags_may_be_followed_by_a_space(flags: list[str], run: Run) -> None:
    apart = [part for flag in flags for part in flag.split("=", 1)]
    assert run("astra-sim", *apart).out == run("astra-sim", *flags).out


def test_both_back_ends(flags: list[str], run: Run) -> None:
    for backend in ("congestion_unaware", "congestion_aware"):
        said = run("astra-sim", *flags, "--backend", backend)
        assert (said.code, len(rows(said.out))) == (0, RANKS)
    assert run("astra-sim", *flags, "--backend", "packet").code == 2


@pytest.mark.parametrize(("text", "on"), [("true", True), ("1", True), ("T", True), ("false", False), ("0", False)])
def test_rendezvous_takes_what_astra_sim_takes(text: str, on: bool, flags: list[str], run: Run) -> None:
    base = rows(run("astra-sim", *flags).out)
    found = rows(run("astra-sim", *flags, f"--rendezvous-protocol={text}").out)
    assert (found != base) == on
    if on:
        assert rows(run("astra-sim", *flags, "--rendezvous-protocol").out) == found


def test_rendezvous_refuses_other_words(flags: list[str], run: Run) -> None:
    said = run("astra-sim", *flags, "--rendezvous-protocol=perhaps")
    assert (said.code, "expected true or false" in said.err) == (2, True)


@pytest.mark.parametrize("name", ["compute", "comm"])
def test_scales_change_nothing_and_say_so(name: str, flags: list[str], run: Run) -> None:
    base, same, other = (run("astra-sim", *flags, *more) for more in ([], [f"--{name}-scale=1"], [f"--{name}-scale=2"]))
    assert base.out == same.out == other.out
    assert same.err == ""
    assert f"--{name}-scale changes nothing" in other.err


def test_injection_scale_and_queues_reach_the_engine(flags: list[str], run: Run) -> None:
    base = rows(run("astra-sim", *flags).out)
    assert rows(run("astra-sim", *flags, "--injection-scale=3").out) != base
    assert run("astra-sim", *flags, "--num-queues-per-dim", "2").code == 0
    for bad in ("--injection-scale=-1", "--injection-scale=much", "--num-queues-per-dim=0", "--num-queues-per-dim=x"):
        assert run("astra-sim", *flags, bad).code == 2


def test_logging_flags_are_accepted_with_a_note(flags: list[str], run: Run, tmp_path: Path) -> None:
    said = run("astra-sim", *flags, "--logging-configuration=empty", f"--logging-folder={tmp_path / 'log'}")
    assert said.code == 0
    assert "no log files are written" in said.err
    assert not (tmp_path / "log").exists()


def test_unread_keys_are_notes_on_stderr(flags: list[str], run: Run, tmp_path: Path) -> None:
    system = json.loads((tmp_path / "system.json").read_text())
    (tmp_path / "system.json").write_text(json.dumps({**system, "boost-mode": 1}))
    said = run("astra-sim", *flags)
    assert (said.code, len(rows(said.out))) == (0, RANKS)
    assert "boost-mode" in said.err


def broken(name: str, content: bytes | None, tmp_path: Path) -> None:
    """Replace (None: remove) one of the inputs."""
    path = tmp_path / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)


@pytest.mark.parametrize(("name", "content", "words"), [
    ("system.json", None, "system.json: cannot be read"),
    ("system.json", b"", "system.json: not JSON"),
    ("system.json", b"[]", "expected an object"),
    ("system.json", b'{"preferred-dataset-splits": "two"}', "preferred-dataset-splits"),
    ("system.json", b"\xff\xfe\x00", "system.json"),
    ("network.yml", None, "network.yml: cannot be read"),
    ("network.yml", b"", "network.yml"),
    ("network.yml", b"topology: [ Rng ]\nnpus_count: [ 4 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]", "'Ring'"),
    ("network.yml", b"topology: [", "not YAML"),
    ("memory.json", b'{"memory-type": "SOME"}', "memory-type"),
    ("et/w.2.et", None, "w.2.et does not exist; ranks that have one: 0-1, 3"),
    ("et/w.2.et", b"", "w.2.et"),
    ("et/w.2.et", b"\x05garbage", "w.2.et"),
    ("et/w.2.et", b"\x1f\x8b\x08\x00", "gzip"),
])
def test_hostile_files(name: str, content: bytes | None, words: str, flags: list[str], run: Run,
                       tmp_path: Path) -> None:
    """One message that names the file; exit code 1; nothing on stdout."""
    broken(name, content, tmp_path)
    said = run("astra-sim", *flags)
    assert (said.code, said.out) == (1, "")
    assert words in said.err
    assert "Traceback" not in said.err


def test_a_deadlock_says_who_waits(flags: list[str], run: Run, tmp_path: Path) -> None:
    from astrarium.trace import TraceBuilder

    trace = TraceBuilder()
    trace.recv("never", 0, 4096, tag=99)
    trace.write(tmp_path / "et" / "w.1.et")
    said = run("astra-sim", *flags)
    assert (said.code, said.out) == (1, "")
    assert "never" in said.err
    assert "w.1.et" in said.err


def test_timeline(flags: list[str], run: Run, tmp_path: Path) -> None:
    said = run("astra-sim", *flags, "--timeline", tmp_path / "t.json", "--timeline-ranks", "0-1")
    assert said.code == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1, 4}     # two ranks, and the network
    assert run("astra-sim", *flags, "--timeline", tmp_path / "u.json", "--timeline-ranks", "9").code == 1
    assert not (tmp_path / "u.json").exists()


def test_without_a_core_it_says_so(flags: list[str], capsys: pytest.CaptureFixture[str],
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astrarium.engine.HAVE_CORE", False)
    assert main(["astra-sim", *flags]) == 0
    assert "no compiled core here" in capsys.readouterr().err


def test_a_key_that_the_network_file_does_not_have_is_noted(flags: list[str], tmp_path: Path, run: Run) -> None:
    network = next(Path(flag.split("=", 1)[1]) for flag in flags if flag.startswith("--network"))
    network.write_text(network.read_text() + "latencies: [1]\nboost: 2\n")
    said = run("astra-sim", *flags)
    assert said.code == 0
    assert [line.split(": ", 3)[3] for line in said.err.splitlines()] == [
        "key 'latencies' is not read by ASTRA-sim; did you mean 'latency'?", "key 'boost' is not read by ASTRA-sim"]
