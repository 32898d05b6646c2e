"""What a design is, in a line, which begins the answer of `run`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.commands import Run

import astrarium as ar
from astrarium import catalog
from astrarium.report.pages.about import about as page_about
from astrarium.report.pages.about import subject
from astrarium.report.tables.about import about

DIM = {"shape": "switch", "npus": 8, "bandwidth": "100 GB/s", "latency": "1 us"}
TRAIN = {"source": "transformer", "model": "llama3-8b", "global_batch": 8, "tp": 4, "tp_sequence": True, "dp": 2,
         "zero": 1}
ROOFLINE = {"model": "roofline", "peak": "2 TFLOP/s"}


@pytest.mark.parametrize(("workload", "compute", "expected"), [
    (TRAIN, "h100_sxm", "llama3-8b, tp 4 sp, dp 2, zero 1 on 8 x h100_sxm (switch 8)"),
    ({**TRAIN, "model": {"like": "llama3-8b", "layers": 4}}, ROOFLINE,
     "decoder of 4 layers, tp 4 sp, dp 2, zero 1 on 8 NPUs of 2 TFLOP/s (switch 8)"),
    ({"source": "collective", "op": "all_reduce", "payload": "1 MB"}, None, "all_reduce of 1 MB on 8 NPUs (switch 8)"),
    ({"source": "inference", "model": "llama3-8b", "prompt": 8, "generated": 2, "tp": 8}, ROOFLINE,
     "llama3-8b, tp 8 on 8 NPUs of 2 TFLOP/s (switch 8)")])
def test_a_design_in_a_line(workload: dict[str, Any], compute: object, expected: str) -> None:
    plain = {"workload": workload, "network": {"dims": [DIM]}, "memory": "h100_sxm",
             **({"compute": compute} if compute else {})}
    assert about(ar.decode(ar.Design, plain)) == expected


def test_a_data_sheet_has_the_name_of_its_device() -> None:
    """`plan` writes devices without measured kernels as their data sheet."""
    device = catalog.device("mi300x")
    plain = {"workload": TRAIN, "network": {"dims": [DIM]}, "memory": dict(device.memory),
             "compute": {"model": "analytic", "units": device.row["units"], **device.compute}}
    design = ar.decode(ar.Design, plain)
    assert about(design) == "llama3-8b, tp 4 sp, dp 2, zero 1 on 8 x mi300x (switch 8)"
    assert page_about(design).facts["device"].startswith("8 x mi300x, 1.307 PFLOP/s")
    assert subject(design) == "llama3-8b on 8 x mi300x"
    other = ar.decode(ar.Design, {**plain, "compute": {**plain["compute"], "units": 303}})
    assert "8 NPUs of 1.3074 PFLOP/s" in about(other)
    assert page_about(other).facts["device"].startswith("8 x analytic model, ")


def test_a_run_begins_with_it(run: Run, tmp_path: Any) -> None:
    path = tmp_path / "d.yaml"
    path.write_text("workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
                    "network: {dims: [{shape: ring, npus: 2, bandwidth: 1 GB/s, latency: 1 us}]}\n")
    assert run("run", path).out.partition("\n")[0] == f"{path}: all_reduce of 1 MB on 2 NPUs (ring 2)"
    found = run("run", path, "--set", f"collective.custom.all_reduce={_program(tmp_path)}").out
    assert "custom two.xml" in found


def _program(folder: Any) -> str:
    """An MSCCL program of two GPUs, by the command."""
    from astrarium.cli import main

    path = str(folder / "two.xml")
    assert main(["trace", "collective", "ring", "--op", "all_reduce", "--npus", "2", "-o", path]) == 0
    return path
