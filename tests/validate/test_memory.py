"""Memory as a row's source counts it, and what the parameters that a row states say of its model."""

from __future__ import annotations

from pathlib import Path

import pytest

from astrarium.validate.designs import candidates
from astrarium.validate.memory import stated_bytes
from astrarium.validate.rows import read_rows
from astrarium.workload.footprint import training_footprint

HEAD = ("source,case,gpu,n_gpus,model,params_B,layers,hidden,heads,kv_heads,ffn,vocab,seq,tp,pp,dp,mbs,gbs,recompute,"
        "precision,zero,mem_GiB\n")
ROW = "{source},x,H100,{gpus},Llama-like,{params},16,2048,32,32,8192,131072,4096,{tp},1,{dp},2,256,none,bf16,{zero},9\n"
TIED, UNTIED = 16 * (4 * 2048**2 + 3 * 2048 * 8192) + 131072 * 2048, 131072 * 2048


def held(folder: Path, *, source: str = "nanotron", params: float = 1.34, tp: int = 1, dp: int = 8, zero: int = 0
         ) -> tuple[float, float]:
    """(bytes that the row's column counts, most of a step)."""
    path = folder / "rows.csv"
    path.write_text(HEAD + ROW.format(source=source, gpus=tp * dp, params=params, tp=tp, dp=dp, zero=zero))
    found, = candidates(read_rows(path)[0])
    work = found.design.workload
    return stated_bytes(work, found.stack), training_footprint(work)[0].total      # type: ignore[arg-type]


@pytest.mark.parametrize(("dp", "zero", "each"), [
    (8, 0, 20.0), (1, 0, 18.0), (8, 1, 10 + 14 / 8), (64, 1, 10 + 14 / 64)])
def test_nanotron_counts_the_optimizers_step(tmp_path: Path, dp: int, zero: int, each: float) -> None:
    """Bytes a parameter: weights 2, accumulators 4, buckets 2, states 12, copies of the gather 2 + 2 / dp."""
    assert held(tmp_path, dp=dp, zero=zero)[0] == pytest.approx(each * TIED, rel=2e-3)


def test_tensor_parallelism_keeps_two_gathered_activations(tmp_path: Path) -> None:
    whole, split = held(tmp_path)[0], held(tmp_path, tp=2, dp=8)[0]
    assert split - whole / 2 == pytest.approx(2 * 2 * 4096 * 2048 * 2, rel=0.03)


def test_another_stack_counts_the_most_of_a_step(tmp_path: Path) -> None:
    counted, most = held(tmp_path, source="NeMo")
    assert counted == most


def test_the_stated_parameters_say_whether_embeddings_are_tied(tmp_path: Path) -> None:
    """1.34 billion parameters count the vocabulary once, 1.61 billion twice."""
    once, twice = held(tmp_path)[0], held(tmp_path, params=1.61)[0]
    assert twice - once == pytest.approx(20 * UNTIED, rel=1e-6)
