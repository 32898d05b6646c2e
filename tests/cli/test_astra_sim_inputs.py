"""What ASTRA-sim reads in its own way or does not survive: custom collectives, negative work, odd values, chunks."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Run

import astrarium as ar
from astrarium import engine
from astrarium.lower import lower
from astrarium.trace import TraceBuilder
from astrarium.vocab import CommOp

from .conftest import RANKS


def change(tmp_path: Path, name: str = "system.json", **values: Any) -> None:
    """Replace keys of one of the JSON inputs; `_` stands for `-`."""
    path = tmp_path / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **{k.replace("_", "-"): v for k, v in values.items()}}))


def custom(tmp_path: Path, positions: int, *, extra: bool = False) -> None:
    """A custom all_reduce: position p sends to its neighbour and receives from the other."""
    for p in range(positions):
        trace = TraceBuilder()
        if not extra:
            trace.send("give", (p + 1) % positions, 4096, tag=0)
            trace.recv("take", (p - 1) % positions, 4096, tag=0)
        else:
            trace.coll("nested", CommOp.ALL_REDUCE, 4096)
        trace.write(tmp_path / f"ring.{p}.et")
    change(tmp_path, all_reduce_implementation_custom=[str(tmp_path / "ring")])


@pytest.mark.parametrize(("positions", "extra", "words"), [
    (3, False, "3 programs, but a group has 4 ranks"),
    (5, False, "its peer is position 4, but the group that runs it has 4 ranks"),
    (4, True, "a node that a custom collective cannot run"),
])
def test_a_custom_algorithm_that_does_not_fit(positions: int, extra: bool, words: str, flags: list[str],
                                              run: Run, tmp_path: Path) -> None:
    """One line that names the file, the node and who wants it."""
    custom(tmp_path, positions, extra=extra)
    said = run("astra-sim", *flags)
    assert (said.code, said.out) == (1, "")
    assert words in said.err
    assert "ring." in said.err
    assert "Traceback" not in said.err


def test_programs_beyond_the_group_are_not_used(flags: list[str], run: Run, tmp_path: Path) -> None:
    """As in ASTRA-sim; a note says so."""
    custom(tmp_path, 4)
    few = run("astra-sim", *flags)
    TraceBuilder().write(tmp_path / "ring.4.et")
    more = run("astra-sim", *flags)
    assert (few.code, few.err) == (0, "")
    assert (more.code, more.out) == (0, few.out)
    assert "5 programs for 4 NPUs: those from position 4 on are not used" in more.err


def test_traces_beyond_the_network_are_not_read(flags: list[str], prefix: Path, run: Run) -> None:
    """As in ASTRA-sim; a note says so."""
    few = run("astra-sim", *flags)
    for rank in (RANKS, RANKS + 1):
        TraceBuilder().write(f"{prefix}.{rank}.et")
    more = run("astra-sim", *flags)
    assert (few.code, few.err) == (0, "")
    assert (more.code, more.out) == (0, few.out)
    assert f"2 traces, of ranks {RANKS} and above, are not read: the network has {RANKS} NPUs" in more.err


def test_negative_work_is_refused(flags: list[str], run: Run, tmp_path: Path) -> None:
    """ASTRA-sim reads -5 operations as 2^64 - 5."""
    change(tmp_path, roofline_enabled=1, peak_perf=100, local_mem_bw=1000)
    for rank in range(RANKS):
        trace = TraceBuilder()
        trace.comp("gemm", num_ops=-5, tensor_size=100)
        trace.write(tmp_path / "et" / f"w.{rank}.et")
    said = run("astra-sim", *flags)
    assert (said.code, said.out) == (1, "")
    assert "num_ops -5; expected operations, 0 or more" in said.err


def test_exposed_time_below_zero_is_unsigned_in_lines_only(flags: list[str], run: Run, tmp_path: Path) -> None:
    """A collective that is replayed counts as compute: it overlaps the compute beside it."""
    change(tmp_path, replay_only=1)
    for rank in range(RANKS):
        trace = TraceBuilder()
        trace.comp("gemm", 5)
        trace.coll("gradients", CommOp.ALL_REDUCE, 4096)
        trace.write(tmp_path / "et" / f"w.{rank}.et")
    exposed = {row["exposed_comm_ns"] for row in json.loads(run("astra-sim", *flags, "--json").out)["ranks"]}
    assert exposed == {-1}
    assert f"exposed communication {2**64 - 1} cycles." in run("astra-sim", *flags).out


@pytest.mark.parametrize(("values", "like"), [
    ({"endpoint_delay": 10.7}, {"endpoint_delay": 10}),
    ({"preferred_dataset_splits": 2.9}, {"preferred_dataset_splits": 2}),
    ({"active_chunks_per_dimension": True}, {"active_chunks_per_dimension": 1}),
    ({"model_shared_bus": True, "L": 10, "G": 0.01}, {"model_shared_bus": 1, "L": 10, "G": 0.01}),
    ({"replay_only": "0"}, {"replay_only": 1}),
    ({"replay_only": False}, {"replay_only": 1}),
])
def test_values_are_read_as_astra_sim_reads_them(values: dict[str, Any], like: dict[str, Any], flags: list[str],
                                                 run: Run, tmp_path: Path) -> None:
    """A fraction is cut off, true is 1, and a switch is on unless it is the number 0 (said where that surprises)."""
    change(tmp_path, **like)
    plain = run("astra-sim", *flags)
    change(tmp_path, **values)
    odd = run("astra-sim", *flags)
    assert (plain.code, odd.code, odd.out) == (0, 0, plain.out)
    assert ("counts as on in ASTRA-sim" in odd.err) == ("replay_only" in values)


def test_a_byte_order_mark_is_no_fault(flags: list[str], run: Run, tmp_path: Path) -> None:
    plain = run("astra-sim", *flags)
    for name in ("system.json", "network.yml", "memory.json"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + (tmp_path / name).read_bytes())
    assert run("astra-sim", *flags) == plain


@pytest.mark.parametrize("key", ["remote-mem-bw", "num-npus-per-node"])
def test_fractions_below_1_are_refused_where_astra_sim_divides_by_them(key: str, flags: list[str], run: Run,
                                                                       tmp_path: Path) -> None:
    values = {"memory-type": "PER_NODE_MEMORY_EXPANSION", "num-nodes": 2, "num-npus-per-node": 2.9,
              "remote-mem-latency": 1.7, "remote-mem-bw": 1.5}
    (tmp_path / "memory.json").write_text(json.dumps(values))
    assert run("astra-sim", *flags).code == 0
    (tmp_path / "memory.json").write_text(json.dumps({**values, key: 0.5}))
    said = run("astra-sim", *flags)
    assert (said.code, f"{key}: 0.5; expected a number of at least 1" in said.err) == (1, True)


@pytest.mark.parametrize("fold", [True, False])
def test_time_is_linear_in_chunks(fold: bool) -> None:
    """Eight times as many chunks take about eight times as long: it was 64 times."""
    def seconds(chunks: int) -> float:
        plan = lower(ar.Design(
            workload=ar.SingleCollective("all_reduce", "64 MiB"), compat="astra_sim",
            network=ar.Network([ar.Ring(4, bandwidth="50 GiB/s", latency="500 ns")]),
            collective=ar.Collective(all_reduce=["ring"], chunks=chunks, active_chunks=1)))
        before = time.process_time()
        engine.execute(plan, fold=fold)
        return time.process_time() - before

    few, many = (6000, 48_000) if engine.HAVE_CORE else (250, 2000)
    assert min(seconds(many) for _ in range(3)) < 24 * min(seconds(few) for _ in range(3))


def test_a_message_that_the_bus_takes_for_a_smaller_one_is_noted(flags: list[str], run: Run, tmp_path: Path) -> None:
    """ASTRA-sim's bus has 32 bits for the bytes of a message: 2^32 + 1,000 cost what 1,000 cost there."""
    change(tmp_path, model_shared_bus=1, preferred_dataset_splits=1, G=0.01)
    for rank in range(RANKS):
        trace = TraceBuilder()
        trace.coll("gradients", CommOp.ALL_REDUCE, (2**32 + 1000) * RANKS)
        trace.write(tmp_path / "et" / f"w.{rank}.et")
    said = run("astra-sim", *flags)
    assert said.code == 0
    assert f"a message of {2**32 + 1000} bytes costs what 1000 bytes cost" in said.err


def test_a_design_from_odd_values(flags: list[str], run: Run, tmp_path: Path) -> None:
    """A byte-order mark, a custom collective and a cut fraction arrive; what has no word in a design is said."""
    custom(tmp_path, 4)
    change(tmp_path, endpoint_delay=10.7, track_local_mem=1)
    (tmp_path / "system.json").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "system.json").read_bytes())
    said = run("convert", "--to", "design", *flags)
    assert (said.code, "endpoint_delay: 10 ns" in said.out, str(tmp_path / "ring") in said.out) == (0, True, True)
    assert "track-local-mem: a design has no such setting" in said.err
