"""Collectives as GPU kernels: every builder passes the exam, and the exam finds what is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.draws import draws

from astrarium.config import ConfigError
from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu import (
    CopyEngines,
    Gpu,
    Kernels,
    examine_kernels,
    kernel_algorithm,
    kernel_launch,
    kernel_time,
)
from astrarium.gpu.engine import Launch, Operation, OpKind, Workgroup, run_launch
from astrarium.gpu.kernels.build import FLAGS
from astrarium.registry import names
from astrarium.vocab import CommOp

GPU = Gpu(units=8, workgroups_per_unit=2, wavefronts_per_unit=16, instruction="1 KiB", outstanding_wavefront=64,
          outstanding_workgroup=256, outstanding_unit=512, unit_bandwidth="112 GB/s", issue="0.57 ns",
          reduce_bandwidth="112 GB/s", dispatch="1 us", barrier="20 ns", fence="300 ns", network_latency="60 ns",
          channels=16, interleave="512 B", l2_bandwidth="2 TB/s", l2_latency="100 ns", hbm_bandwidth="1 TB/s",
          hbm_latency="200 ns", ports=6, port_interleave="256 B", port_bandwidth="25 GB/s", header="16 B",
          control="16 B", link_latency="500 ns",
          copy_engines=CopyEngines(count=2, bandwidth="100 GB/s", outstanding=256, dispatch="1 us"))


def every_kind() -> Iterator[tuple[CommOp, Kernels]]:
    """Each operation of each algorithm with each protocol and direction that it has."""
    for name in names("kernel"):
        line = kernel_algorithm(name)
        protocols = FLAGS if line.flags else ["simple"]
        ways = [(protocol, "put") for protocol in protocols] * line.put + [("simple", "get")] * line.get
        for op, (protocol, direction), at_once in product(line.builders, ways, (False, True)):
            yield op, Kernels(algorithm=name, protocol=protocol, direction=direction, workgroups=3, wavefronts=2,
                              unroll=2, at_once=at_once)


KINDS = list(every_kind())


@given(st.sampled_from(KINDS), st.integers(2, 5), st.integers(1, 9000), st.integers(1, 4))
@draws(40)
def test_every_kernel_passes_the_exam(kind: tuple[CommOp, Kernels], gpus: int, payload: int, workgroups: int) -> None:
    op, kernels = kind
    launch = kernel_launch(op, payload, gpus, GPU, replace(kernels, workgroups=workgroups))
    examine_kernels(launch, op, whole=kernel_algorithm(kernels.algorithm).whole)
    assert launch.symmetric


@pytest.mark.parametrize(("op", "kernels"), KINDS, ids=str)
def test_every_kernel_runs_to_its_end_and_moves_what_it_must(op: CommOp, kernels: Kernels) -> None:
    n, chunk = 4, 20
    whole = kernel_algorithm(kernels.algorithm).whole
    ran = kernel_time(op, chunk * 128 * (1 if whole else n), n, GPU, kernels)
    lines = -(-chunk * 128 // 120) if kernels.protocol == "ll128" else chunk * max(1, FLAGS[kernels.protocol])
    steps = 2 if op == CommOp.ALL_REDUCE and not whole else 1
    out = ran.port_packets[0, :, 0].sum()       # with data
    multimem = {CommOp.ALL_REDUCE: n + 1, CommOp.REDUCE_SCATTER: n, CommOp.ALL_GATHER: 1}     # parts for sums, a store
    assert out == (multimem[op] if kernels.algorithm == "nvls" else steps * (n - 1)) * lines    # nothing is sent twice


@pytest.mark.parametrize(("op", "kernels"), [kind for kind in KINDS if kind[1].algorithm == "nvls"], ids=str)
def test_the_switch_adds_alike_in_both_programs_folded_or_not(op: CommOp, kernels: Kernels) -> None:
    launch = kernel_launch(op, 20_000, 4, GPU, kernels)
    runs = [run_launch(launch, pure=pure, fold=fold) for pure, fold in product((True, False), repeat=2)]
    assert all(len({ran.makespan for ran in runs}) == 1 and (ran.ends == runs[0].ends).all() for ran in runs)
    assert all((ran.port_packets == runs[0].port_packets).all() for ran in runs)
    assert all((ran.channel_requests == runs[0].channel_requests).all() for ran in runs)
    with pytest.raises(InputError, match="of all 4 GPUs: this needs a switch"):
        run_launch(replace(launch, machine=replace(launch.machine, switched=False)))


def without(launch: Launch, drop: Callable[[Operation], bool], gpu: int | None = None) -> Launch:
    """The launch without some operations, of one GPU or of all."""
    def grid(number: int) -> tuple[Workgroup, ...]:
        keep = gpu is not None and number != gpu
        return tuple(Workgroup(tuple(op for op in group.operations if keep or not drop(op)))
                     for group in launch.grid(number))

    return replace(launch, grids=tuple(grid(number) for number in range(launch.gpus)))


def changed(launch: Launch, change: Callable[[Operation], Operation]) -> Launch:
    return replace(launch, grids=tuple(tuple(Workgroup(tuple(map(change, group.operations))) for group in grid)
                                       for grid in launch.grids))


GATHER = kernel_launch(CommOp.ALL_GATHER, 9000, 3, GPU, Kernels(workgroups=2, wavefronts=2))
REDUCE = kernel_launch(CommOp.ALL_REDUCE, 9000, 3, GPU, Kernels(workgroups=2, wavefronts=2))
RING = kernel_launch(CommOp.ALL_GATHER, 90_000, 3, GPU, Kernels(algorithm="ring", workgroups=2, wavefronts=2))
LL = kernel_launch(CommOp.ALL_GATHER, 9000, 3, GPU, Kernels(protocol="ll", workgroups=2))
BROKEN = {
    "a release is missing": (without(GATHER, lambda op: op.kind == OpKind.RELEASE and op.peer == 1, 2),
                             "GPU 0, workgroup 0, .*waits for ever for semaphore 'sent, workgroup 0' to be 2; it ends "
                             "at 1"),
    "nobody waits at the end": (without(GATHER, lambda op: op.kind == OpKind.ACQUIRE, 1),
                                "GPU 1 may end before workgroup 0 of GPU 2 has stored request"),
    "nobody waits": (without(REDUCE, lambda op: op.kind == OpKind.ACQUIRE), "unordered with GPU|nothing is yet"),
    "no fence": (changed(REDUCE, lambda op: replace(op, fence=False)), "unordered with GPU"),
    "one waits for too few": (changed(REDUCE, lambda op: replace(op, value=1) if op.kind == OpKind.ACQUIRE else op),
                              "unordered|may see 1 releases of semaphore|nothing is yet"),
    "a copy is missing": (without(GATHER, lambda op: op.kind == OpKind.MEMCPY and op.targets[0].peer == 2, 0),
                          "request .* of the output of GPU 2 ends with nothing"),
    "added twice": (changed(REDUCE, lambda op: replace(op, sources=(*op.sources, op.sources[0]))
                            if op.kind == OpKind.REDUCE else op), "ends with element 0 and contributions"),
    "elements mixed": (changed(REDUCE, lambda op: replace(op, sources=(op.sources[0], op.sources[0], *op.sources[2:]))
                               if op.kind == OpKind.REDUCE else op), "ends with element"),
    "lines that nobody stores": (without(LL, lambda op: bool(op.targets) and op.targets[0].peer == 1, 0),
                                 "waits for ever for lines with flags that nobody stores"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_the_exam_finds_and_names_what_is_broken(what: str) -> None:
    launch, words = BROKEN[what]
    op = CommOp.ALL_REDUCE if launch.buffers[0].size == launch.buffers[1].size else CommOp.ALL_GATHER
    with pytest.raises(InputError, match=words):
        examine_kernels(launch, op)


def test_wavefronts_of_a_workgroup_are_unordered_without_a_barrier() -> None:
    def shifted(op: Operation) -> Operation:
        """Read one instruction further on: what another wavefront stored."""
        if op.kind != OpKind.MEMCPY or op.sources[0].buffer != 1 or op.size < 17:
            return op
        place = replace(op.sources[0], offset=op.sources[0].offset + 8)
        return replace(op, size=op.size - 8, sources=(place,), targets=(replace(op.targets[0], offset=place.offset),))

    def late(op: Operation) -> bool:
        return op.kind in (OpKind.ACQUIRE, OpKind.RELEASE)

    own = without(RING, late)       # what is left reads what the same workgroup stored, or nothing
    with pytest.raises(InputError, match=r"unordered|nothing is yet"):
        examine_kernels(changed(own, shifted), CommOp.ALL_GATHER)


def test_ll_is_faster_for_small_payloads_and_simple_for_large_ones() -> None:
    small, large = 4096, 4 << 20
    simple, ll = (Kernels(protocol=protocol, workgroups=8) for protocol in ("simple", "ll"))
    times = {(size, name): kernel_time(CommOp.ALL_REDUCE, size, 4, GPU, kernels).makespan
             for size in (small, large) for name, kernels in (("simple", simple), ("ll", ll))}
    assert times[small, "ll"] < times[small, "simple"]
    assert times[large, "ll"] > times[large, "simple"]


def test_large_all_gathers_take_what_ports_need() -> None:
    n, size = 4, 8 << 20
    ran = kernel_time(CommOp.ALL_GATHER, size, n, GPU, Kernels(workgroups=16, wavefronts=8, unroll=4))
    wire = size * (n - 1) / n * (128 + 16 + 16) / 128 / (6 * 25)     # ns: a line, its header, the other way's answers
    assert wire < ran.makespan / 1000 < 1.15 * wire


@pytest.mark.parametrize(("op", "options", "words"), [
    (CommOp.ALL_GATHER, {"algorithm": "one_shot"}, "one_shot has no all_gather; expected one of all_pairs, ring"),
    (CommOp.ALL_GATHER, {"algorithm": "ring", "direction": "get"}, "a ring writes"),
    (CommOp.ALL_GATHER, {"protocol": "ll", "direction": "get"}, "flags stand in lines that are written"),
    (CommOp.BROADCAST, {}, "all_pairs has no broadcast; expected another operation: no kernel has this one"),
])
def test_what_there_is_not_is_refused(op: CommOp, options: dict[str, str], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        kernel_launch(op, 1024, 4, GPU, Kernels(**options))


@pytest.mark.parametrize("payload", [-1, float("nan"), float("inf")])
def test_a_payload_is_a_number_of_bytes(payload: float) -> None:
    with pytest.raises(InputError, match=f"kernels.payload: {payload} bytes; expected 0 or more"):
        kernel_launch(CommOp.ALL_REDUCE, payload, 4, GPU)


@pytest.mark.parametrize(("change", "kernels", "words"), [
    ({"outstanding_workgroup": 8}, Kernels(protocol="ll"),
     "^here.gpu.outstanding_workgroup: 8; expected at least 16, the requests of one instruction of all_pairs ll put"),
    ({"switched": False}, Kernels(), "^here.gpu.ports: 6 for 4 peers; expected a multiple of the peers, or links"),
    ({"switched": False, "ports": 8}, Kernels("nvls"),
     "^here.gpu.switched: false, and nvls simple put has the switch add"),
    ({"copy_engines": CopyEngines(count=1, bandwidth="1 GB/s", outstanding=2, dispatch="1 us")}, Kernels(),
     "^here.gpu.copy_engines.outstanding: 2; expected at least "),
    ({"multimem": False}, Kernels("nvls"), "^here.gpu.multimem: false, and nvls simple put has the switch add"),
    ({}, Kernels(wavefronts=33), "^here.all_reduce.wavefronts: 33; expected at most 16"),
])
def test_what_a_gpu_lacks_is_said_by_its_fields(change: dict[str, object], kernels: Kernels, words: str) -> None:
    with pytest.raises(InputError, match=words):
        kernel_time(CommOp.ALL_REDUCE, 1024, 5, replace(GPU, **change), kernels, path="here.all_reduce")


@pytest.mark.parametrize(("field", "value", "words"), [
    ("instruction", "200 B", "a multiple of 128"), ("interleave", "64 B", "a multiple of 128"),
    ("link_latency", "0 ns", "link_latency"), ("ports", 0, "ports"),
])
def test_a_gpu_is_checked(field: str, value: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        replace(GPU, **{field: value})
