"""Algorithms as Chakra traces and as MSCCL programs: read again, proved, and as fast as they are natively."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astrarium import registry
from astrarium.collective import msccl_write
from astrarium.collective.algorithms import Options, algorithm_of
from astrarium.collective.config import Collective
from astrarium.collective.custom import from_traces
from astrarium.collective.export import collective_traces, schedule_of
from astrarium.collective.messages import expand, message_blocks
from astrarium.collective.msccl import msccl_program
from astrarium.collective.msccl_write import msccl_xml
from astrarium.design import Design
from astrarium.engine.plan import Kind
from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu.msccl.exam import examine_msccl
from astrarium.gpu.msccl.xml import parse_msccl
from astrarium.network.config import Dim, Network, Ring, Switch
from astrarium.simulate import simulate
from astrarium.trace import check, traces_of_bytes
from astrarium.vocab import CommOp
from astrarium.workload.single import SingleCollective

PAIRS = [(name, op) for name in registry.built_ins("algorithm") for op in sorted(algorithm_of(name).ops)
         if not algorithm_of(name).in_switch]
PROVED = (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.REDUCE_SCATTER, CommOp.ALL_TO_ALL)


@pytest.mark.parametrize(("name", "op"), PAIRS)
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_traces_hold_every_message_of_the_schedule(name: str, op: CommOp, n: int) -> None:
    size = 840 * n
    traces = traces_of_bytes(collective_traces(name, op, n, size))
    assert not [finding for finding in check(traces) if finding.severity == "error"]
    program = from_traces(traces)
    schedule = schedule_of(name, op, n)
    table = expand(schedule)
    block = 0 if op == CommOp.BARRIER else (size * n if op in (CommOp.ALL_GATHER, CommOp.GATHER) else size
                                            ) / schedule.blocks
    wanted = sorted((int(p), int(q), len(message_blocks(schedule, int(p), int(e))) * -int(-block // 1))
                    for p, q, e in zip(table.src, table.dst, table.entry, strict=True))
    found = []
    for p in range(n):
        columns = traces.of(p)[0]
        row = traces.of(p)[1]
        for at, node in enumerate(columns.comm_node.tolist()):
            if columns.type[node] == 5:
                found.append((p, int(columns.destination[row, at]), int(columns.comm_size[node])))
    assert sorted(found) == wanted
    sends = sum(int((each.kind == Kind.SEND).sum()) for each in program.programs)
    assert (sends > 0) == (len(wanted) > 0)


@pytest.mark.parametrize(("name", "op"), [pair for pair in PAIRS if pair[1] != CommOp.BARRIER])
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_msccl_programs_are_proved(name: str, op: CommOp, n: int) -> None:
    algo = parse_msccl(msccl_xml(schedule_of(name, op, n))[0])
    assert len(algo.gpus) == n
    msccl_program(algo, 840 * n)
    if op in PROVED:
        examine_msccl(algo)


def _takes(op: str, size: str, shape: Dim, algorithm: Collective) -> float:
    return float(simulate(Design(workload=SingleCollective(op, size), collective=algorithm,
                                 network=Network([shape]))).makespan)


@pytest.mark.parametrize("name", ["ring", "direct", "halving_doubling"])
def test_what_was_exported_takes_the_same_time(name: str, tmp_path: Path) -> None:
    for rank, data in enumerate(collective_traces(name, CommOp.ALL_REDUCE, 8, 10**6)):
        (tmp_path / f"a.{rank}.et").write_bytes(data)
    ring = Ring(8, bandwidth="50 GB/s", latency="500 ns")
    native = _takes("all_reduce", "1 MB", ring, Collective(all_reduce=[name], choice="none"))
    assert _takes("all_reduce", "1 MB", ring, Collective(custom={"all_reduce": f"{tmp_path}/a"})) == native


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([pair for pair in PAIRS if pair[1] != CommOp.BARRIER]), st.integers(2, 12),
       st.sampled_from([1, 100, 10_000]), st.sampled_from([Ring, Switch]))
def test_an_exported_program_takes_the_time_of_its_algorithm(pair: tuple[str, CommOp], n: int, scale: int,
                                                             kind: type[Ring] | type[Switch]) -> None:
    name, op = pair[0], pair[1].name.lower()
    program, notes = msccl_xml(schedule_of(name, pair[1], n))
    shape = kind(n, bandwidth="50 GB/s", latency="500 ns")
    size = f"{scale * 55_440} B"        # whole blocks for every n here
    with TemporaryDirectory() as folder:
        Path(folder, "a.xml").write_bytes(program)
        taken = _takes(op, size, shape, Collective(custom={op: f"{folder}/a.xml"}))
    native = _takes(op, size, shape, Collective(**{op: [name], "choice": "none"}))
    # messages that are ready in one instant may leave in another order
    assert notes or taken == pytest.approx(native, rel=0.01)


def test_messages_of_neighbours_are_one_send() -> None:
    program, notes = msccl_xml(schedule_of("halving_doubling", CommOp.ALL_REDUCE, 8))
    assert not notes
    sends = [step for gpu in parse_msccl(program).gpus for block in gpu.blocks for step in block.steps
             if step.type == "s"]
    assert sorted(step.count for step in sends) == sorted([4, 2, 1, 1, 2, 4] * 8)


def test_what_msccl_cannot_express_is_a_note() -> None:
    _, parts = msccl_xml(schedule_of("halving_doubling", CommOp.ALL_GATHER, 6))
    assert [note for note in parts if "several parts" in note]
    _, full = msccl_xml(schedule_of("double_binary_tree", CommOp.ALL_REDUCE, 4, Options(pipeline=40)))
    assert [note for note in full if "all 32 channels" in note]


def test_what_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no barrier"):
        msccl_xml(schedule_of("ring", CommOp.BARRIER, 4))
    with pytest.raises(InputError, match="participants"):
        schedule_of("ring", CommOp.ALL_REDUCE, 0)
    with pytest.raises(InputError, match="messages to write"):
        schedule_of("direct", CommOp.ALL_TO_ALL, 1 << 15)
    with pytest.raises(InputError, match="bytes"):
        collective_traces("ring", CommOp.ALL_REDUCE, 2, -1)


def test_a_program_of_too_many_steps_is_refused_while_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msccl_write, "MOST_STEPS", 300)
    msccl_xml(schedule_of("direct", CommOp.ALL_REDUCE, 4))
    with pytest.raises(InputError, match="a program of 8 GPUs has more than 300 steps; expected fewer GPUs"):
        msccl_xml(schedule_of("direct", CommOp.ALL_REDUCE, 8))
