"""From rows to designs, predictions and scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.commands import Run

from astrarium.validate.baseline import fit
from astrarium.validate.designs import candidates
from astrarium.validate.predict import NotPredictable, Prediction, Value, predict
from astrarium.validate.record import halves
from astrarium.validate.rows import Row, read_rows
from astrarium.validate.score import score
from astrarium.validate.verdict import verdict

HEAD = ("source,case,gpu,n_gpus,model,layers,hidden,heads,ffn,vocab,seq,tp,pp,dp,mbs,gbs,recompute,precision,zero,"
        "step_s,mem_GiB\n")
LINE = "Megatron table,small,A100-80G,16,GPT,4,1024,16,4096,51200,1024,2,2,4,1,16,full,fp16,0,0.1,\n"


def rows(folder: Path, *lines: str) -> list[Row]:
    path = folder / "rows.csv"
    path.write_text(HEAD + "".join(lines))
    return read_rows(path)


def test_a_row_becomes_the_design_that_it_states(tmp_path: Path) -> None:
    meant = candidates(rows(tmp_path, LINE)[0])[0]
    work = meant.design.workload
    assert meant.stack == meant.design.stack == "megatron-lm"
    assert (work.tp, work.pp, work.dp, work.micro_batch, work.recompute) == (2, 2, 4, 1, "full")
    assert work.attention == "unfused"      # the stack's
    assert [dim.npus for dim in meant.design.network.dims] == [8, 2]
    assert meant.stated
    assert any(text.startswith("network") for text in meant.assumed)


def test_an_open_micro_batch_is_the_fastest_that_fits(tmp_path: Path) -> None:
    row = rows(tmp_path, LINE.replace(",4,1,16,full", ",4,,16,full"))[0]
    made = candidates(row)
    assert [each.design.workload.micro_batch for each in made] == [1, 2, 4]
    found = predict(row)
    assert isinstance(found, Prediction)
    assert any("the fastest that fits" in text for text in found.meant.assumed)
    assert found.seconds == min(predict(each).seconds for each in rows(
        tmp_path, *(LINE.replace(",4,1,16,full", f",4,{size},16,full") for size in (1, 2, 4))))


@pytest.mark.parametrize(("old", "new", "reason"), [
    ("A100-80G", "TPU v9", "no device"), (",2,2,4,", ",3,2,4,", "tp * pp * dp * cp"),
    ("full", "sometimes", "recompute"),
    (",2,2,4,", ",,,,", "no parallelism"), ("4,1024,16,4096", ",,,", "model of the catalog")])
def test_what_cannot_be_predicted_says_why(tmp_path: Path, old: str, new: str, reason: str) -> None:
    found = predict(rows(tmp_path, LINE.replace(old, new).replace("GPT,,", "Unheard-of,,"))[0])
    assert isinstance(found, NotPredictable)
    assert reason in found.reason


def test_rates_are_scored_as_times() -> None:
    assert Value("tok_s_gpu", 100.0, 125.0).time_error == pytest.approx(-0.2)
    assert Value("step_s", 100.0, 125.0).time_error == pytest.approx(0.25)


def test_scores_leave_rows_apart_that_state_too_little(tmp_path: Path) -> None:
    found = [predict(row) for row in rows(tmp_path, LINE, LINE.replace(",16,full", ",,full"))]
    made = score("all", found)
    assert (made.rows, made.apart, made.covered, made.stated) == (1, 1, 1, 1)
    assert made.median == abs(found[0].values[0].error)


def test_every_second_row_of_a_source_judges(tmp_path: Path) -> None:
    every = rows(tmp_path, LINE, LINE.replace("Megatron", "Other"), LINE.replace("small", "b"),
                 LINE.replace("small", "c"))
    learn, judge = halves(every)
    assert [(row.source[:5], row.case) for row in learn] == [("Megat", "small"), ("Other", "small"), ("Megat", "c")]
    assert [row.case for row in judge] == ["b"]


def test_the_rival_learns_a_step() -> None:
    table = np.arange(32, dtype=float).reshape(-1, 1)
    values = np.where(table[:, 0] < 16, 1.0, 3.0)
    assert np.allclose(fit(table, values).predict(table), values, atol=1e-6)


def test_a_source_has_its_rivals_and_what_we_do_where_no_fit_had_it(tmp_path: Path) -> None:
    """The record of the catalog, and trees without physics, which lose by far where they know nothing of the source."""
    data = read_rows(Path(__file__).parents[2] / "benchmarks/data/fsdp.csv")
    few = [row for row in data if row.count("n_gpus") == 8][::8] + data[-3:]
    made = verdict(few)
    ours, trees = made.left_out["torchtitan FSDP2 (A100)"], made.rival["torchtitan FSDP2 (A100)"]
    assert float(ours.split(" / ")[0]) < 5.0
    assert float(trees.rpartition("left out ")[2].removesuffix(" %")) > 20.0


def test_the_verb_prints_json(tmp_path: Path, run: Run) -> None:
    rows(tmp_path, LINE, LINE.replace("A100-80G", "abacus"))
    made = json.loads(run("validate", tmp_path / "rows.csv", "--json").out)
    entry = made["rows"][0]
    assert entry["error"] == pytest.approx(entry["predicted"] / entry["measured"] - 1)
    assert {"source", "case", "metric", "measured", "predicted", "error", "assumed"} <= entry.keys()
    assert made["not_predictable"][0]["case"] == "small"
    assert "abacus" in made["not_predictable"][0]["reason"]
