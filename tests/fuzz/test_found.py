"""What the fuzzers found, each as a small case of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astrarium.astra_sim.files import AstraInputs, lower_inputs, read_inputs, workload_of
from astrarium.errors import AstrariumError
from astrarium.lower.explain import execute_workload
from astrarium.trace import TraceBuilder, traces_of_bytes
from astrarium.vocab import CommOp, NodeKind

from .dropin import answer
from .strategies import MEMORY, OPS, as_json, as_yaml, system

Fill = Callable[[TraceBuilder, int], object]


def _inputs(folder: Path, npus: int = 4, *, flags: dict[str, Any] | None = None, dim: dict[str, Any] | None = None,
            memory: dict[str, Any] | None = None, **keys: Any) -> AstraInputs:
    network = {"topology": ["Ring"], "npus_count": [npus], "bandwidth": [50.0], "latency": [500.0], **(dim or {})}
    (folder / "s.json").write_bytes(as_json({**system(1), **{key.replace("_", "-"): keys[key] for key in keys}}))
    (folder / "n.yml").write_bytes(as_yaml(network))
    (folder / "m.json").write_bytes(as_json({**MEMORY, **(memory or {})}))
    return read_inputs("w", *(str(folder / name) for name in ("s.json", "n.yml", "m.json")), None,
                       backend="congestion_unaware", **(flags or {}))


def _traces(fill: Fill, npus: int = 4) -> list[bytes]:
    files = []
    for rank in range(npus):
        trace = TraceBuilder()
        fill(trace, rank)
        files.append(trace.encode())
    return files


def _reduce(size: int) -> Fill:
    return lambda trace, rank: trace.coll("k", CommOp.ALL_REDUCE, size)


@pytest.mark.parametrize("size", [4, 6, 7, 8, 9, 12, 20])
def test_halving_doubling_back_and_forth_with_other_sizes(size: int, tmp_path: Path) -> None:
    """3 bytes there, 2 back: on a slow wire the way back may overtake, and is not taken for the way there."""
    inputs = _inputs(tmp_path, dim={"bandwidth": [0.001], "latency": [0.5]}, preferred_dataset_splits=1,
                     **{f"{op}-implementation": ["halvingDoubling"] for op in OPS})
    files = _traces(lambda trace, rank: trace.coll("k", CommOp.ALL_REDUCE, size, after=[trace.comp("c", 1 + rank)]))
    plain = answer(inputs, files, fold=False)
    assert plain == answer(inputs, files, fold=True)
    assert min(plain[0]) > 4_000_000  # type: ignore[type-var]  # the last rank starts at 4 us: nobody ends before


@pytest.mark.parametrize(("parents", "words"), [((0,), "0 -> 0"), ((1,), "dependency cycle")])
def test_a_cycle_beside_live_nodes_is_refused(parents: tuple[int, ...], words: str, tmp_path: Path) -> None:
    """ASTRA-sim drops the cycle and reports the rank as finished."""
    def fill(trace: TraceBuilder, rank: int) -> None:
        trace.node(NodeKind.COMP, "a", after=parents)
        trace.node(NodeKind.COMP, "b", after=(0,))
        trace.comp("live", 5)

    with pytest.raises(AstrariumError, match=r"rank 0, node [01] \([ab]\): a dependency cycle") as caught:
        _run(_inputs(tmp_path), _traces(fill))
    assert words in str(caught.value)


def _run(inputs: AstraInputs, files: list[bytes]) -> None:
    workload = workload_of(inputs, traces_of_bytes(files))
    execute_workload(lower_inputs(inputs, workload), workload.traces, workload.groups)


TIMED: Fill = lambda trace, rank: trace.comp("c", num_ops=10**18, tensor_size=1)  # noqa: E731


@pytest.mark.parametrize(("keys", "fill", "words"), [
    ({"preferred_dataset_splits": 2**40}, _reduce(1 << 20), "preferred-dataset-splits"),
    ({"preferred_dataset_splits": 2**30}, _reduce(1 << 40), "chunks"),
    ({"active_chunks_per_dimension": 2**61}, _reduce(1 << 20), "active-chunks-per-dimension"),
    ({"endpoint_delay": 2**61}, _reduce(1 << 20), "endpoint-delay"),
    ({"endpoint_delay": 2**39, "flags": {"injection_scale": 2.0**19}}, _reduce(1 << 20), "endpoint-delay"),
    ({"flags": {"injection_scale": float("nan")}}, _reduce(1), "--injection-scale"),
    ({"flags": {"queues_per_dim": 2**40}}, _reduce(1), "--num-queues-per-dim"),
    ({"all_reduce_implementation": ["direct99999999999999999999"]}, _reduce(1), "all-reduce-implementation"),
    ({"all_reduce_implementation": ["direct²"]}, _reduce(1), "all-reduce-implementation"),
    ({"peak_perf": 0, "roofline_enabled": 1}, TIMED, "rank 0, node 0"),
    ({"local_mem_bw": 1e-320}, TIMED, "local-mem-bw"),
    ({"model_shared_bus": 1, "preferred_dataset_splits": 1}, _reduce(4 << 31), "model-shared-bus"),
    ({"model_shared_bus": 1, "L": 1e300}, _reduce(1), "L"),
    ({"memory": {"num-npus-per-node": 2**40}}, lambda trace, rank: trace.memory("m", 8), "num-npus-per-node"),
    ({"dim": {"latency": [1e18]}}, _reduce(1 << 20), "106 days"),
    ({"dim": {"bandwidth": [1e-320]}}, _reduce(1 << 20), "bandwidth[0]"),
    ({"preferred_dataset_splits": 1}, lambda trace, rank: trace.coll("k", CommOp.ALL_GATHER, 2**62), "2^62"),
    ({}, lambda trace, rank: trace.comp("b", 9 * 10**12, after=[trace.comp("a", 9 * 10**12)]), "106 days"),
    ({}, lambda trace, rank: trace.send("s", rank, 8), "its peer is the rank itself"),
])
def test_numbers_out_of_range_are_refused(keys: dict[str, Any], fill: Fill, words: str, tmp_path: Path) -> None:
    """No overflow, no silent wrap: one error that names the key or the node."""
    with pytest.raises(AstrariumError) as caught:
        _run(_inputs(tmp_path, **keys), _traces(fill))
    assert words in str(caught.value)
    assert caught.value.exit_code == 1
