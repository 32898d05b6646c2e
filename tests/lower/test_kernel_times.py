"""`collective.kernels`: operations inside the innermost dim take the time of their kernel, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import astrarium as ar
from astrarium import config
from astrarium.collective.kernels import Gpu, Kernels, KernelTimes, kernel_time, mscclpp_plan
from astrarium.config import ConfigError
from astrarium.errors import InputError, UnsupportedError
from astrarium.lower import Kept
from astrarium.vocab import CommOp

HOST, RAILS = (ar.Switch(8, bandwidth="450 GB/s", latency="500 ns"), ar.Switch(2, bandwidth="50 GB/s", latency="2 us"))
LL = Kernels("one_shot", protocol="ll")


@pytest.fixture(scope="module")
def gpu(root: Path) -> Gpu:
    return config.load(Gpu, root / "examples" / "astra3" / "gpu.yaml")


def one(network: ar.Network, size: int, times: KernelTimes | None, op: str = "all_reduce") -> ar.Design:
    return ar.Design(workload=ar.SingleCollective(op, f"{size} B"), network=network,
                     collective=ar.Collective(kernels=times))


def ps(design: ar.Design) -> int:
    return round(float(ar.simulate(design).makespan) * 1000)


def test_a_collective_takes_the_time_of_its_kernel(gpu: Gpu) -> None:
    times = KernelTimes(gpu=gpu, all_reduce=LL, all_gather=Kernels("ring"))
    network = ar.Network([HOST])
    assert ps(one(network, 32_768, times)) == kernel_time(CommOp.ALL_REDUCE, 32_768, 8, gpu, LL).makespan
    gathered = kernel_time(CommOp.ALL_GATHER, 32_768, 8, gpu, Kernels("ring")).makespan
    assert ps(one(network, 32_768, times, "all_gather")) == gathered
    assert ps(one(network, 32_768, times, "all_to_all")) == ps(one(network, 32_768, None, "all_to_all"))


def test_a_kernel_from_a_file_is_read_again_when_it_changed(gpu: Gpu, tmp_path: Path) -> None:
    plan, network = tmp_path / "plan.json", ar.Network([HOST])
    design = one(network, 32_768, KernelTimes(gpu=gpu, all_reduce=Kernels(program=str(plan))))
    kept, times = Kept(), []
    for kernels in LL, Kernels("all_pairs", protocol="ll"):
        plan.write_bytes(mscclpp_plan(CommOp.ALL_REDUCE, 8, kernels, threads=512).encode())
        times.append(round(float(ar.simulate(design, kept=kept).makespan) * 1000))
        assert times[-1] == kernel_time(CommOp.ALL_REDUCE, 32_768, 8, gpu, kernels).makespan
    assert times[0] != times[1]
    plan.unlink()
    with pytest.raises(InputError, match=r"collective.kernels.all_reduce.program: .*plan.json cannot be read: No such"):
        ar.simulate(design, kept=kept)


def test_groups_beyond_the_innermost_dim_send_messages(gpu: Gpu) -> None:
    network, times = ar.Network([HOST, RAILS]), KernelTimes(gpu=gpu, all_reduce=LL)
    assert ps(one(network, 32_768, times)) == ps(one(network, 32_768, None))


@pytest.fixture(scope="module")
def host(root: Path) -> ar.Design:
    """One step of decoding, tensor parallel over the eight GPUs of a host."""
    design = ar.load_design(root / "examples" / "inference" / "h100.yaml")
    return replace(design, workload=ar.Inference("llama3-8b", tp=8, batch=1, phase="decode", context=512))


def test_a_decode_step_changes_by_what_its_collectives_differ(host: ar.Design, gpu: Gpu) -> None:
    choices = (Kernels(), LL)
    runs = [ar.simulate(ar.replace(host, "collective.kernels", KernelTimes(gpu=gpu, all_reduce=each)))
            for each in choices]
    table = runs[0].collectives
    payloads, counts = np.unique(table.payload[table.op == CommOp.ALL_REDUCE], return_counts=True)
    assert counts.sum() > 60
    times = [sum(count * kernel_time(CommOp.ALL_REDUCE, size, 8, gpu, each).makespan
                 for size, count in zip(payloads.tolist(), counts.tolist(), strict=True)) for each in choices]
    simple, ll = (round(float(run.makespan) * 1000) for run in runs)
    assert simple - ll == times[0] - times[1] > 0
    assert set(table.how) == {"kernel: all_pairs simple put"}


def test_what_kernels_cannot_do_is_refused(host: ar.Design, gpu: Gpu) -> None:
    times = KernelTimes(gpu=gpu, all_gather=LL)
    with pytest.raises(UnsupportedError, match=r"collective.kernels.all_gather.algorithm: one_shot has no all_gather"):
        ps(one(ar.Network([HOST]), 32_768, times, "all_gather"))
    with pytest.raises(ConfigError, match=r"collective.kernels: do not exist under compat: astra_sim"):
        ar.replace_all(host, {"compat": "astra_sim", "collective.kernels": times})
    space = ar.Space(one(ar.Network([HOST]), 32_768, times), {"network.dims[0].latency": ["500 ns", "1 us"]})
    with pytest.raises(UnsupportedError, match="there is no floor of GPU kernels"):
        ar.search(space, minimize="makespan", agent="exact", trials=2, seed=0)


def test_a_design_file_has_kernels(host: ar.Design, gpu: Gpu, tmp_path: Path) -> None:
    design = ar.replace(host, "collective.kernels", KernelTimes(gpu=gpu, all_reduce=LL))
    ar.dump_design(design, tmp_path / "design.yaml")
    assert ar.load_design(tmp_path / "design.yaml") == design
    assert ar.get(design, "collective.kernels.all_reduce.protocol") == "ll"
