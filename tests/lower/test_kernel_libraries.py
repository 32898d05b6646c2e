"""`collective.kernels: nccl`: collectives inside the innermost dim run the kernels of a library, and say which."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.commands import Run

import astrarium as ar
from astrarium.errors import InputError
from astrarium.gpu import Gpu, Kernels, KernelTimes, kernel_time, library_kernels, library_time
from astrarium.report.notes.kernels import kernel_notes
from astrarium.result.collectives import kernel_overlap
from astrarium.trace import TraceBuilder, traces_of_bytes
from astrarium.vocab import CommOp

KIB = 1 << 10
HOST, RAILS = (ar.Switch(8, bandwidth="450 GB/s", latency="500 ns"), ar.Switch(2, bandwidth="50 GB/s", latency="2 us"))


def one(kernels: object, size: int, op: str = "all_reduce", dims: tuple[ar.Switch, ...] = (HOST,),
        compute: object = "h100_sxm") -> ar.Design:
    plain = {"workload": {"source": "collective", "op": op, "payload": f"{size} B"}, "compute": compute,
             "collective": {"kernels": kernels}}
    return ar.replace(ar.config.decode(ar.Design, {**plain, "network": {"dims": [
        {"shape": "switch", "npus": 2, "bandwidth": "1 GB/s", "latency": "1 ns"}]}}), "network", ar.Network(dims))


def ran(design: ar.Design) -> tuple[int, str]:
    """(makespan in ps, how the collective ran)."""
    result = ar.simulate(design)
    (how,) = result.collectives.how
    return result.makespan_ps, str(how)


@pytest.mark.parametrize(("op", "size"), [("all_reduce", 16 * KIB), ("all_gather", 8 * KIB),
                                          ("reduce_scatter", 512 * KIB)])
def test_a_word_takes_the_fastest_kernel_of_a_library(op: str, size: int) -> None:
    gpu, meant = ar.config.decode(Gpu, {"like": "h100_sxm"}), CommOp[op.upper()]
    times = {kernels.name: kernel_time(meant, size, 8, gpu, kernels).makespan
             for kernels in library_kernels("nccl", "h100_sxm", meant, size, 8)}
    fastest = min(times, key=lambda name: times[name])
    assert len(times) == (1 if size == 8 * KIB else 2)
    for kernels, compute in ("nccl", "h100_sxm"), ({"libraries": ["nccl"], "device": "h100_sxm"}, "b200"):
        assert ran(one(kernels, size, op, compute=compute)) == (times[fastest], f"kernel: {fastest} of nccl")


def test_the_first_library_that_has_a_kernel_counts() -> None:
    engine = library_time("engine", "h100_sxm", CommOp.ALL_REDUCE, 64 * KIB, 8).makespan
    both = {"libraries": ["engine", "nccl"]}
    assert ran(one(both, 64 * KIB)) == (engine, "kernel: one_shot_read simple get of engine")
    assert ran(one(both, 64 * KIB, "all_gather"))[1].endswith("put of nccl")
    own = {"like": "nccl", "all_reduce": {"algorithm": "one_shot", "protocol": "ll"}}
    assert ran(one(own, 64 * KIB))[1] == "kernel: one_shot ll put"


def test_others_send_messages_and_say_so() -> None:
    for kernels, size, op, dims, said in (("nccl", 64 * KIB, "all_to_all", (HOST,), "; no kernel of nccl"),
                                          ("engine", 16384 * KIB, "all_reduce", (HOST,), "; no kernel of engine"),
                                          ("nccl", 64 * KIB, "all_reduce", (HOST, RAILS), "")):
        without = ran(one(None, size, op, dims))
        assert ran(one(kernels, size, op, dims)) == (without[0], without[1] + said)


def test_it_says_what_was_not_validated() -> None:
    half = (ar.Switch(4, bandwidth="450 GB/s", latency="500 ns"),)
    assert ran(one("nccl", 64))[1].endswith("(unvalidated: measured from 1.024 kB to 67.11 MB)")
    assert ran(one("nccl", 64 * KIB, dims=half))[1].endswith("(unvalidated: not measured on 4 GPUs of h100_sxm)")
    faster = {"libraries": ["nccl"], "gpu": {"like": "h100_sxm", "link_latency": "100 ns"}}
    assert ran(one(faster, 64 * KIB))[1].endswith("(unvalidated: the GPU is not the catalog's h100_sxm)")
    assert ran(one(faster, 8 * KIB))[0] < ran(one("nccl", 8 * KIB))[0]


@pytest.mark.parametrize(("kernels", "compute", "message"), [
    ("nccl", {"model": "replay"}, r"collective.kernels.device: is missing, and compute names no device .*h100_sxm"),
    ({"libraries": ["nccl"], "device": "h100"}, "h100_sxm", r"kernels.device: 'h100' is not known.*'h100_sxm'"),
    ({"libraries": ["engine", "mscclpp"]}, "b200", r"kernels.libraries\[1\]: 'mscclpp' is not known on b200"),
    ("ncl", "h100_sxm", "'ncl'.*nccl")])
def test_what_cannot_run_is_refused(kernels: object, compute: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ar.simulate(one(kernels, 16384 * KIB, compute=compute))


def test_npus_of_several_devices_need_a_name() -> None:
    design = ar.replace(one("nccl", 64 * KIB), "npu_types", [{"npus": "0:4", "compute": "b200"}])
    with pytest.raises(InputError, match=r"collective.kernels.device: is missing, and npu_types have other devices"):
        ar.simulate(design)
    assert ran(ar.replace(design, "collective.kernels.device", "h100_sxm")) == ran(one("nccl", 64 * KIB))


def test_given_kernels_run_on_the_device_of_compute() -> None:
    given = ar.config.decode(Gpu, {"like": "h100_sxm"})
    named = one({"all_reduce": {"algorithm": "one_shot"}}, 8 * KIB)
    assert ran(named) == ran(ar.replace(named, "collective.kernels", KernelTimes(gpu=given,
                                                                                 all_reduce=Kernels("one_shot"))))


def test_a_run_notes_the_kernels_and_their_sizes(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "design.yaml"
    design = ar.replace(one("nccl", 1), "workload", ar.Inference("llama3-8b", tp=8, batch=1, phase="decode",
                                                                 context=512))
    design = ar.replace(design, "memory", {"like": "h100_sxm"})
    ar.dump_design(design, path)
    assert ar.load_design(path) == design
    done = run("run", str(path))
    expected = ["collective.kernels: all_reduce of 8.192 kB: ring ll put of nccl", "collective.kernels: all_reduce of "
                "4 B: ring ll put of nccl (unvalidated: measured from 1.024 kB to 67.11 MB)"]
    assert all(f"astrarium: note: {each}\n" in done.err for each in expected), done.err
    assert sorted(kernel_notes(design, ar.simulate(design))) == sorted(expected)


@pytest.mark.parametrize("fold", ["auto", "off"])
def test_kernels_of_different_collectives_at_once_are_named(fold: str) -> None:
    """All gather after 3 us, while an all_reduce runs: each takes its time alone, and a note says so."""
    traces = []
    for _ in range(8):
        builder = TraceBuilder()
        builder.coll("sum", CommOp.ALL_REDUCE, 64 * KIB)
        builder.coll("gather", CommOp.ALL_GATHER, 8 * KIB, after=[builder.comp("before", 3)])
        traces.append(builder.encode())
    design = ar.replace(one("nccl", 1), "workload", ar.Trace("in memory"))
    design = ar.replace_all(design, {"compute": ar.Replay(), "collective.kernels.device": "h100_sxm",
                                    "system.comm_streams": 2})
    result = ar.simulate(design, traces=traces_of_bytes(traces), fold=fold)
    sums, gathers = (library_time("nccl", "h100_sxm", op, size, 8).makespan
                     for op, size in ((CommOp.ALL_REDUCE, 64 * KIB), (CommOp.ALL_GATHER, 64 * KIB)))
    both = min(sums, 3_000_000 + gathers) - 3_000_000
    assert kernel_overlap(result.plan, result.comm) == (0, both, max(sums, 3_000_000 + gathers))
    assert result.makespan_ps == max(sums, 3_000_000 + gathers)
    assert "at the same time on rank 0 for" in list(kernel_notes(design, result))[-1]
    alone = ar.simulate(one("nccl", 64 * KIB))
    assert kernel_overlap(alone.plan, alone.comm)[1] == 0
