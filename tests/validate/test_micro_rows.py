"""CSV files of microbenchmarks of a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.commands import Run

from astrarium.errors import InputError
from astrarium.validate.micro_rows import Asked, identity
from astrarium.validate.micro_times import kept, touched
from astrarium.validate.predict import NotPredictable, Prediction, predictions
from astrarium.validate.record import fitted_on
from astrarium.validate.rows import Row, read_rows

HEAD = "what,memory,blocks,threads,unroll,bytes,us\n"
MEASURED = ("read,l2,16,1024,4,16777216,14.144", "read,hbm,1,128,1,8388608,685.696",
            "copy,hbm,16,512,8,134217728,180.576", "copy,hbm,132,1024,1,1073741824,788.384",
            "read,l2,264,1024,8,16777216,6.144",
            "chase,2048KiB,1,1,20000,5660735,2875.296", "overlap,1024x8192x8192,0,1024,8,34,182.993,0.000",
            "overlap,1536x2816x1024,8,1024,8,541,16.812,1612.896")
"""Rows of an H100, of both halves, and of kinds that fit nothing."""


def rows_of(folder: Path, *lines: str) -> list[Row]:
    path = folder / "h100_pytorch" / "micro.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEAD + "".join(line + "\n" for line in lines))
    return read_rows(path)


def test_measured_rows_are_predicted(tmp_path: Path) -> None:
    """Lone and paired units, L2 and HBM, an empty kernel, a chain, a product alone and beside copies."""
    for each in predictions(rows_of(tmp_path, *MEASURED)):
        assert isinstance(each, Prediction)
        assert each.meant.device == "h100_sxm"
        assert [value.error for value in each.values] == [pytest.approx(0, abs=0.15)] * len(each.values)
    assert [value.metric for value in each.values] == ["kernel_us", "copies_us"]


def test_a_thread_goes_on_while_all_its_accesses_are_inside() -> None:
    def asked(blocks: int, threads: int, unroll: int, size: int) -> int:
        return touched(Asked("read", "", True, blocks, threads, unroll, size))

    assert asked(1, 32, 1, 1024) == 1024
    assert asked(1, 32, 2, 1024 + 512) == 1024                  # 16 accesses are left over: too few for a pair 32 apart
    assert asked(1, 32, 2, 1024 + 768) == 1024 + 2 * 16 * 16    # half of the threads have a pair
    assert asked(528, 1024, 4, 16 << 20) == 0


def test_what_l2_keeps_solves_its_equation() -> None:
    from math import exp

    assert kept(25e6, 25e6) == 1
    for footprint in (30e6, 60e6, 1e9):
        share = kept(footprint, 25e6)
        assert share < 0.7
        assert share == pytest.approx(exp((share - 1) * footprint / 25e6), abs=1e-6)


@pytest.mark.parametrize(("line", "words"), [
    ("raed,l2,1,32,1,1024,1", "what: 'raed' is not known; expected one of read, copy, chase, launch, overlap; did you"),
    ("read,l3,1,32,1,1024,1", "memory: 'l3' is not known; expected one of hbm, l2"),
    ("read,l2,1,33,1,1024,1", "threads: 33; expected a multiple of 32"), ("read,l2,1,32,0,1024,1", "unroll: 0"),
    ("read,l2,0,32,1,1024,1", "blocks: 0; expected at least 1"), ("read,l2,1,32,1,1024,", "us: is not stated"),
    ("overlap,4096x4096,0,32,1,4,1,0", "memory: '4096x4096' is no shape")])
def test_what_is_no_row_says_why(tmp_path: Path, line: str, words: str) -> None:
    found, = predictions(rows_of(tmp_path, line))
    assert isinstance(found, NotPredictable)
    assert words in found.reason


def test_devices_without_such_times_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a100_pytorch" / "micro.csv"
    path.parent.mkdir()
    path.write_text(HEAD + MEASURED[0] + "\n")
    found, = predictions(read_rows(path))
    assert isinstance(found, NotPredictable)
    assert "a100_sxm_80gb has no times of microbenchmarks in the catalog; expected one of h100_sxm" in found.reason
    with pytest.raises(InputError, match="9 cells"):
        rows_of(tmp_path, MEASURED[-1] + ",1")


def test_rows_of_the_fit_are_told_apart(tmp_path: Path) -> None:
    """Of H100: reads and copies whose checksum is even. H200 takes its numbers, but no row of H200 was in the fit."""
    rows = rows_of(tmp_path, *MEASURED)
    fitted = [row.values["what"] in ("read", "copy") and identity(row.values) % 2 == 0 for row in rows]
    assert fitted_on(rows) == fitted
    assert any(fitted)
    assert not any(fitted_on([replace(row, values={**row.values, "gpu": "h200"}) for row in rows]))


def test_validate_prints_kinds_of_rows(tmp_path: Path, run: Run) -> None:
    rows_of(tmp_path, MEASURED[0], MEASURED[6])
    said = run("validate", tmp_path / "h100_pytorch" / "micro.csv").out
    assert "reads l2" in said
    assert "products alone" in said
