"""Energy by operations: against sums by hand, and beside the energy that goes by time."""

from __future__ import annotations

import pytest
from tests.cost.buildings import step

import astrarium as ar
from astrarium.config import decode, replace_all
from astrarium.cost.energy import energy
from astrarium.cost.operations import operation_energy, work_of
from astrarium.errors import UnsupportedError
from astrarium.gpu import Gpu, Kernels, KernelTimes
from astrarium.workload.flops import executed_flops

ENERGIES = {"cost.flop_energy": "0.5 pJ/FLOP", "cost.memory_energy": "3.9 pJ/bit", "network.dims[0].energy": "2 pJ/bit",
            "network.dims[1].energy": "25 pJ/bit"}


def test_a_collective_moves_bits_over_hops() -> None:
    """A direct all_reduce of S bytes on a switch of n: every NPU sends 2 (n - 1) / n S, each bit over two links."""
    for backend in ("closed_form", "contention", "fluid", "packets"):
        design = ar.Design(
            workload=ar.SingleCollective("all_reduce", "8 MB"), compute=ar.Replay(idle_power="100 W"),
            network=ar.Network([ar.Switch(8, bandwidth="50 GB/s", latency="1 us", energy="10 pJ/bit")],
                               backend=backend),
            collective=ar.Collective(all_reduce=["direct"], chunks=1),
            cost=ar.Cost(flop_energy="1 pJ/FLOP", memory_energy="4 pJ/bit"))
        result = ar.simulate(design)
        found = operation_energy(design, result)
        assert found.network == (pytest.approx(2 * 8 * 2 * 7 / 8 * 8e6 * 8 * 10e-12),)
        assert found.idle == pytest.approx(800 * result.makespan_ps / 1e12)
        assert found.compute == found.memory == 0
    for given in ({"network.packets.header": "64 B"}, {"network.packets.spray": True}):      # not counted
        with pytest.raises(UnsupportedError, match=r"expected network.backend .* packets \(without header and spray\)"):
            operation_energy(replace_all(design, given), result)


@pytest.mark.parametrize("free", [False, True])
def test_bytes_of_kernels_are_not_taken_for_none(free: bool) -> None:
    """A kernel's bytes are not counted: a network energy of 0 would be wrong, unless bytes cost nothing."""
    times = KernelTimes(gpu=decode(Gpu, {"like": "h100_sxm"}), all_reduce=Kernels())
    design = ar.Design(
        workload=ar.SingleCollective("all_reduce", "64 KiB"), compute=ar.Replay(power="700 W", idle_power="100 W"),
        network=ar.Network([ar.Switch(8, bandwidth="50 GB/s", latency="1 us", energy=f"{0 if free else 2} pJ/bit")]),
        collective=ar.Collective(kernels=times), cost=ar.Cost(flop_energy="1 pJ/FLOP", memory_energy="4 pJ/bit"))
    result = ar.simulate(design)
    for figure in energy, operation_energy:
        if free:
            assert figure(design, result).network == (0,)
            continue
        with pytest.raises(UnsupportedError, match="energy: is not known where collectives have given times: kernels"):
            figure(design, result)


def test_a_step_computes_its_flops() -> None:
    design = replace_all(step(), ENERGIES)
    result = ar.simulate(design)
    flops, moved = work_of(result)
    assert flops == pytest.approx(executed_flops(design.workload), rel=0.1)     # which leaves out all but products
    assert flops >= executed_flops(design.workload) * 0.999
    found = operation_energy(design, result)
    assert found.compute == pytest.approx(flops * 0.5e-12)
    assert found.memory == pytest.approx(moved * 8 * 3.9e-12)
    twice = operation_energy(replace_all(design, {"cost.flop_energy": "1 pJ/FLOP"}), result)
    assert twice.total - found.total == pytest.approx(found.compute)


def test_traces_and_generated_work_agree(tmp_path: object) -> None:
    from astrarium.cli.dispatch import dispatch

    design = replace_all(step(), ENERGIES)
    path = f"{tmp_path}/d.yaml"
    ar.dump_design(design, path)
    assert dispatch(["trace", "write", path, "-o", f"{tmp_path}/w"]) == 0
    traced = replace_all(design, {"workload": {"source": "trace", "path": f"{tmp_path}/w.*.et",
                                                 "groups": f"{tmp_path}/w.groups.json"}})
    assert work_of(ar.simulate(traced)) == pytest.approx(work_of(ar.simulate(design)))


def test_hops_that_closed_form_does_not_count() -> None:
    ring = replace_all(replace_all(step(), {"network.dims[0].shape": "ring"}), ENERGIES)
    with pytest.raises(UnsupportedError, match=r"network.backend: closed_form does not count the hops of a ring"):
        operation_energy(ring, ar.simulate(ring))
