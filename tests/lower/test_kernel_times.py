"""`collective.kernels`: operations inside the innermost dim take the time of their kernel, and nothing else changes.

Of collectives over several dims, phases do: kernels and messages between add up, in both engines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import astrarium as ar
from astrarium import config, engine
from astrarium.config import ConfigError
from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu import Gpu, Kernels, KernelTimes, kernel_time, mscclpp_plan
from astrarium.lower import Kept, lower
from astrarium.network.config import Change
from astrarium.trace import TraceBuilder, traces_of_bytes
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


def test_a_program_for_several_hosts_is_refused(gpu: Gpu, tmp_path: Path) -> None:
    """Else its group would send messages, and nothing would say that the program did not run."""
    plan = tmp_path / "plan.json"
    plan.write_bytes(mscclpp_plan(CommOp.ALL_REDUCE, 16, LL, threads=512).encode())
    times = KernelTimes(gpu=gpu, all_reduce=Kernels(program=str(plan)))
    with pytest.raises(UnsupportedError, match=r"all_reduce.program: .*plan.json is for 16 GPUs, and this group of 16 "
                                               r"lies over several hosts"):
        ps(one(ar.Network([HOST, RAILS]), 32_768, times))
    plan.write_bytes(mscclpp_plan(CommOp.ALL_REDUCE, 8, LL, threads=512).encode())
    over = replace(one(ar.Network([HOST, RAILS]), 32_768, times), collective=ar.Collective(
        kernels=times, composition="baseline", choice="none"))
    assert "innermost: kernel all_reduce" in ar.simulate(over).collectives.how[0]


SIZE = 1 << 20


def hierarchy(gpu: Gpu | None, backend: str = "closed_form", op: str = "all_reduce") -> ar.Design:
    """A collective over both dims, reduced within hosts first, whose phases inside a host are kernels."""
    times = None if gpu is None else KernelTimes(gpu=gpu, reduce_scatter=Kernels(), all_gather=Kernels(),
                                                 all_to_all=Kernels())
    design = one(ar.Network([HOST, RAILS], backend=backend), SIZE, times, op)
    return replace(design, collective=replace(design.collective, choice="none", composition="blueconnect"))


def inside(gpu: Gpu, op: CommOp) -> int:
    return kernel_time(op, SIZE, 8, gpu, Kernels()).makespan


@pytest.mark.parametrize("backend", ["closed_form", "contention", "fluid"])
def test_phases_inside_the_innermost_dim_take_the_time_of_their_kernels(gpu: Gpu, backend: str) -> None:
    # blueconnect: reduce_scatter in hosts, all_reduce of an eighth between them by messages, all_gather in hosts
    between = ps(replace(one(ar.Network([RAILS], backend=backend), SIZE // 8, None),
                         collective=ar.Collective(choice="none")))
    both = inside(gpu, CommOp.REDUCE_SCATTER) + inside(gpu, CommOp.ALL_GATHER)
    ran = ar.simulate(hierarchy(gpu, backend))
    assert round(float(ran.makespan) * 1000) == both + between
    assert ran.collectives.how[0].endswith("innermost: kernel all_gather all_pairs simple put, reduce_scatter "
                                           "all_pairs simple put")


@pytest.mark.parametrize("active", [1, 2, 0])
def test_kernels_of_one_collective_follow_each_other(gpu: Gpu, active: int) -> None:
    """However many chunks may be in flight: they share the ports of a GPU, so none runs beside another."""
    design = hierarchy(gpu)
    chunks, network = 4, ar.Network([HOST, ar.Switch(2, bandwidth="50 TB/s", latency="1 ps")])
    design = replace(design, network=network,
                     collective=replace(design.collective, chunks=chunks, active_chunks=active))
    each = [kernel_time(op, SIZE // chunks, 8, gpu, Kernels()).makespan
            for op in (CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER)]
    assert chunks * sum(each) <= ps(design) < chunks * sum(each) + 4_000


def test_other_phases_send_messages(gpu: Gpu) -> None:
    quiet = hierarchy(gpu, op="broadcast")
    assert ps(quiet) == ps(hierarchy(None, op="broadcast"))


def trace(op: str, microseconds: int = 0) -> bytes:
    builder = TraceBuilder()
    before = [builder.comp("before", microseconds)] if microseconds else []
    builder.coll("exchange", CommOp[op.upper()], SIZE, after=before)
    return builder.encode()


@pytest.mark.parametrize("op", ["all_reduce", "all_to_all", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize(("chunks", "active"), [(1, 1), (5, 1), (5, 2), (7, 0)])
@pytest.mark.parametrize("slow", [False, True])
def test_both_engines_and_every_rank_agree_on_phases_of_given_time(gpu: Gpu, op: str, chunks: int, active: int,
                                                                   slow: bool) -> None:
    plain, late = trace(op), trace(op, microseconds=7)    # a rank that comes later: its host waits for it
    design = hierarchy(gpu, op=op)
    design = replace(design, collective=replace(design.collective, chunks=chunks, active_chunks=active))
    plan = lower(replace(design, workload=ar.Trace("in memory")), traces_of_bytes(
        [late if slow and rank == 3 else plain for rank in range(16)]))
    assert any(phase.lasts for each in plan.collectives for chunk in each.chunks for phase in chunk.phases)
    runs = [engine.execute(plan, pure=True), engine.execute(plan, fold=False), engine.execute(plan)]
    assert len({tuple(run.finish[run.row].tolist()) for run in runs}) == 1


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
    with pytest.raises(UnsupportedError, match="GPU kernels have no lower bound"):
        ar.search(space, minimize="makespan", agent="exact", trials=2, seed=0)


def test_links_of_kernels_do_not_change(gpu: Gpu) -> None:
    network = ar.Network([ar.FullyConnected(4, bandwidth="450 GB/s", latency="500 ns"),
                          ar.FullyConnected(2, bandwidth="50 GB/s", latency="2 us")], backend="contention")
    for link in (0, 1), (1, 5):
        changed = replace(network, changes=(Change(link=link, speed=0.1),))
        if link == (1, 5):
            assert ps(one(changed, SIZE, KernelTimes(gpu=gpu, all_reduce=LL))) > 0
            continue
        with pytest.raises(UnsupportedError, match=r"network.changes\[0\].link: \[0, 1\] inside the innermost dim"):
            ps(one(changed, SIZE, KernelTimes(gpu=gpu, all_reduce=LL)))


def test_a_graph_says_by_its_dims_what_kernels_run_in(gpu: Gpu, root: Path) -> None:
    """Without dims all hosts would be one scale-up domain."""
    design = ar.load_design(root / "examples" / "fabrics" / "clos_8.yaml")
    design = ar.replace(design, "collective.kernels", KernelTimes(gpu=gpu, all_reduce=LL, reduce_scatter=Kernels(),
                                                                  all_gather=Kernels()))
    with pytest.raises(UnsupportedError, match=r"collective.kernels: on a graph no dim is the innermost one; expected "
                                               r"network.dims together with network.fabric"):
        ar.simulate(design)
    dims = [ar.Switch(2, bandwidth="100 Gb/s", latency="1 ns"), ar.Switch(4, bandwidth="100 Gb/s", latency="1 ns")]
    design = ar.replace(design, "network", replace(design.network, dims=tuple(dims)))
    found = ar.simulate(replace(design, collective=replace(design.collective, all_reduce=("ring", "ring"),
                                                           composition="blueconnect")))
    assert found.collectives.how[0].endswith("innermost: kernel all_gather all_pairs simple put, reduce_scatter "
                                             "all_pairs simple put")
    assert float(found.makespan) > SIZE / 2 * 1.5 / 12.5        # ns: between hosts messages still take their time


def test_a_design_file_has_kernels(host: ar.Design, gpu: Gpu, tmp_path: Path) -> None:
    design = ar.replace(host, "collective.kernels", KernelTimes(gpu=gpu, all_reduce=LL))
    ar.dump_design(design, tmp_path / "design.yaml")
    assert ar.load_design(tmp_path / "design.yaml") == design
    assert ar.get(design, "collective.kernels.all_reduce.protocol") == "ll"
