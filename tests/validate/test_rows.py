"""Reading measured rows: what is stated, and faults with their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from astrarium.errors import InputError
from astrarium.validate.rows import read_rows
from astrarium.validate.systems import system_named

HEAD = "source,case,gpu,n_gpus,model,tp,step_s\n"


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "rows.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_cells_are_typed_and_empty_ones_absent(tmp_path: Path) -> None:
    row = read_rows(written(tmp_path, "\ufeff" + HEAD + '"a, b",x,H100,8,GPT,,1.5\n\n'))[0]
    assert (row.source, row.case, row.count("n_gpus")) == ("a, b", "x", 8)
    assert (row.count("tp"), row.number("step_s")) == (None, 1.5)
    assert row.kind == "training"
    assert row.line == 2


@pytest.mark.parametrize(("text", "where", "what"), [
    (HEAD + "a,b,H100,eight,GPT,1,1\n", ":2: n_gpus", "is not a number"),
    (HEAD + "a,b,H100,8,GPT,1,-1\n", ":2: step_s", "impossible"),
    (HEAD + "a,b,H100,8,GPT,0,1\n", ":2: tp", "impossible"),
    (HEAD + "a,b,H100,8.5,GPT,1,1\n", ":2: n_gpus", "impossible"),
    (HEAD + "a,b,H100,8,GPT,1,inf\n", ":2: step_s", "impossible"),
    (HEAD + "a,b,H100,8\n", ":2", "4 cells"),
    (HEAD + 'a,"b\n', ":2", "is not CSV"),
    (HEAD + "a,b\0,H100,8,GPT,1,1\n", ":2", "not"),
    ("source,source,case\n", ":1: source", "twice"),
    ("source,case,gpu,n_gpu,model\n", ":1: n_gpus", "not among the columns"),
    ("source,model,gpu,isl,osl,concurency,metric,value,notes\n", ":1: concurency", "did you mean 'concurrency'?"),
    ("source,case,gpu,n_gpus,model,mem,tok_s\n", ":1: mem", "did you mean 'mem_GiB'?"),
    (b"\xff\xfe\x00", "rows.csv", "not UTF-8"),
])
def test_faults_name_file_line_and_column(tmp_path: Path, text: str | bytes, where: str, what: str) -> None:
    with pytest.raises(InputError) as fault:
        read_rows(written(tmp_path, text))
    assert where in fault.value.path
    assert what in str(fault.value)


def test_an_absent_file_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_rows(tmp_path / "none.csv")


def test_a_number_that_goes_on_is_another_device() -> None:
    assert system_named("NVIDIA H100-SXM-80GB").device == "h100_sxm"
    with pytest.raises(InputError, match="no device"):
        system_named("h1000")
