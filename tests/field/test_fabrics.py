"""Jobs on fabrics that users ran: users' reports, issue 35 lines 9, 10 and 13, with the values that are right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.commands import Said

import astrarium as ar

HERE = Path(__file__).parent
Run = Callable[..., Said]


@pytest.mark.parametrize("backend", ["contention", "fluid", "packets"])
def test_an_all_reduce_of_one_host_under_a_leaf(backend: str) -> None:
    """268 MB over eight XPUs with 450 GB/s each: 2 x 7/8 of it, and latencies. It took 8.13 ms over the leaf."""
    design = ar.replace(ar.load_design(HERE / "clos_one_host.yaml"), "network.backend", backend)
    assert float(ar.simulate(design).makespan) / 1e6 == pytest.approx(268 * 14 / 8 / 450, rel=0.005)


@pytest.mark.parametrize(("scale_up", "access"), [("450 GB/s", "400 GB/s"), ("32 GB/s", "50 GB/s")])
def test_traffic_of_a_host_stays_there_beside_fast_cards(scale_up: str, access: str) -> None:
    """The card of an XPU may be faster than its scale-up link, or a leaf nearer: libraries use neither in a host."""
    design = ar.replace_all(ar.load_design(HERE / "clos_one_host.yaml"), {
        "network.fabric.links.scale_up.bandwidth": scale_up, "network.fabric.links.access.bandwidth": access,
        "network.fabric.links.access.latency": "100 ns"})
    rate = float(scale_up.split(maxsplit=1)[0])
    assert float(ar.simulate(design).makespan) / 1e6 == pytest.approx(268 * 14 / 8 / rate, rel=0.005)


@pytest.mark.parametrize("backend", ["contention", "fluid", "packets"])
def test_two_jobs_on_alternate_npus_of_a_ring(backend: str) -> None:
    """Each job's message crosses two links, each link carries both jobs: alone 14 x 1 MB / 50 GB/s, together twice
    that. `contention` answered 560 us alone and a slowdown of 1.00."""
    design = ar.replace(ar.load_design(HERE / "two_jobs_one_ring.yaml"), "network.backend", backend)
    for job in ar.simulate(design).jobs:
        assert float(job.alone) == pytest.approx(280_000, rel=0.01)
        assert job.slowdown == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize(("changes", "said"), [
    (["network.backend=closed_form"], "closed_form does not see links that jobs share"),
    (["network.switching=store_and_forward"], "hides shared links"), ([], "")])
def test_what_the_back_end_does_not_see_is_said(changes: list[str], said: str, run: Run, tmp_path: Path) -> None:
    sets = [word for change in changes for word in ("--set", change)]
    found = run("run", str(HERE / "two_jobs_one_ring.yaml"), *sets)
    notes = [line for line in found.err.splitlines() if "network.backend" in line]
    assert len(notes) == bool(said)
    assert all(said in line and "packets" in line for line in notes)
    design = ar.load_design(HERE / "two_jobs_one_ring.yaml")
    for change in changes:
        design = ar.replace(design, *change.split("="))
    ar.dump_design(design, tmp_path / "design.yaml")
    assert said in run("check", str(tmp_path / "design.yaml")).err


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


@pytest.mark.parametrize("backend", ["contention", "fluid", "packets"])
def test_spines_of_a_topology_file_are_spread(backend: str, tmp_path: Path) -> None:
    """An all_to_all of 64 MB over a GPU's three links of 50 GB/s takes 64 / 150 ms at best. It took 19.3 ms, as a GPU
    used one of its switches, and all servers one spine. Each pair has one spine, so it is more than the best."""
    def makespan(**ecmp: str) -> float:
        network = ar.Network(fabric={"file": sixteen_servers(tmp_path)}, backend=backend, **ecmp)
        return float(ar.simulate(ar.Design(workload=ar.SingleCollective("all_to_all", "64 MB"),
                                           network=network), record=False).makespan) / 1e6
    assert 64 / 150 < makespan() < 2.5 * 64 / 150
    assert makespan(ecmp="off") == pytest.approx(4 * 60 / 37.5, rel=0.02)       # four GPUs over one spine
