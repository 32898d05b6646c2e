"""Custom collectives from Chakra traces and MSCCL XML."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import astrarium as ar
from astrarium.collective.custom import CustomNode, custom_program, from_traces
from astrarium.collective.msccl import msccl_program
from astrarium.engine.plan import Kind
from astrarium.errors import InputError, TraceError, UnsupportedError
from astrarium.gpu.msccl.exam import examine_msccl
from astrarium.gpu.msccl.xml import STEP_TYPES, parse_msccl
from astrarium.trace import read_traces


def swap(first: int = 1, tag: int = 0) -> list[list[CustomNode]]:
    return [[CustomNode(7, Kind.SEND, (), 10, 1, tag), CustomNode(9, Kind.RECV, (), 10, 1),
             CustomNode(12, Kind.DELAY, (7, 9), duration=5)],
            [CustomNode(1, Kind.RECV, (), 10, 0), CustomNode(2, Kind.SEND, (first,), 10, 0)]]


def test_programs_are_packed_in_id_order() -> None:
    custom = custom_program(swap())
    program = custom.programs[0]
    assert program.node_id.tolist() == [7, 9, 12]
    assert program.kind.tolist() == [Kind.SEND, Kind.RECV, Kind.DELAY]
    assert program.parents.tolist() == [0, 0, 2]
    assert program.child_ptr.tolist() == [0, 1, 2, 2]
    assert program.child.tolist() == [2, 2]
    assert program.slot.tolist() == [0, 1, -1]
    assert custom.slot_peer[0].tolist() == [1, 1]
    assert custom.program_of.tolist() == [0, 1]


@pytest.mark.parametrize(("positions", "message"), [
    (swap(tag=3), "position 1: node 1: waits for 10 bytes with tag 0 from position 0, which never sends them"),
    (swap(first=2), "node 9: waits for 10 bytes with tag 0 from position 1, whose send waits, in a circle"),
    ([[CustomNode(1, Kind.SKIP, (2,)), CustomNode(2, Kind.SKIP, (1,))]], "depends on itself"),
    (swap(first=5), "node 2: depends on node 5, which does not exist"),
    ([[CustomNode(1, Kind.SKIP), CustomNode(1, Kind.SKIP)]], "two nodes have this id"),
    ([[CustomNode(1, Kind.SEND, (), 10, 4)]], "peer 4"),
    ([[CustomNode(1, Kind.SEND, (), 10, 0)]], "peer 0"),
    ([[CustomNode(1, Kind.SEND, (), 10, 1)], []], "never receives them"),
])
def test_programs_that_cannot_run_are_refused(positions: list[list[CustomNode]], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        custom_program(positions)


@pytest.mark.shared
def test_the_public_custom_ring(shared: Path) -> None:
    folder = shared / "traces" / "micro" / "custom_ring_allreduce_8npus_1MB"
    custom = from_traces(read_traces(folder / "custom_allreduce"), empty_duration=1000)
    assert len(custom.program_of) == 8
    program = custom.programs[0]
    assert program.kind.tolist().count(Kind.SEND) == 14
    assert set(program.size[program.kind == Kind.SEND].tolist()) == {131072}
    assert set(program.duration[program.kind == Kind.DELAY].tolist()) == {7_000_000}
    assert custom.slot_peer[0].tolist()[:2] == [1, 7]
    algo = parse_msccl((folder / "custom_allreduce.xml").read_bytes())
    examine_msccl(algo)
    same = msccl_program(algo, 1 << 20)
    assert [p.size.tolist() for p in same.programs] == [p.size.tolist() for p in custom.programs]
    assert [p.kind.tolist() for p in same.programs] == [p.kind.tolist() for p in custom.programs]


@pytest.mark.shared
def test_the_public_hierarchical_all_gather(shared: Path) -> None:
    algo = parse_msccl((shared / "traces" / "allgather_hierarchical.xml").read_bytes())
    examine_msccl(algo)
    custom = msccl_program(algo, 1 << 20)
    assert custom.programs[0].size.tolist() == [1 << 20] * 2 + [1 << 21] * 6


def document(coll: str, chunks: int, gpus: list[list[tuple[int, int, list[str]]]], inplace: int = 0) -> bytes:
    text = (f'<algo name="t" coll="{coll}" ngpus="{len(gpus)}" nchannels="1" nchunksperloop="{chunks}" '
            f'inplace="{inplace}">')
    for g, blocks in enumerate(gpus):
        text += f'\n<gpu id="{g}" i_chunks="{chunks}" o_chunks="{chunks}" s_chunks="9">'
        for b, (send, recv, steps) in enumerate(blocks):
            text += f'<tb id="{b}" send="{send}" recv="{recv}" chan="0">'
            for s, step in enumerate(steps):
                kind, src, dst, *rest = step.split()
                dep = rest[0].split(":") if rest else ["-1", "-1"]
                text += (f'\n<step s="{s}" type="{kind}" srcbuf="{src[0]}" srcoff="{src[1:]}" dstbuf="{dst[0]}" '
                         f'dstoff="{dst[1:]}" cnt="1" depid="{dep[0]}" deps="{dep[1]}" hasdep="0"/>')
            text += "</tb>"
        text += "</gpu>"
    return (text + "</algo>").encode()


def chain_all_reduce(n: int) -> bytes:
    """0 -> 1 -> … -> n-1 with rrs, back with rcs: one chunk, every fused step type."""
    gpus = []
    for g in range(n):
        up = ["s i0 i0"] if g == 0 else ["rrcs i0 o0"] if g == n - 1 else ["rrs i0 i0"]
        down = ["cpy i0 s0", "r o0 o0"] if g == 0 else [] if g == n - 1 else ["rcs o0 o0" if g > 0 else "r o0 o0"]
        blocks = [(g + 1 if g < n - 1 else g - 1, g - 1, up)]
        if down:
            blocks.append((g - 1, g + 1, down))
        gpus.append(blocks)
    return document("allreduce", 1, gpus)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_fused_steps_are_proved_and_lowered(n: int) -> None:
    algo = parse_msccl(chain_all_reduce(n))
    examine_msccl(algo)
    custom = msccl_program(algo, 1001, local_bandwidth=1e9)
    kinds = custom.programs[-1].kind.tolist()
    assert kinds == [Kind.RECV, Kind.DELAY, Kind.SEND]
    assert custom.programs[-1].duration.tolist() == [0, 3 * 1001 * 1000, 0]
    assert custom.programs[0].duration.tolist()[1] == 2 * 1001 * 1000


def test_thread_blocks_run_at_once(tmp_path: Path) -> None:
    """A block per peer, in order of rank: each GPU begins with the next one, as `direct`, and not all with GPU 0."""
    n = 8
    gpus = [[*((peer, peer, [f"s i0 o{g}", f"r i0 o{peer}"]) for peer in range(n) if peer != g),
             (-1, -1, [f"cpy i0 o{g}"])] for g in range(n)]
    file = tmp_path / "all_pairs.xml"
    file.write_bytes(document("allgather", n, gpus))
    found = []
    for collective in ar.Collective(custom={"all_gather": str(file)}), ar.Collective(all_gather=["direct"], chunks=1):
        network = ar.Network([ar.Switch(n, bandwidth="450 GB/s", latency="500 ns")])
        found += [ar.simulate(ar.Design(workload=ar.SingleCollective("all_gather", "8 MiB"), collective=collective,
                                        network=ar.replace(network, "backend", name))).makespan_ps
                  for name in ("closed_form", "contention")]
    assert len(set(found)) == 1
    assert found[0] == pytest.approx(7 * 2**20 / 0.45 + 1e6, abs=10)


def all_to_all(dep: str = "0:0") -> list[list[tuple[int, int, list[str]]]]:
    nop = f"nop i0 i0 {dep}" if dep == "1:0" else "nop i0 i0"
    return [[(-1, -1, ["cpy i0 o0", nop]), (1, 1, ["s i1 i1", "r o1 o1"])],
            [(-1, -1, ["cpy i1 o1"]), (0, 0, ["s i0 i0", "r o0 o0"])]]


def test_an_all_to_all_is_proved() -> None:
    examine_msccl(parse_msccl(document("alltoall", 2, all_to_all())))
    examine_msccl(parse_msccl(document("alltoall", 2, all_to_all("1:0"))))


def test_a_local_reduce_and_reduce_scatter_are_proved() -> None:
    gpus = [[(1 - g, 1 - g, [f"s i{1 - g} i{1 - g}", "r s0 s0", f"re i{g} s0", "cpy s0 o0"])] for g in range(2)]
    examine_msccl(parse_msccl(document("reduce_scatter", 2, gpus)))
    gpus[1][0][2][2] = "nop i0 i0"
    with pytest.raises(InputError, match="GPU 1's output chunk 0 lacks chunk 1 of GPU 1"):
        examine_msccl(parse_msccl(document("reduce_scatter", 2, gpus)))


def changed_all_to_all(block: int, steps: list[str]) -> bytes:
    gpus = all_to_all()
    gpus[0][block] = (gpus[0][block][0], gpus[0][block][1], steps)
    return document("alltoall", 2, gpus)


@pytest.mark.parametrize(("steps", "message"), [
    (["s i0 i0", "r o1 o1"], "GPU 1's output chunk 0 lacks chunk 1 of GPU 0"),
    (["s o1 o1", "r o1 o1"], "which holds nothing yet"),
    (["s i1 i1", "r o0 o0"], "nothing orders this step and the one on line"),
    (["r o1 o1"], "GPU 0 sends 0 messages to GPU 1 on channel 0, which receives 1"),
    (["r o1 o1", "s i1 i1 0:9"], "depends on step 9 of thread block 0"),
])
def test_wrong_algorithms_fail_with_the_reason(steps: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        examine_msccl(parse_msccl(changed_all_to_all(1, steps)))


def test_a_deadlock_is_named() -> None:
    gpus = [[(1 - g, 1 - g, ["r o1 o1", "s i1 i1"])] for g in range(2)]
    text = document("alltoall", 2, gpus)
    with pytest.raises(InputError, match="deadlock: step 0 of thread block 0 of GPU"):
        examine_msccl(parse_msccl(text))
    with pytest.raises(TraceError, match="waits for"):
        msccl_program(parse_msccl(text), 100)


def test_no_proof_without_a_root() -> None:
    with pytest.raises(UnsupportedError, match="does not name its root"):
        examine_msccl(parse_msccl(document("broadcast", 1, [[]])))
    with pytest.raises(InputError, match="did you mean 'allgather'"):
        examine_msccl(parse_msccl(document("allgathr", 1, [[]])))


HOSTILE = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "xx"><!ENTITY y "&x;&x;">]><algo name="&y;"/>'


@pytest.mark.parametrize(("text", "message"), [
    (HOSTILE, "document type"), (b"<algo", "not well-formed"), (b"", "not well-formed"),
    (b"<gpu id='0'/>", "outermost"),
    (b"<algo><tb/></algo>", "<tb> inside <algo>"), (b"<algo coll='x'/>", "no attribute 'ngpus'"),
    (b"<algo ngpus='2' nchunksperloop='1'/>", "ngpus=2, but 0 <gpu>"),
    (b"<algo ngpus='0' nchunksperloop='1'/>", "ngpus=0"),
    (b"<algo><gpu id='1'/></algo>", "GPU 1 stands at place 0"),
    (b"<algo><gpu id='0'><tb id='0'><step s='0' type='rrx'/></tb></gpu></algo>", "did you mean 'rr"),
    (b"<algo><gpu id='0'><tb id='0'><step s='1' type='s'/></tb></gpu></algo>", "steps in order"),
    (b"<algo><gpu id='0'><tb id='0'><step s='0' type='s' cnt='1e9'/>", "an integer"),
    (b"<algo><gpu id='0'><tb id='0'><step s='0' type='s' srcbuf='x'/>", "i, o or s"),
])
def test_bad_files_are_refused_with_the_line(text: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as failure:
        parse_msccl(text, path="a.xml")
    assert failure.value.path.startswith("a.xml")


@given(st.binary(max_size=300) | st.lists(st.sampled_from(
    [b"<algo ngpus='1' nchunksperloop='1'>", b"<gpu id='0'>", b"<tb id='0'>", b"</tb>", b"</gpu>", b"</algo>",
     b"<step s='0' type='nop'/>", b"<!DOCTYPE a>", b"&x;", b"\xff"]), max_size=12).map(b"".join))
def test_any_bytes_are_read_or_refused(text: bytes) -> None:
    try:
        algo = parse_msccl(text)
    except InputError:
        return
    assert all(step.type in STEP_TYPES for gpu in algo.gpus for block in gpu.blocks for step in block.steps)
