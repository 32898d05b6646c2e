"""Rows that do not state recomputation: the least that fits, and what was assumed is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from astrarium.validate.designs import candidates
from astrarium.validate.room import fits, fullest, least
from astrarium.validate.rows import read_rows

HEAD = ("source,case,gpu,n_gpus,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,tp,pp,dp,mbs,gbs,recompute,precision,"
        "zero,step_s\n")
ROW = "NeMo,x,H100,8,llama,{layers},4096,32,8,14336,128256,8192,1,1,8,{mbs},{gbs},{recompute},bf16,1,1\n"


def meant(folder: Path, *, recompute: str = "", layers: int = 32, mbs: int = 1) -> tuple[str, bool, tuple[str, ...]]:
    path = folder / "rows.csv"
    path.write_text(HEAD + ROW.format(recompute=recompute, layers=layers, mbs=mbs, gbs=mbs * 8))
    found, = candidates(read_rows(path)[0])
    said = tuple(text for text in found.assumed if text.startswith("recompute"))
    return found.design.workload.recompute, fits(found.design), said      # type: ignore[attr-defined]


@pytest.mark.parametrize(("layers", "mbs", "kind", "fit"), [
    (16, 1, "none", True), (32, 2, "full", True), (80, 4, "full", False)])
def test_the_least_that_fits(tmp_path: Path, layers: int, mbs: int, kind: str, fit: bool) -> None:
    """Where nothing fits, the most recomputation is meant, and the row is out of memory."""
    assert meant(tmp_path, layers=layers, mbs=mbs) == (kind, fit, (f"recompute: {kind}, the least that fits",))


def test_what_a_row_states_stays(tmp_path: Path) -> None:
    assert meant(tmp_path, recompute="none", mbs=4) == ("none", False, ())


def test_the_first_of_several_designs_that_fits(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    designs = []
    for kind in ("none", "full"):
        path.write_text(HEAD + ROW.format(recompute=kind, layers=32, mbs=2, gbs=16))
        designs.append(candidates(read_rows(path)[0])[0].design)
    assert fullest(designs[0]).total > float(designs[0].memory.capacity or 0) > fullest(designs[1]).total
    assert least(designs) == 1
    assert least(designs[:1]) == 0
