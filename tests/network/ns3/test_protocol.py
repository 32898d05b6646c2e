"""The back end with a program that speaks the protocol without ns-3: the exam, and every fault named."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

import astrarium as ar
from astrarium.cli.progress import Running
from astrarium.engine import HAVE_CORE, Limit
from astrarium.engine.plugins.exams import EXAM_FABRIC, exam_network
from astrarium.engine.plugins.network import NEVER
from astrarium.errors import InputError, PluginError
from astrarium.network.ns3 import Ns3
from astrarium.network.ns3.medium import Ns3Network
from astrarium.network.ns3.program import VARIABLE

PEER = Path(__file__).with_name("peer.py")


def program(folder: Path, fault: str = "honest") -> str:
    """A program that runs peer.py."""
    path = folder / fault
    path.write_text(f"#!/bin/sh\nexec '{sys.executable}' -S -E '{PEER}' {fault}\n")
    path.chmod(0o755)
    return str(path)


def gone(pid: int) -> bool:
    """Whether there is no such process, zombies included."""
    return not Path(f"/proc/{pid}").exists()


def drain(network: Ns3Network) -> None:
    while (following := network.next_event_time()) < NEVER:
        network.advance(following)


def test_it_passes_the_exam(tmp_path: Path) -> None:
    settings = Ns3(program=program(tmp_path))
    exam_network(lambda: Ns3Network(EXAM_FABRIC, settings), latency=1_000_000, rounds=2)


@pytest.mark.parametrize(("fault", "message"), [
    ("silent", "said nothing for 0.3 s"),
    ("garbage", "does not speak this protocol"),
    ("other_version", "speaks version 3 of the protocol, this is version 2: build it again"),
    ("other_program", "does not speak this protocol"),
    ("dies_at_once", "ended with status 127; it said: cannot open libns3-core.so"),
])
def test_a_program_that_does_not_start(fault: str, message: str, tmp_path: Path) -> None:
    patience = "300 ms" if fault == "silent" else "20 s"
    with pytest.raises(PluginError, match=f"network ns3: .*{message}"):
        Ns3Network(EXAM_FABRIC, Ns3(program=program(tmp_path, fault), patience=patience))


@pytest.mark.parametrize(("fault", "message"), [
    ("dies", "was ended by signal 11; it said: assert failed"),
    ("refuses", "network ns3: a queue was full"),
    ("stops", "said nothing for 1 s"),
    ("closes", "closed the pipe"),
    ("unknown_message", "delivers a message 99, which is not under way"),
    ("strange_frame", r"sends a frame b'\?' of 0 bytes"),
    ("time_back", "says that -1 ps are next, at 0 ps"),
    ("loses", "ns-3 has nothing left to do, and 1 messages have not arrived; the first: 1000 bytes from NPU 0 to 1"),
    ("early", "delivers at 1000999 ps, and was asked about 1001000 ps"),
])
def test_a_program_that_fails_in_a_run(fault: str, message: str, tmp_path: Path) -> None:
    patience = "1 s" if fault == "stops" else "20 s"
    network = Ns3Network(EXAM_FABRIC, Ns3(program=program(tmp_path, fault), patience=patience))
    network.sim_send(1000, 0, 1, lambda: None)
    with pytest.raises(PluginError, match=message):
        drain(network)
    assert gone(network.pid)


def test_a_run_leaves_no_process(tmp_path: Path) -> None:
    network = Ns3Network(EXAM_FABRIC, Ns3(program=program(tmp_path)))
    pid = network.pid
    assert not gone(pid)
    network.close()
    network.close()
    assert gone(pid)
    network = Ns3Network(EXAM_FABRIC, Ns3(program=program(tmp_path)))
    pid = network.pid
    del network
    deadline = time.monotonic() + 20
    while not gone(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gone(pid)


def test_a_program_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    design = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"),
                       network=ar.Network([ar.Switch(4, bandwidth="50 GB/s", latency="500 ns")], backend="ns3"))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "missing"))
    with pytest.raises(PluginError, match=r"missing is not there; .* `make ns3` builds it \(Debian: apt-get install"):
        ar.simulate(design)
    (tmp_path / "missing").write_text("no program")
    with pytest.raises(PluginError, match=r"network ns3: .*missing does not start"):
        ar.simulate(design)


def test_a_whole_design(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A ring of 4: 6 steps of 250,000 bytes, a ps per byte and 1 us each."""
    monkeypatch.setenv(VARIABLE, program(tmp_path))
    design = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"),
                       network=ar.Network([ar.Ring(4, bandwidth="50 GB/s", latency="500 ns")], backend="ns3"),
                       collective=ar.Collective(all_reduce=["ring"], chunks=1))
    for pure in (False, True):
        assert ar.simulate(design, pure=pure).makespan_ps == 6 * 1_250_000


@pytest.mark.skipif(not HAVE_CORE, reason="the compiled core keeps the progress of a thread")
def test_a_run_tells_how_far_it_is(tmp_path: Path) -> None:
    limit = Limit()
    limit.begin()
    try:
        network = Ns3Network(EXAM_FABRIC, Ns3(program=program(tmp_path)))
        network.sim_send(1000, 0, 1, lambda: None)
        drain(network)
    finally:
        limit.end()
    assert limit.progress == (1_001_000, 0)
    assert Running(limit)().startswith("running: 1.001 us simulated, 0:0")


def test_what_it_cannot_carry() -> None:
    with pytest.raises(InputError, match=r"packet: 65001 B is impossible; expected whole bytes from 1 to 65000"):
        Ns3(packet="65001 B")
    with pytest.raises(InputError, match=r"window: .*impossible"):
        Ns3(window="2 GiB")
    with pytest.raises(InputError, match=r"transport: .*did you mean 'tcp'"):
        Ns3(transport="tpc")
