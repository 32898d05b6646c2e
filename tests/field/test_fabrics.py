"""Jobs on fabrics that users ran: users' reports, issue 35 lines 9, 10 and 13, with the values that are right."""

from __future__ import annotations

from pathlib import Path

import pytest

import astrarium as ar

HERE = Path(__file__).parent


@pytest.mark.parametrize("backend", ["fluid", "packets"])
def test_an_all_reduce_of_one_host_under_a_leaf(backend: str) -> None:
    """268 MB over eight XPUs with 450 GB/s each: 2 x 7/8 of it, and latencies. It took 8.13 ms over the leaf."""
    design = ar.replace(ar.load_design(HERE / "clos_one_host.yaml"), "network.backend", backend)
    assert float(ar.simulate(design).makespan) / 1e6 == pytest.approx(268 * 14 / 8 / 450, rel=0.005)


def sixteen_servers(folder: Path) -> str:
    """A topology file as ASTRA-sim's ns-3 reads it: 16 servers of four GPUs, each with a link to the three switches of
    its server, and these with a link to each of 24 spine switches."""
    gpus, inner, spines = 64, 48, 24
    lines = [f"{gpus + inner + spines} {inner + spines} {gpus * 3 + inner * spines}",
             " ".join(str(gpus + n) for n in range(inner + spines))]
    lines += [f"{gpu} {gpus + gpu // 4 * 3 + n} 400Gbps 0.0005ms 0" for gpu in range(gpus) for n in range(3)]
    lines += [f"{gpus + switch} {gpus + inner + n} 100Gbps 0.0005ms 0" for switch in range(inner)
              for n in range(spines)]
    (folder / "topology.txt").write_text("\n".join(lines) + "\n")
    return str(folder / "topology.txt")


@pytest.mark.parametrize("backend", ["fluid", "packets"])
def test_spines_of_a_topology_file_are_spread(backend: str, tmp_path: Path) -> None:
    """An all_to_all of 64 MB over a GPU's three links of 50 GB/s takes 64 / 150 ms at best. It took 19.3 ms, as a GPU
    used one of its switches, and all servers one spine. Each pair has one spine, so it is more than the best."""
    def makespan(**ecmp: str) -> float:
        network = ar.Network(fabric={"file": sixteen_servers(tmp_path)}, backend=backend, **ecmp)
        return float(ar.simulate(ar.Design(workload=ar.SingleCollective("all_to_all", "64 MB"),
                                           network=network), record=False).makespan) / 1e6
    assert 64 / 150 < makespan() < 2.5 * 64 / 150
    assert makespan(ecmp="off") == pytest.approx(4 * 60 / 37.5, rel=0.02)       # four GPUs over one spine
