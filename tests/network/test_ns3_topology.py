"""Topology files of ns-3, as ASTRA-sim and SimAI have them."""

from __future__ import annotations

from pathlib import Path

import pytest

import astrarium as ar
from astrarium.fabric.built import build

PLAIN = "5 1 4\n4\n0 4 400Gbps 0.0005ms 0\n1 4 400Gbps 0.0005ms 0\n2 4 400Gbps 0.0005ms 0\n3 4 400Gbps 0.0005ms 0\n"
SIMAI = ("7 2 2 1 8 H100\n4 5 6\n0 4 3600Gbps 0.000025ms 0\n1 4 3600Gbps 0.000025ms 0\n2 5 3600Gbps 0.000025ms 0\n"
         "3 5 3600Gbps 0.000025ms 0\n0 6 400Gbps 0.0005ms 0\n1 6 400Gbps 0.0005ms 0\n2 6 400Gbps 0.0005ms 0\n"
         "3 6 400Gbps 0.0005ms 0\n")


def file(text: str, folder: Path) -> ar.FabricFile:
    path = folder / "topology.txt"
    path.write_text(text)
    return ar.FabricFile(file=str(path))


def test_a_switch_is_a_dim(tmp_path: Path) -> None:
    (dim,) = ar.Network(fabric=file(PLAIN, tmp_path)).flat
    assert (dim.tag, dim.npus, float(dim.link_bandwidth), float(dim.latency)) == ("switch", 4, 50.0, 500.0)


def test_hosts_and_a_switch_of_all(tmp_path: Path) -> None:
    built = build(file(SIMAI, tmp_path))
    assert (built.npus, built.graph.nodes, built.graph.source.size, built.dims) == (4, 7, 16, None)
    rows = built.between((0, "switch.0"), "")
    assert built.graph.bandwidth[rows].tolist() == [450.0, 450.0]
    assert built.graph.latency[rows].tolist() == pytest.approx([25.0, 25.0])


@pytest.mark.parametrize(("text", "message"), [
    (PLAIN.replace("3 4 400", "3 9 400"), r"topology.txt:6: .* is no link"),
    (PLAIN.replace("400Gbps", "400"), "is no link"),
    (PLAIN.replace("0.0005ms", "0.0005"), "is a number without a unit"),
    (PLAIN.replace("ms 0", "ms 0.1"), "0.1 of packets are lost"),
    (PLAIN.replace("400Gbps", "0Gbps"), "a rate of 0"),
    (PLAIN.replace("5 1 4", "5 1 5"), "says 5 links, and 4 lines follow"),
    (PLAIN.replace("5 1 4", "5 6 4"), "5 nodes with 6 switches"),
    (PLAIN.replace("\n4\n", "\n5\n"), "'5' is no number of another switch")])
def test_bad_files_are_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ar.InputError, match=message):
        build(file(text, tmp_path))
