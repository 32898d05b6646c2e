"""CSV files of measured kernels of PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.commands import Run

from astrarium.compute import kernels
from astrarium.errors import InputError
from astrarium.validate.predict import NotPredictable, Prediction, predictions
from astrarium.validate.record import fitted_on
from astrarium.validate.rows import Row, read_rows
from astrarium.vocab import Kernel

HEAD = ("kind,op,layout,precision,m,n,k,groups,batch,heads,kv_heads,queries,keys,head_length,causal,elements,bytes,"
        "vocab,us,clock,watt\n")
NT, WGRAD = "gemm,,NT,bf16,4096,4096,4096{},173.6,,\n", "gemm,,wgrad,bf16,3968,11968,448{},76.024,,\n"
SUSTAINED = "gemm,sustained,NT,bf16,8192,8192,8192{},1800.0,1381.2,690.1\n"
NORM = "stream,rms_norm,,,16384,4096,,,,,,,,,,67108864,268435456,,122.183,,\n"
DECODE = "attention,decode,cudnn,bf16,,,,,16,32,8,1,1024,128,0,,,,30.0,,\n"


def rows_of(folder: Path, *lines: str, name: str = "h100_pytorch") -> list[Row]:
    path = folder / name / "kernels.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEAD + "".join(line.format("," * 11) for line in lines))
    return read_rows(path)


def test_rows_are_kernels_of_pytorch(tmp_path: Path) -> None:
    """A weight's gradient is stated with its outputs along m, a kernel has its inputs there."""
    rows = rows_of(tmp_path, NT, WGRAD, NORM, DECODE.replace("128,0", "128,False"))
    assert (rows[0].source, rows[1].case) == ("h100_pytorch", "gemm wgrad bf16 3968x11968x448")
    made = list(predictions(rows))
    expected = [Kernel("gemm", "bf16", (1, 4096, 4096, 4096), 1.0, 2.0 * 4096**3, 0),
                Kernel("gemm", "bf16", (1, 11968, 3968, 448), 1.0, 2.0 * 11968 * 3968 * 448, 0, op="wgrad"),
                Kernel("normalisation", "bf16", (16384, 4096), 1.0, 0.0, 268435456, op="rms_norm"),
                Kernel("attention", "bf16", (16, 32, 8, 1, 1024, 128, 128), 1.0, 4.0 * 16 * 32 * 1024 * 128, 0)]
    ns = kernels.latency_ns(kernels.load("h100_sxm"), expected, "torch")
    for each, own in zip(made, ns, strict=True):
        assert isinstance(each, Prediction)
        assert each.values[0].predicted == pytest.approx(own / 1e3)
        assert each.values[0].error == pytest.approx(0, abs=0.15)


def test_rows_of_the_kit_are_such_rows(tmp_path: Path) -> None:
    """`calibrate --measure` writes the device first, and why rows are missing."""
    path = tmp_path / "mine.rows.csv"
    path.write_text(f"# device: NVIDIA H200; PyTorch 2.11\n{HEAD}{NT.format(',' * 11)}# not measured: a: \"b\n")
    row, = read_rows(path)
    assert (row.line, row.text("gpu")) == (3, "NVIDIA H200")
    made, = predictions([row])
    assert isinstance(made, Prediction)
    assert made.meant.device == "h200_sxm"


def test_what_ran_for_long_has_a_clock(tmp_path: Path) -> None:
    made, = predictions(rows_of(tmp_path, SUSTAINED))
    assert isinstance(made, Prediction)
    assert [value.metric for value in made.values] == ["kernel_us", "clock_MHz"]
    assert made.values[1].error == pytest.approx(0, abs=0.04)


def test_rows_of_the_fit_are_told_apart(tmp_path: Path) -> None:
    """Of H100, whose kernels they are; H200 takes its model, but no row of H200 was in it."""
    assert fitted_on(rows_of(tmp_path, NT, WGRAD)) == [False, True]
    assert fitted_on(rows_of(tmp_path, NT, WGRAD, name="h200_pytorch")) == [False, False]


@pytest.mark.parametrize(("line", "reason"), [
    (NT.replace("gemm", "conv"), "conv"), (NT.replace("NT", "TT"), "layout"), (NORM.replace("268435456", ""), "bytes"),
    (NT.replace("173.6", "nan"), "us: is not stated"), (NT.replace("gemm,,", "gemm,sustaned,"), "mean 'sustained'"),
    (DECODE.replace("cudnn", "flsh"), "layout: 'flsh' is not known; expected one of cudnn, flash"),
    (DECODE.replace(",32,8,", ",32,9,"), "kv_heads: 9 does not divide 32"),
    (DECODE.replace("decode,", ",").replace("1,1024,128,0", "4096,1024,128,1"), "causal: 4096 queries")])
def test_what_is_no_kernel_says_why(tmp_path: Path, line: str, reason: str) -> None:
    found, = predictions(rows_of(tmp_path, line))
    assert isinstance(found, NotPredictable)
    assert reason in found.reason
    for lines, words in (((NT.replace("4096", "0", 1),), "impossible"), ((), "has no rows")):
        with pytest.raises(InputError, match=words):
            rows_of(tmp_path, *lines)


def test_validate_prints_groups_of_kernels(tmp_path: Path, run: Run) -> None:
    rows_of(tmp_path, NT, NT, WGRAD, SUSTAINED)
    said = run("validate", tmp_path / "h100_pytorch" / "kernels.csv").out
    for words in ("errors by kernel", "products bf16 NT", "errors by kernel, of fitted rows", "products bf16 wgrad",
                  "clock_MHz"):
        assert words in said
