"""The drop-in face: ASTRA-sim's flags, lines and JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.commands import Run

from astrarium.cli import main

from .conftest import RANKS

LINE = re.compile(r"sys\[(\d+)\] finished, (\d+) cycles, exposed communication (-?\d+) cycles\.")

FURTHER = re.compile(r"sys\[(\d+)\](, (Wall|CPU|GPU|Comm|Remote mem|Invalid) time: \d+"
                     r"|, Total compute-communication overlap: \d+|, (Compute|Average)[a-z ]+: [0-9.]+%?"
                     r"| peak memory usage: [0-9.]+ [KMGT]?B)")


def rows(text: str) -> list[tuple[int, int, int]]:
    """(rank, finish, exposed) of every rank; every line must be one of ASTRA-sim's."""
    found = []
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        assert match is not None or FURTHER.fullmatch(line), line
        if match is not None:
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
    assert set(found["cpu_ns"]) == {"start", "read", "lower", "execute"}
    assert all(value >= 0 for value in found["cpu_ns"].values())
    assert found["cpu_ns"]["start"] > 0
    assert found["events"] > 0
    assert 1 <= found["classes"] <= RANKS


def test_a_ring_by_hand(flags: list[str], run: Run) -> None:
    """An all_reduce of 1 MiB in 2 chunks on a ring of 4 at 50 * 2^30 B/s and 500 ns, a message and 3 us of compute.

    Compute is 5 + 3 us; exposed communication is what remains of the finish, by ASTRA-sim's definition.
    """
    for _, finish, exposed in rows(run("astra-sim", *flags).out):
        assert finish - exposed == 8_000
        assert finish > 8_000 + 6 * 500


@pytest.mark.parametrize("more", [["--fold", "off"], ["--fold=auto"]])
def test_folding_gives_the_same_lines(more: list[str], flags: list[str], run: Run) -> None:
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
    assert main(["astra-sim", *flags]) == 1
    said = capsys.readouterr()
    assert (said.out, "run in the compiled core only" in said.err) == ("", True)


def test_a_key_that_the_network_file_does_not_have_is_noted(flags: list[str], tmp_path: Path, run: Run) -> None:
    network = next(Path(flag.split("=", 1)[1]) for flag in flags if flag.startswith("--network"))
    network.write_text(network.read_text() + "latencies: [1]\nboost: 2\n")
    said = run("astra-sim", *flags)
    assert said.code == 0
    assert [line.split(": ", 3)[3] for line in said.err.splitlines()] == [
        "key 'latencies' is not read by ASTRA-sim; did you mean 'latency'?", "key 'boost' is not read by ASTRA-sim"]


def test_unknown_flags_are_ignored_with_a_note(flags: list[str], run: Run) -> None:
    plain = run("astra-sim", *flags)
    said = run("astra-sim", *flags, "--run-name=x", "--flod=off")
    assert (said.code, said.out) == (0, plain.out)
    assert said.err.splitlines() == [
        "astrarium: note: unknown argument --run-name=x (ignored, as ASTRA-sim does)",
        "astrarium: note: unknown argument --flod=off; did you mean --fold? (ignored, as ASTRA-sim does)"]
    assert run("convert", "--to", "design", *flags, "--run-name=x").code == 2


