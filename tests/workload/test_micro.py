"""Microbenchmarks: bytes are conserved, and every pattern takes the time that its network's closed form says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium import registry
from astrarium.config import decode
from astrarium.errors import InputError
from astrarium.result import Result
from astrarium.trace.export import write_generated
from astrarium.trace.work import Generated
from astrarium.vocab import NodeKind
from astrarium.workload.config import Workload
from astrarium.workload.generate import generate
from astrarium.workload.micro import PATTERNS, Micro

RANKS, COUNT, BYTES = 8, 3, 1_000_000
LATENCY, GBPS = 500, 50            # ns, bytes/ns
WIRE = BYTES / GBPS                # ns of one message
RING, SWITCH, FULL = (shape(RANKS, bandwidth="50 GB/s", latency="500 ns")
                      for shape in (ar.Ring, ar.Switch, ar.FullyConnected))
MANY = ar.System(p2p_streams=RANKS)
LATE = {"incast": 0, "outcast": 2 * LATENCY}     # a round of sends waits for the last of the one before to arrive
FLAT = ar.Network([SWITCH])
REMOTE = ar.Memory(remote=ar.Remote("per_npu", latency="2 us", bandwidth="10 GB/s"))


def run(workload: Micro, **sections: Any) -> Result:
    return ar.simulate(ar.Design(workload=workload, **{"network": FLAT, "memory": REMOTE, **sections}))


def messages(generated: Generated, kind: NodeKind) -> list[tuple[int, int, int, int]]:
    """(from, to, tag, bytes) of all sends or receives of all ranks."""
    found = []
    for trace in generated.classes:
        comm = np.flatnonzero(trace.type >= NodeKind.COMM_SEND)
        for node, slot in zip(comm.tolist(), (range(comm.size) if trace.slot is None else trace.slot), strict=True):
            if trace.type[node] != kind:
                continue
            for row, rank in enumerate(trace.ranks.tolist()):
                peer, tag = int(trace.slot_a[row, slot]), int(trace.slot_b[row, slot])
                ends = (rank, peer) if kind == NodeKind.COMM_SEND else (peer, rank)
                found.append((*ends, tag, int(trace.comm_size[node])))
    return sorted(found)


MESSAGES = {"ring": RANKS, "pairs": RANKS, "all_to_all": RANKS * (RANKS - 1), "incast": RANKS - 1, "outcast": RANKS - 1,
            "every_type": RANKS}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_bytes_are_conserved(pattern: Any) -> None:
    workload = Micro(pattern, count=COUNT)
    generated = generate(workload, RANKS)
    assert sorted(np.concatenate([trace.ranks for trace in generated.classes]).tolist()) == list(range(RANKS))
    sent = messages(generated, NodeKind.COMM_SEND)
    assert sent == messages(generated, NodeKind.COMM_RECV)
    assert len(sent) == COUNT * MESSAGES.get(pattern, 0)
    assert {size for *_, size in sent} <= {65536}
    assert run(workload).makespan_ps > 0


@pytest.mark.parametrize(("pattern", "dim", "backend", "step"), [
    ("ring", RING, "closed_form", LATENCY + WIRE), ("ring", RING, "contention", LATENCY + WIRE),
    ("pairs", SWITCH, "closed_form", 2 * LATENCY + WIRE),
    ("all_to_all", FULL, "closed_form", LATENCY + WIRE), ("all_to_all", FULL, "contention", LATENCY + WIRE),
    ("all_to_all", SWITCH, "closed_form", 2 * LATENCY + (RANKS - 1) * WIRE)])
def test_a_pattern_takes_what_the_closed_form_says(pattern: Any, dim: Any, backend: Any, step: float) -> None:
    for count in (1, COUNT):
        result = run(Micro(pattern, count=count, payload="1 MB"), network=ar.Network([dim], backend=backend),
                     system=MANY)
        assert result.makespan_ps == round(step * count * 1000)


@pytest.mark.parametrize("pattern", ["incast", "outcast"])
def test_many_to_one_is_bound_by_the_one(pattern: Any) -> None:
    for count in (1, COUNT):
        expected = 2 * LATENCY + count * (RANKS - 1) * WIRE
        result = run(Micro(pattern, count=count, payload="1 MB"), system=MANY)
        assert result.makespan_ps == round((expected + LATE[pattern] * (count - 1)) * 1000)


def test_one_send_at_a_time_pays_for_every_latency() -> None:
    for pattern in ("all_to_all", "outcast"):
        assert run(Micro(pattern, payload="1 MB")).makespan_ps == round((RANKS - 1) * (2 * LATENCY + WIRE) * 1000)


def test_collectives_run_one_after_the_other() -> None:
    alone = [ar.simulate(ar.Design(workload=ar.SingleCollective(op, "1 MB"), network=FLAT)).makespan_ps
             for op in ("all_reduce", "all_gather", "all_to_all")]
    together = run(Micro("collectives", count=COUNT, ops=["all_reduce", "all_gather", "all_to_all"], payload="1 MB"))
    assert together.makespan_ps == COUNT * sum(alone)


def test_compute_and_memory_take_their_time() -> None:
    assert run(Micro("compute", count=COUNT)).makespan_ps == COUNT * 5_000_000
    assert run(Micro("compute", count=COUNT, time="7 us")).makespan_ps == COUNT * 7_000_000
    roofline = {"compute": ar.Roofline("100 TFLOP/s"), "memory": ar.Memory(bandwidth="1 TB/s")}
    assert run(Micro("compute", count=COUNT, flops=3e9), **roofline).makespan_ps == COUNT * 30_000_000
    assert run(Micro("compute", count=COUNT, flops=1, bytes="4 MB"), **roofline).makespan_ps == COUNT * 4_000_000
    access = 2_000 + BYTES / 10
    assert run(Micro("memory", count=COUNT, payload="1 MB")).makespan_ps == COUNT * 2 * access * 1000


def test_every_type_has_one_node_of_each() -> None:
    (trace,) = generate(Micro("every_type"), RANKS).classes
    assert sorted(trace.type.tolist()) == [int(kind) for kind in NodeKind]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_files_give_the_same_integers(pattern: Any, tmp_path: Path) -> None:
    workload = Micro(pattern, count=2)
    write_generated(generate(workload, RANKS), tmp_path / "w")
    ours = run(workload)
    theirs = ar.simulate(ar.Design(workload=ar.Trace(str(tmp_path / "w"), groups=str(tmp_path / "w.groups.json")),
                                   network=FLAT, memory=REMOTE))
    assert ours.outcome.finish[ours.outcome.row].tolist() == theirs.outcome.finish[theirs.outcome.row].tolist()


def test_a_million_equal_ranks_cost_little() -> None:
    generated = generate(Micro("ring", count=50), 1 << 20)
    assert [trace.slot_a.shape for trace in generated.classes] == [(1 << 20, 2)]


@pytest.mark.parametrize(("fields", "words"), [
    ({"pattern": "ring", "ops": ["all_reduce"]}, "has no effect under pattern: ring"),
    ({"pattern": "compute", "payload": "1 MB"}, "has no effect under pattern: compute"),
    ({"pattern": "compute", "time": "5 ns"}, "no whole number of microseconds"),
    ({"pattern": "collectives", "ops": []}, "is empty"),
    ({"pattern": "ring", "payload": "0.5 B"}, "no whole number of bytes"),
    ({"pattern": "ring", "payload": "1e30 B"}, "payload"), ({"pattern": "compute", "time": "1e30 s"}, "time"),
    ({"pattern": "rings"}, "ring"), ({"pattern": "ring", "count": 0}, "count")])
def test_what_means_nothing_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        decode(Workload, {"source": "micro", **fields})


@pytest.mark.parametrize(("pattern", "ranks", "words"), [("pairs", 7, "an even number"), ("ring", 1, "at least 2"),
                                                        ("all_to_all", 5000, "at most 2048")])
def test_ranks_that_do_not_fit_are_refused(pattern: Any, ranks: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        generate(Micro(pattern), ranks)


def test_it_is_in_the_registry() -> None:
    assert registry.load("workload", "micro") is Micro
