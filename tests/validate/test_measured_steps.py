"""JSON files of measured steps of one GPU: training steps and passes of inference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from astrarium.errors import InputError
from astrarium.validate.designs import candidates, known_stack
from astrarium.validate.predict import Prediction, predict
from astrarium.validate.rows import Row, read_rows, with_stack
from astrarium.workload.transformer import Transformer

STEP = {"case": "llama3.2-1b", "seq": 4096, "mbs": 2, "recompute": False, "compiled": False, "layers": 2,
        "hidden": 2048, "ffn": 8192, "heads": 16, "kv": 8, "head": 64, "vocab": 32000, "tied": True, "kind": "llama",
        "step_s": 0.0871, "step_pipelined_s": 0.0861, "host_s": 0.07, "parameters": 179_000_000, "allocated": 2**34,
        "clock": [1851.8, 2619.0]}
DECODE = {"phase": "decode", "attention": "any", "batch": 16, "context": 1024, "ms": 7.8}


def rows_of(folder: Path, *steps: dict[str, Any], name: str = "h100_pytorch") -> list[Row]:
    path = folder / name / "steps.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(steps))
    return read_rows(path)


def test_a_training_step_states_its_design(tmp_path: Path) -> None:
    row, = rows_of(tmp_path, STEP)
    assert (row.case, row.source, row.number("mem_GiB"), row.number("step_s")) == (
        "llama3.2-1b 4096 x 2", "h100_pytorch", 16.0, 0.0861)
    meant, = candidates(row)
    work = meant.design.workload
    assert isinstance(work, Transformer)
    model: Any = work.model
    assert (model.heads, model.groups, model.head, model.tied_embeddings) == (16, 8, 64, True)
    assert (work.global_batch, work.seq, work.precision.master, work.precision.moments, work.clip) == (
        2, 4096, None, "bf16", False)
    assert meant.stated
    assert meant.device == "h100_sxm"


def test_a_step_says_its_device_or_its_folder_does(tmp_path: Path) -> None:
    known, = rows_of(tmp_path, {**STEP, "gpu": "H200"}, name="mine")
    assert candidates(known)[0].device == "h200_sxm"
    unknown, = rows_of(tmp_path, STEP, name="mine")
    with pytest.raises(InputError, match="'mine' is no device"):
        candidates(unknown)


def test_a_named_stack_takes_the_place_of_the_rows(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, {**STEP, "recompute": True, "compiled": True}, DECODE)
    step, decode = with_stack(rows, "none")
    assert candidates(step)[0].design.stack is None
    assert "recompute compiled" in step.case
    assert decode.values == rows[1].values
    with pytest.raises(InputError, match="is not known"):
        known_stack("pytorhc")


def test_a_decode_step_is_predicted_with_its_attention(tmp_path: Path) -> None:
    own, forced = map(predict, rows_of(tmp_path, DECODE, {**DECODE, "attention": "flash"}))
    assert isinstance(own, Prediction)
    assert isinstance(forced, Prediction)
    assert own.meant.stated
    assert own.meant.design.compute.clock == "sustained"        # measured many times in a row
    assert (own.meant.design.compute.framework, forced.meant.design.compute.framework) == ("torch", "torch/2.11/flash")
    assert own.values[0].predicted == pytest.approx(7.816, rel=0.03)
    assert forced.values[0].predicted == pytest.approx(7.952, rel=0.03)
    assert "positions: none" in "".join(own.meant.assumed)


@pytest.mark.parametrize(("step", "words"), [
    ({"seq": 1}, "is no step"), ({**STEP, "layers": 0}, "layers"), ({**DECODE, "ms": "fast"}, "ms"),
    ({**STEP, "allocated": -1}, "allocated"), ({**STEP, "step_pipelined_s": -1}, "step_pipelined_s: '-1'"),
    ({**STEP, "compiled": "false"}, "compiled: 'false'"), ({**STEP, "kind": "mamba"}, "one of llama, gpt"),
    ({**STEP, "case": "\x1b[31m"}, "case: is not readable"), ({**DECODE, "attention": "\ud800"}, "attention")])
def test_what_no_step_states_is_refused(tmp_path: Path, step: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        rows_of(tmp_path, STEP, step)


def test_a_file_that_is_no_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.json").write_text("[1,")
    (tmp_path / "c.json").write_text("[" * 200_000)
    (tmp_path / "d.json").write_text("[" + "9" * 5000 + "]")
    (tmp_path / "e.json").write_text("[]")
    for name, words in (("a.json", "not a list of steps"), ("b.json", "is not JSON"), ("c.json", "no readable JSON"),
                        ("d.json", "no readable JSON"), ("e.json", "not a list of steps")):
        with pytest.raises(InputError, match=words):
            read_rows(tmp_path / name)
