"""Built-in kernels as MSCCL++ plans and MSCCL programs: read again, proved, as fast where the format says it all."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.gpu.test_kernels import GPU

from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu import (
    Kernels,
    kernel_algo,
    kernel_algorithm,
    kernel_launch,
    msccl_launch,
    mscclpp_launch,
    mscclpp_plan,
    read_mscclpp,
)
from astrarium.gpu.engine import OpKind, Workgroup, run_launch
from astrarium.gpu.kernels.build import write_kernel
from astrarium.gpu.msccl.text import algo_xml
from astrarium.gpu.msccl.xml import parse_msccl
from astrarium.gpu.mscclpp.write import APART, ORDER, STORED, TWICE, _Plan
from astrarium.registry import names
from astrarium.vocab import CommOp

THREADS = 64        # of a wavefront: an instruction of the GPU is 1 KiB, 16 B a thread
LESS = {STORED, TWICE, ORDER}
KINDS = [(op, Kernels(name, protocol=protocol, direction=direction, workgroups=3, wavefronts=2, unroll=2))
         for name in ("one_shot", "all_pairs", "ring") for op in kernel_algorithm(name).builders
         for protocol, direction in (("simple", "put"), ("simple", "get"), ("ll", "put"))
         if direction == "put" or name != "ring"]
SWITCHED = [(op, Kernels("nvls", workgroups=3, wavefronts=2, unroll=2))
            for op in (CommOp.ALL_REDUCE, CommOp.ALL_GATHER)]


@pytest.mark.parametrize(("op", "kernels"), KINDS + SWITCHED, ids=str)
@pytest.mark.parametrize("n", [2, 4])
def test_a_plan_is_proved_and_takes_the_kernels_time(op: CommOp, kernels: Kernels, n: int, tmp_path: Path) -> None:
    plan = mscclpp_plan(op, n, kernels, threads=kernels.wavefronts * THREADS)
    file = tmp_path / "plan.json"
    file.write_bytes(plan.encode())
    own = run_launch(kernel_launch(op, 20_000, n, GPU, kernels)).makespan
    read = read_mscclpp(file)
    folded = mscclpp_launch(read, 20_000, GPU, unroll=kernels.unroll, folded=True)
    apart = mscclpp_launch(read, 20_000, GPU, unroll=kernels.unroll)
    assert len(folded.grids) == 1
    times = run_launch(folded).makespan, run_launch(apart).makespan
    less = LESS & set(plan.notes)           # rings have to load and store more, or in another order
    assert less or times[0] == own
    assert times == pytest.approx((own, own), rel=0.1 if less else 0.02)


def test_plans_have_sums_of_the_switch_for_all_alone() -> None:
    with pytest.raises(UnsupportedError, match="sums of the switch for one GPU; expected sums that go to all"):
        mscclpp_plan(CommOp.REDUCE_SCATTER, 4, Kernels("nvls"))


def test_only_rings_lack_operations_in_plans() -> None:
    for op, kernels in KINDS:
        notes = LESS & set(mscclpp_plan(op, 4, kernels).notes)
        assert not notes or kernels.algorithm == "ring"


def test_what_the_executor_has_no_room_for_is_noted() -> None:
    assert any("operations in a thread block" in note
               for note in mscclpp_plan(CommOp.ALL_REDUCE, 8, Kernels("ring")).notes)
    assert any("12 channels" in note for note in mscclpp_plan(CommOp.ALL_GATHER, 13, Kernels()).notes)
    assert any("13 sources" in note for note in mscclpp_plan(CommOp.ALL_REDUCE, 13, Kernels("one_shot")).notes)


SENT = [(op, kernels) for op, kernels in KINDS if kernels.direction == "put"]


@pytest.mark.parametrize(("op", "kernels"), SENT, ids=str)
@pytest.mark.parametrize("n", [2, 4])
def test_a_program_is_proved_and_sends_the_same_bytes(op: CommOp, kernels: Kernels, n: int) -> None:
    algo = parse_msccl(algo_xml(kernel_algo(op, n, kernels)))
    payload = 3 * 128 * n * 5                # workgroups divide a chunk
    own = run_launch(kernel_launch(op, payload, n, GPU, kernels))
    folded = msccl_launch(algo, payload, GPU, wavefronts=kernels.wavefronts, unroll=kernels.unroll, folded=True)
    ran = run_launch(folded)
    assert len(folded.grids) == 1
    assert ran.port_packets[0, :, 0].sum() == own.port_packets[0, :, 0].sum()
    if kernels.algorithm == "ring" and op != CommOp.ALL_GATHER:     # its steps are the kernel's
        assert ran.makespan == pytest.approx(own.makespan, rel=0.005)
    else:
        assert 0.7 * own.makespan < ran.makespan < 1.8 * own.makespan


def test_a_ring_that_sums_up_is_the_same_in_msccl() -> None:
    kernels = Kernels("ring", protocol="ll", workgroups=3, wavefronts=2, unroll=2)
    algo = kernel_algo(CommOp.REDUCE_SCATTER, 4, kernels)
    launch = msccl_launch(algo, 7680, GPU, wavefronts=2, unroll=2, folded=True)
    own = kernel_launch(CommOp.REDUCE_SCATTER, 7680, 4, GPU, kernels)
    assert run_launch(launch).makespan == run_launch(own).makespan


def test_every_kernel_of_the_registry_exports_to_both_or_is_refused() -> None:
    switched = [(op, kernels.algorithm) for op, kernels in SWITCHED]
    for name in names("kernel"):
        for op in kernel_algorithm(name).builders:
            if all(kernels.algorithm != name for _, kernels in KINDS):
                for export in [kernel_algo] if (op, name) in switched else [mscclpp_plan, kernel_algo]:
                    with pytest.raises(UnsupportedError):
                        export(op, 3, Kernels(name))
                continue
            document = json.loads(mscclpp_plan(op, 3, Kernels(name)).encode())
            assert [gpu["id"] for gpu in document["gpus"]] == [0, 1, 2]
            algo = parse_msccl(algo_xml(kernel_algo(op, 3, Kernels(name))))
            assert algo.coll.replace("_", "") == document["collective"]


def test_copies_to_several_peers_at_once_come_apart() -> None:
    writer = write_kernel(CommOp.ALL_GATHER, 3, 1, Kernels(workgroups=1))
    one, two = (op for op in writer.groups[0].operations if op.kind == OpKind.MEMCPY and op.targets[0].peer)
    both = replace(one, targets=(one.targets[0], two.targets[0]))
    writer.groups[0] = Workgroup((both, *writer.groups[0].operations[2:]))
    plan = _Plan(writer, whole=False, path="a")
    puts = [op for op in plan.gpu(0)["threadblocks"][0]["ops"] if op["name"] == "put"]
    assert [len(op["dst_buff"]) for op in puts] == [1, 1]
    assert puts[0] != puts[1]
    assert plan.notes == {APART}


def test_msccl_has_no_get() -> None:
    with pytest.raises(UnsupportedError, match="all_pairs simple get in an MSCCL program; expected put"):
        kernel_algo(CommOp.ALL_GATHER, 4, Kernels(direction="get"))


def test_a_kernel_from_a_file(tmp_path: Path) -> None:
    kernels = Kernels(protocol="ll", workgroups=2)
    plan, program = tmp_path / "a.json", tmp_path / "a.xml"
    plan.write_bytes(mscclpp_plan(CommOp.ALL_REDUCE, 4, kernels, threads=kernels.wavefronts * THREADS).encode())
    program.write_bytes(algo_xml(kernel_algo(CommOp.ALL_REDUCE, 4, kernels)))

    def launched(path: Path, op: CommOp = CommOp.ALL_REDUCE, n: int = 4) -> Any:
        return kernel_launch(op, 9000, n, GPU, Kernels(program=str(path)))

    own = run_launch(kernel_launch(CommOp.ALL_REDUCE, 9000, 4, GPU, kernels)).makespan
    assert run_launch(launched(plan)).makespan == own
    assert len(launched(program).grids) == 1
    for path, op, n, words in ((plan, CommOp.ALL_GATHER, 4, "is an all_reduce; expected all_gather"),
                               (program, CommOp.ALL_REDUCE, 8, "is for 4 GPUs; expected one for 8"),
                               (tmp_path / "b.xml", CommOp.ALL_REDUCE, 4, "cannot be read: No such file"),
                               (tmp_path / "b.txt", CommOp.ALL_REDUCE, 4, "b.txt'; expected an MSCCL")):
        with pytest.raises(InputError, match=words):
            launched(path, op, n)


def test_kernels_of_many_shapes_survive_both_ways(tmp_path: Path) -> None:
    """Odd sizes, workgroups and GPUs: the same proof."""
    for n, workgroups, protocol in itertools.product((2, 5), (1, 4), ("simple", "ll")):
        kernels = Kernels(protocol=protocol, workgroups=workgroups)
        (tmp_path / "p.json").write_bytes(mscclpp_plan(CommOp.ALL_REDUCE, n, kernels).encode())
        plan = read_mscclpp(tmp_path / "p.json")
        program = parse_msccl(algo_xml(kernel_algo(CommOp.ALL_REDUCE, n, kernels)))
        for payload in (100, 3000):
            assert run_launch(mscclpp_launch(plan, payload, GPU)).makespan > 0
            msccl_launch(program, payload, GPU)
