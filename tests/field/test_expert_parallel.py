"""Layouts of experts that serving engines run.

Source: issue 36, "ep inside tp, attention-DP with ep"; rows of aiconfigurator-core's silicon table (tp_size,
attention_dp_size, moe_tp_size, moe_ep_size), with tp x attention dp = moe_tp x moe_ep.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from astrarium.cli.dispatch import dispatch
from astrarium.errors import InputError
from astrarium.workload.inference.config import Inference

ROWS = [(8, 1, 8, 1), (4, 1, 1, 4), (4, 1, 2, 2), (16, 1, 4, 4), (64, 1, 8, 8), (4, 4, 1, 16), (2, 2, 1, 4),
        (1, 64, 8, 8), (1, 8, 1, 8), (1, 16, 4, 4), (1, 4, 2, 2), (1, 4, 4, 1)]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_layout_of_the_table_can_be_said(row: tuple[int, int, int, int]) -> None:
    """With the table's own numbers; experts lie on all ranks, once."""
    tp, dp, moe_tp, ep = row
    mesh = Inference("deepseek-v3", tp=tp, dp=dp, moe_tp=moe_tp, ep=ep, batch=dp, phase="decode", context=1).mesh
    assert mesh.size(("tp",)) == tp
    assert mesh.size(("dp",)) == dp
    assert mesh.size(("etp", "ep")) == ep
    assert mesh.size(("edp",)) == 1


@pytest.mark.parametrize("ep", [12, 20, 28, 36, 40, 48, 72])
def test_experts_that_ep_does_not_divide_have_copies(ep: int) -> None:
    """256 experts on a part of a rack: the refusal names the fewest copies that fit."""
    with pytest.raises(InputError, match="redundant_experts: ") as refused:
        Inference("deepseek-v3", dp=ep, ep=ep, batch=ep, phase="decode", context=1)
    more = int(str(refused.value).rpartition("redundant_experts: ")[2].split()[0])
    assert (256 + more) % ep == 0
    assert more < ep
    Inference("deepseek-v3", dp=ep, ep=ep, redundant_experts=more, batch=ep, phase="decode", context=1)


def test_equal_loads_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(
        "workload: {source: inference, model: mixtral-8x7b, tp: 8, ep: 8, phase: decode, context: 9}\n"
        "network: {dims: [{shape: switch, npus: 8, bandwidth: 450 GB/s, latency: 500 ns}]}\n"
        "compute: {model: roofline, peak: 989 TFLOP/s}\nmemory: {bandwidth: 3.35 TB/s}\n", encoding="utf-8")
    assert dispatch(["run", str(file)]) == 0
    assert "all experts get equally many tokens" in capsys.readouterr().err
    assert dispatch(["run", str(file), "--set", "workload.routing.skew=1.2"]) == 0
    assert "equally many" not in capsys.readouterr().err
