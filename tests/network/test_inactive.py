"""A design keeps the sections of other back ends: only `network.backend` changes."""

from __future__ import annotations

from pathlib import Path

import pytest

import astrarium as ar
from astrarium.network.ns3.settings import Ns3
from astrarium.network.packets import Packets
from astrarium.network.planned import network_plan

BACKENDS = ("closed_form", "contention", "fluid", "packets", "ns3", "library")
SETTINGS = {"packets": Packets(size="1 KiB", buffer="64 KiB"), "ns3": Ns3(transport="tcp"), "library": "net.so",
            "switching": "store_and_forward", "options": "of a library"}
IDLE = {"closed_form": "library, switching, packets, options, ns3", "contention": "library, packets, options, ns3",
        "fluid": "library, switching, packets, options, ns3", "packets": "library, options, ns3",
        "ns3": "library, switching, packets, options", "library": "switching, packets, ns3"}
SWITCH = ar.Switch(4, bandwidth="50 GB/s", latency="500 ns")


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_back_end_takes_a_design_with_the_sections_of_all(backend: str) -> None:
    assert ar.Network([SWITCH], backend, **SETTINGS).notes == (f"inactive with backend: {backend}: {IDLE[backend]}",)


@pytest.mark.parametrize("backend", ["closed_form", "contention", "fluid", "packets"])
def test_inactive_sections_change_nothing(backend: str) -> None:
    takes = {"packets": ("packets", "switching"), "contention": ("switching",)}.get(backend, ())
    own = {name: SETTINGS[name] for name in takes}
    runs = [ar.simulate(ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"),
                                  network=ar.Network([SWITCH], backend, **given))).makespan_ps
            for given in (SETTINGS, own)]
    assert runs[0] == runs[1]


def test_a_buffer_of_credits_waits_for_credits() -> None:
    network = ar.Network([SWITCH], "packets", packets=Packets(transport="roce", buffer="64 KiB"))
    assert network.notes == ("inactive with transport: roce: packets.buffer, the buffer of each link with credits",)
    design = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"), network=network)
    without = ar.replace(design, "network.packets.buffer", None)
    assert ar.simulate(design).makespan_ps == ar.simulate(without).makespan_ps
    assert network_plan(network, "fluid").cut_through is False


def test_a_run_says_what_is_inactive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from astrarium.cli import main

    file = tmp_path / "design.yaml"
    file.write_text("workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
                    "network:\n  backend: fluid\n  packets: {buffer: 64 KiB}\n"
                    "  dims: [{shape: switch, npus: 4, bandwidth: 50 GB/s, latency: 500 ns}]\n")
    assert main(["run", str(file)]) == 0
    assert "note: network: inactive with backend: fluid: packets" in capsys.readouterr().err
    assert main(["run", str(file), "--set", "network.backend=packets"]) == 0
    assert "inactive" not in capsys.readouterr().err
