"""Tables of generated workloads: what they add up is what a simulation does."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import astrarium as ar
from astrarium.config import decode
from astrarium.errors import InputError
from astrarium.report.tables.show_workload import workload_rows, workload_tables
from astrarium.report.tables.table import text_of
from astrarium.vocab import NodeKind
from astrarium.workload.config import Workload
from astrarium.workload.generate import generate

MODEL = {"family": "decoder", "layers": 4, "d_model": 64, "ffn": 256, "heads": 4, "vocab": 256, "seq": 32}
WORKLOADS: dict[str, dict[str, Any]] = {
    "training": {"source": "transformer", "model": MODEL, "dp": 2, "tp": 2, "pp": 2, "global_batch": 8,
                 "micro_batch": 1, "tp_sequence": True},
    "experts": {"source": "transformer", "model": {**MODEL, "moe": {"experts": 4, "top_k": 2}}, "dp": 4, "ep": 2,
                "tp": 2, "global_batch": 8, "zero": 3},
    "inference": {"source": "inference", "model": MODEL, "batch": 4, "prompt": 16, "generated": 3, "tp": 4, "pp": 2},
    "disaggregated": {"source": "disaggregated", "model": MODEL, "batch": 4, "prompt": 16, "generated": 3,
                      "prefill": {"tp": 4}, "decode": {"tp": 2, "pp": 2}},
    "micro": {"source": "micro", "pattern": "every_type", "count": 3, "flops": 1e9},
}


def design(name: str) -> ar.Design:
    return ar.Design(workload=decode(Workload, WORKLOADS[name]), compute=ar.Roofline("10 TFLOP/s"),
                     memory=ar.Memory(bandwidth="1 TB/s", remote=ar.Remote("per_npu", bandwidth="10 GB/s")),
                     network=ar.Network([ar.Switch(8, bandwidth="50 GB/s", latency="1 us")]))


@pytest.mark.parametrize("name", WORKLOADS)
def test_sums_are_those_of_the_run(name: str) -> None:
    chosen = design(name)
    rows, result = workload_rows(chosen), ar.simulate(chosen)
    made = generate(chosen.workload, 8)
    assert sum(row["time_ns"] for row in rows["operators"]) == pytest.approx(
        int(result.outcome.busy[result.outcome.row].sum()) / 1000)
    flops = sum(float(np.nansum(trace.num_ops)) * trace.ranks.size for trace in made.classes)
    assert (rows["gemm_flops"] or 0.0) + rows["vector_flops"] == pytest.approx(flops)
    assert (rows["gemm_flops"] is None) == (name == "micro")
    comp = [trace.type == NodeKind.COMP for trace in made.classes]
    assert sum(row["runs"] for row in rows["operators"]) == sum(
        int(chosen.sum()) * trace.ranks.size for chosen, trace in zip(comp, made.classes, strict=True))
    assert rows["compute_bytes"] == sum(int(trace.tensor_size[chosen].sum()) * trace.ranks.size
                                        for chosen, trace in zip(comp, made.classes, strict=True))
    comm = [trace.type >= NodeKind.COMM_SEND for trace in made.classes]
    assert sum(sum(row["times"]) for row in rows["communication"]) == sum(int(chosen.sum()) for chosen in comm)
    assert sum(sum(row["times"]) * row["size_bytes"] for row in rows["communication"]) == sum(
        int(trace.comm_size[chosen].sum()) for chosen, trace in zip(comm, made.classes, strict=True))


@pytest.mark.parametrize("more", [
    {"cp": 2}, {"cp": 4}, {"cp": 2, "cp_attention": "gather"}, {"sp": 2, "sp_attention": "all_to_all"},
    {"cp": 2, "tp": 2, "schedule": "zero_bubble", "pp": 2}, {"cp": 2, "mask": "skip", "fusion": False}])
def test_products_are_counted_as_such_however_they_run(more: dict[str, Any]) -> None:
    """Rounds of ring attention are products as fused attention is: the same FLOPs of GEMM class over all ranks."""
    def counted(**fields: Any) -> float:
        plain = {"source": "transformer", "model": MODEL, "global_batch": 8, "micro_batch": 1, **fields}
        work = decode(Workload, plain)
        found = design("training")
        rows = workload_rows(ar.replace_all(found, {"workload": work, "network.dims[0].npus": work.ranks}))
        return float(rows["gemm_flops"])

    assert counted(**more) == pytest.approx(counted(mask=more.get("mask", "full")), rel=1e-12)


def test_what_training_says() -> None:
    rows = workload_rows(design("training"))
    json.dumps(rows)
    blocks = list(dict.fromkeys(row["block"] for row in rows["operators"]))
    assert blocks == ["embedding", "layer", "head", "step"]
    down = next(row for row in rows["operators"] if row["name"] == "forward down")
    assert down["times"] == [2 * 4, 2 * 4]      # layers of a stage x micro-batches
    assert down["gemm_flops"] / down["runs"] == 2 * 32 * 64 * 256 / 2     # 2 x tokens x width x inner size, over tp
    kinds = {(row["op"], row["axes"], row["ranks"]) for row in rows["communication"]}
    assert {("all_gather", "tp", 2), ("reduce_scatter", "tp", 2), ("all_reduce", "dp", 2), ("send", "pp", 2)} <= kinds
    assert len(rows["memory_per_stage_bytes"]) == 2
    assert rows["memory_per_stage_bytes"][0]["total"] > rows["memory_per_stage_bytes"][0]["weights"]
    assert rows["parameters"]["total"] == sum(rows["parameters"]["parts"].values())


def test_axes_of_experts() -> None:
    found = {(row["op"], row["axes"]) for row in workload_rows(design("experts"))["communication"]}
    assert ("all_to_all", "ep") in found
    assert ("all_gather", "dp") in found


@pytest.mark.parametrize("name", WORKLOADS)
def test_tables_have_every_part(name: str) -> None:
    text = "\n".join(map(text_of, workload_tables(design(name))))
    assert ("FLOPs of GEMM class" in text) == (name != "micro")
    assert "communication (per rank" in text
    assert ("memory of a rank" in text) == (name not in ("micro", "disaggregated"))
    assert ("parameters of the model" in text) == (name != "micro")


def test_traces_are_refused() -> None:
    with pytest.raises(InputError, match="'trace' is not generated"):
        workload_rows(ar.Design(workload=ar.Trace("w"),
                                network=ar.Network([ar.Ring(4, bandwidth="1 GB/s", latency="1 us")])))