@pytest.mark.parametrize("more", [["--fold", "off"], []])
def test_the_statistics_of_a_rank(more: list[str], flags: list[str], run: Run, tmp_path: Path) -> None:
    """10^9 operations on 10^6 bytes at 100 TFLOP/s take 10 us beside an all_reduce; ASTRA-sim divides by 1 ns more."""
    from astrarium.trace import TraceBuilder
    from astrarium.vocab import CommOp

    system = json.loads((tmp_path / "system.json").read_text())
    rates = {"roofline-enabled": 1, "peak-perf": 100, "local-mem-bw": 1000}
    (tmp_path / "system.json").write_text(json.dumps({**system, **rates}))
    for rank in range(RANKS):
        trace = TraceBuilder()
        trace.comp("gemm", num_ops=10**9, tensor_size=10**6)
        trace.coll("gradients", CommOp.ALL_REDUCE, 4096)
        trace.write(tmp_path / "et" / f"w.{rank}.et")
    said = run("astra-sim", *flags, *more)
    first, *further = [line.removeprefix("sys[1]") for line in said.out.splitlines() if line.startswith("sys[1]")]
    comm = int(further[2].removeprefix(", Comm time: "))
    assert first == f" finished, {max(comm, 10_000)} cycles, exposed communication {max(comm, 10_000) - 10_000} cycles."
    assert 6 * 500 < comm < 10_000
    assert further == [
        ", Wall time: 10000", ", GPU time: 10000", f", Comm time: {comm}",
        f", Total compute-communication overlap: {comm}",
        f", Compute bound percentage: {100 * 10_000 / 10_001:.3f}%",
        f", Average compute utilization: {100 * 10_000 / 10_001:.3f}%",
        f", Average memory utilization: {10 * 10_000 / 10_001:.3f}%",
        f", Average operation intensity: {1000 * 10_000 / 10_001:.3f}"]


def _tensors(*pairs: tuple[str, int]) -> tuple[str, ...]:
    return tuple(word for name, size in pairs for word in (name, f"{size}.0"))


def test_local_memory(flags: list[str], run: Run, tmp_path: Path) -> None:
    """Weights are there from 0 to the last node that reads them; `a` from its writer on."""
    from astrarium.trace.node import Metadata, Node, attribute
    from astrarium.trace.write import write_trace

    def node(number: int, after: tuple[int, ...], reads: tuple[str, ...], writes: tuple[str, ...]) -> Node:
        return Node(id=number, name=f"n{number}", type=4, duration=1, data_deps=after, attrs=(
            attribute("is_cpu_op", False), attribute("inputs", reads, "string_list"),
            attribute("outputs", writes, "string_list")))

    system = json.loads((tmp_path / "system.json").read_text())
    name = str(tmp_path / "mem")
    (tmp_path / "system.json").write_text(json.dumps(
        {**system, "track-local-mem": 1, "local-mem-trace-filename": name}))
    nodes = [node(1, (), _tensors(("w", 3 << 20)), _tensors(("a", 1 << 20))),
             node(2, (1,), _tensors(("a", 1 << 20)), _tensors(("b", 1 << 19), ("nothing", 0)))]
    for rank in range(RANKS):
        write_trace(tmp_path / "et" / f"w.{rank}.et", Metadata(), nodes)
    said = run("astra-sim", *flags)
    assert said.code == 0
    assert [line for line in said.out.splitlines() if "memory" in line] == [
        f"sys[{rank}] peak memory usage: 4.00 MB" for rank in range(RANKS)]
    events = json.loads((tmp_path / "mem.2.json").read_text())["traceEvents"]
    assert [(event["ts"], event["args"]["Memory_MB"]) for event in events if event["ph"] == "C"] == [
        (0.0, 4.0), (1.0, 1.5), (2.0, 0.5)]
    assert {event["pid"] % 1_000_000 for event in events} == {2}
    found = json.loads(run("astra-sim", *flags, "--json").out)
    assert [row["peak_memory_bytes"] for row in found["ranks"]] == [4 << 20] * 4
    write_trace(tmp_path / "et" / "w.3.et", Metadata(), [*nodes, node(3, (2,), (), _tensors(("a", 1)))])
    again = run("astra-sim", *flags)
    assert (again.code, "node 3" in again.err, "writes tensor 'a', which was read" in again.err) == (1, True, True)


def test_local_memory_needs_the_tensors(flags: list[str], run: Run, tmp_path: Path) -> None:
    system = json.loads((tmp_path / "system.json").read_text())
    (tmp_path / "system.json").write_text(json.dumps({**system, "track-local-mem": 1}))
    said = run("astra-sim", *flags)
    assert (said.code, said.out) == (1, "")
    assert "no attribute 'inputs', which track-local-mem needs" in said.err
