"""`collective.kernels.units`: collectives have units of their own, and compute runs on the others at all times."""

from __future__ import annotations

import pytest

import astrarium as ar
from astrarium.engine.plugins import Plugins
from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu import Gpu, Kernels, kernel_launch, kernel_time
from astrarium.gpu.engine import run_launch
from astrarium.lower import Kept
from astrarium.lower.models import own_models
from astrarium.lower.source import read_work
from astrarium.report.notes.kernels import kernel_notes
from astrarium.trace import TraceBuilder, traces_of_bytes
from astrarium.vocab import CommOp

GPU: Gpu = ar.config.decode(Gpu, {"like": "h100_sxm"})
KERNEL, SIZE, FLOPS, BYTES = Kernels(workgroups=24, wavefronts=16, places=32), 1 << 20, 2e9, 64 << 20
ROOFLINE = {"model": "roofline", "peak": "989.4 TFLOP/s"}


def design(units: int, compute: object = ROOFLINE, *, kernel: bool = False) -> ar.Design:
    found: ar.Design = ar.config.decode(ar.Design, {
        "workload": {"source": "transformer", "model": "llama3-8b", "tp": 8, "global_batch": 4, "seq": 2048},
        "network": {"dims": [{"shape": "switch", "npus": 8, "bandwidth": "450 GB/s", "latency": "500 ns"}]},
        "compute": compute, "memory": {"like": "h100_sxm"},
        "collective": {"kernels": {"device": "h100_sxm", "units": units, "all_reduce": {
            "workgroups": 24, "wavefronts": 16, "places": 32} if kernel else None}}})
    return found


def ps(made: ar.Design, flops: float, size: int, pure: bool = False) -> int:
    """A compute node, then an all_reduce."""
    traces = []
    for _ in range(8):
        builder = TraceBuilder()
        node = builder.comp("product", num_ops=int(flops), tensor_size=size)
        builder.coll("sum", CommOp.ALL_REDUCE, SIZE, after=[node])
        traces.append(builder.encode())
    made = ar.replace(made, "workload", ar.Trace("in memory"))
    return ar.simulate(made, traces=traces_of_bytes(traces), pure=pure).makespan_ps


@pytest.mark.parametrize("units", [0, 8, 33])
@pytest.mark.parametrize("pure", [False, True])
def test_compute_has_the_peak_of_the_other_units_and_collectives_run_on_theirs(units: int, pure: bool) -> None:
    collective = kernel_time(CommOp.ALL_REDUCE, SIZE, 8, GPU, KERNEL, units=units).makespan
    product = FLOPS / (989.4e3 * (132 - units) / 132) * 1000
    assert ps(design(units, kernel=True), FLOPS, 1, pure) == pytest.approx(product + collective, abs=1)
    memory = BYTES / 3350 * 1000    # a node that waits for memory takes as long as before
    assert ps(design(units, kernel=True), 1, BYTES, pure) == pytest.approx(memory + collective, abs=1)


def test_a_launch_on_few_units_runs_there() -> None:
    launch = kernel_launch(CommOp.ALL_REDUCE, SIZE, 8, GPU, KERNEL, units=8)
    ran = run_launch(launch, record=1_000_000)
    assert ran.recorded is not None
    assert set(ran.recorded.units[0]) == set(range(8))
    assert ran.makespan > kernel_time(CommOp.ALL_REDUCE, SIZE, 8, GPU, KERNEL).makespan


def test_an_analytic_device_is_one_of_fewer_units() -> None:
    analytic = {"model": "analytic", "like": "h100_sxm"}
    (found, _), = own_models(design(33, analytic)).types
    whole = design(0, analytic).compute
    assert (found.units, found.peak) == (99, pytest.approx(0.75 * float(whole.peak)))      # type: ignore[attr-defined]
    assert float(found.fp8_peak) == pytest.approx(0.75 * float(whole.fp8_peak))            # type: ignore[attr-defined]
    assert float(ar.simulate(design(33, analytic)).makespan) > 1.02 * float(ar.simulate(design(0, analytic)).makespan)


def test_a_workload_that_is_read_once_is_timed_again() -> None:
    work = read_work(design(0), None, Kept())
    times = [ar.simulate(design(units), traces=work).makespan_ps for units in (0, 33, 0)]
    assert times[0] == times[2] < times[1] == ar.simulate(design(33)).makespan_ps


@pytest.mark.parametrize(("units", "compute", "error", "message"), [
    (132, ROOFLINE, InputError, r"kernels.units: 132 of 132 units; expected some left"),
    (8, "h100_sxm", UnsupportedError, r"compute.model: the times of measured are of all 132 units, and 124 are left"),
    (8, {"model": "replay"}, UnsupportedError, r"the times of replay are of all 132 units"),
    (8, {"model": "analytic", "like": "b200"}, InputError,
     r"compute.units: is 148, and kernels run on a GPU with 132 units")])
def test_what_has_no_units_is_refused(units: int, compute: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ar.simulate(design(units, compute))


def test_a_plug_in_s_times_are_of_all_units() -> None:
    with pytest.raises(UnsupportedError, match=r"kernels.units: with a compute plug-in"):
        ar.simulate(design(8), plugins=Plugins(compute=ar.Replay()))


def test_a_run_notes_what_is_left_out() -> None:
    made = design(24)
    assert list(kernel_notes(made, ar.simulate(made))) == [
        "collective.kernels.units: compute runs on 108 of 132 units of a GPU all the time; what kernels take of HBM's "
        "bandwidth is not taken from it"]
    assert list(kernel_notes(design(0), ar.simulate(design(0)))) == []
