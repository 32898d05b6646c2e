"""A user's own timings: reading them, what they correct, and the file that keeps them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from astrarium.compute.calibrated import Calibrated
from astrarium.compute.calibration import calibrated, unseen_errors
from astrarium.compute.calibration_file import dumps, load_calibrated
from astrarium.compute.kernels import DeviceModel, Machine, latency_ns, load, with_torch
from astrarium.compute.measure import cut, measured
from astrarium.compute.timings import Timing, read_timings, written, written_csv
from astrarium.engine.plugins.exam_others import exam_compute
from astrarium.errors import InputError
from astrarium.vocab import Kernel


def product(m: int, n: int, k: int) -> Kernel:
    return Kernel("gemm", "bf16", (1, m, n, k), 1.0, 2.0 * m * n * k, 0)


def slower_device(count: int = 60) -> list[Timing]:
    """A100 that is 30 % slower, and 60 % slower where k is below 3000."""
    rng = np.random.default_rng(1)
    kernels = [product(*(int(x) * 256 for x in rng.integers(4, 40, 3))) for _ in range(count)]
    times = latency_ns(load("a100_sxm"), kernels)
    return [Timing(each, ns * (1.6 if each.shape[3] < 3000 else 1.3)) for each, ns in zip(kernels, times)]


def test_it_learns_the_device_and_says_its_error_on_rows_left_out(tmp_path: Path) -> None:
    found = calibrated("a100_sxm", slower_device())
    (before, _), (after, p90) = unseen_errors(found)["gemm/bf16"]
    assert before > 20
    assert after < 5
    assert p90 < 15
    path = tmp_path / "mine.toml"
    path.write_text(dumps(found, "a note"))
    shape = np.array([[1.0], [4096.0], [4096.0], [8192.0]])
    again = load_calibrated(str(path))
    assert again.latency_ns("gemm", "bf16", shape) == found.model().latency_ns("gemm", "bf16", shape)
    exam_compute(Calibrated(file=str(path), unknown="roofline"))


def test_streams_are_scaled() -> None:
    kernel = Kernel("pointwise", "bf16", (), 1.0, 0.0, 2**28)
    ns, = latency_ns(load("a100_sxm"), [kernel])
    model = calibrated("a100_sxm", [Timing(kernel, 2 * ns)]).model()
    assert latency_ns(model, [kernel])[0] == pytest.approx(2 * ns, rel=1e-3)


def test_a_device_from_its_sheet_is_corrected_too(tmp_path: Path) -> None:
    found = calibrated(Machine("the data sheet", {"bf16": 312e3}, 2039.0, 108), slower_device())
    (before, _), (after, _) = unseen_errors(found)["gemm/bf16"]
    assert after < min(before, 8)
    path = tmp_path / "sheet.toml"
    path.write_text(dumps(found))
    first = load_calibrated(str(path))
    assert first.machine.units == 108
    assert load_calibrated(str(path)) is first
    other = calibrated(Machine("the data sheet", {"bf16": 312e3}, 2039.0, 54), slower_device())
    path.write_text(dumps(other))
    assert load_calibrated(str(path)).machine.units == 54       # a file that has changed is read again


HEADER = ("kind,op,layout,precision,m,n,k,groups,batch,heads,kv_heads,queries,keys,head_length,causal,elements,bytes,"
          "us\n")


def like_h100() -> DeviceModel:
    """A100 with what H100's rows say of PyTorch's kernels."""
    return with_torch(load("a100_sxm"), "h100_sxm")


def norm(rows: int) -> Kernel:
    return Kernel("normalisation", "bf16", (rows, 1024), 1.0, 0.0, 4096 * rows, op="rms_norm")


def of_pytorch(slower: float) -> str:
    """Rows of an A100 on which PyTorch's kernels take `slower` times what H100's rows say on A100's data sheet."""
    model, rows = like_h100(), []
    for m in (1024, 2048, 4096, 8192, 16384):
        for layout, shape in (("NT", (m, 4096, 2048)), ("wgrad", (4096, 2048, m))):
            op, flops = layout.replace("NT", ""), 2.0 * m * 4096 * 2048
            turned = (shape[1], shape[0], shape[2]) if op else shape
            ns, = latency_ns(model, [Kernel("gemm", "bf16", (1, *turned), 1.0, flops, 0, op=op)], "torch")
            rows.append("gemm,,{},bf16,{},{},{},,,,,,,,,,,{}".format(layout, *shape, slower * ns / 1e3))
        attention = Kernel("attention", "bf16", (1, 16, 16, m, m, 64, 64), 1.0, 256.0 * 16 * m * m, 0)
        ns, = latency_ns(model, [attention], "torch/2.11/flash")
        rows.append(f"attention,,flash,bf16,,,,,1,16,16,{m},{m},64,0,,,{slower * ns / 1e3}")
        ns, = latency_ns(model, [norm(m)], "torch")
        rows.append(f"stream,rms_norm,,bf16,{m},1024,,,,,,,,,,{1024 * m},{4096 * m},{slower * ns / 1e3}")
    others = ("gemm,sustained,NT,bf16,4096,4096,4096" + "," * 11 + "300", "host,eager" + "," * 16 + "35")
    return HEADER + "\n".join([*rows, *others])


def test_rows_of_pytorch_correct_the_kernels_of_pytorch_on_a_device_without_any(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(of_pytorch(1.5))
    found = calibrated("a100_sxm", read_timings(str(path)), framework="torch")
    assert set(found.rows) == {"product/bf16", "gemm/bf16", "fused/bf16/flash", "stream/rms_norm"}
    for name, (before, after) in unseen_errors(found).items():
        assert name == "gemm/bf16" or after[0] < 5 < before[0], name
    path.write_text(dumps(found))
    model, like = load_calibrated(str(path)), like_h100()
    assert model.framework == "torch"
    for kernel in (norm(3072), product(2048, 3072, 8192)._replace(op="wgrad"),
                   Kernel("attention", "bf16", (1, 16, 16, 3072, 3072, 64, 64), 1.0, 256.0 * 16 * 3072**2, 0)):
        wanted = 1.5 * latency_ns(like, [kernel], "torch/2.11/flash" if kernel.kind == "attention" else "torch")[0]
        assert latency_ns(model, [kernel], "torch")[0] == pytest.approx(wanted, rel=0.03)


def test_rows_of_fp16_correct_bf16_too() -> None:
    timings = [Timing(each.kernel._replace(precision="fp16"), each.ns) for each in slower_device()]
    model = calibrated("a100_sxm", timings).model()
    kernels = [product(4096, 4096, 8192), product(4096, 4096, 8192)._replace(precision="fp16")]
    first, second = latency_ns(model, kernels)
    assert first == second > 1.2 * latency_ns(load("a100_sxm"), kernels)[0]


def test_csv_and_json_say_the_same(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("# mine\nkind,precision,batch,heads,kv_heads,queries,keys,head_length,causal,m,n,k,bytes,us\n"
                     "gemm,bf16,,,,,,,,512,1024,2048,,12.5\nattention,fp8,2,8,4,1024,1024,128,true,,,,,100\n"
                     "stream,bf16,,,,,,,,,,,1048576,3\n")
    first, second, third = read_timings(str(table))
    assert first == Timing(product(512, 1024, 2048), 12500.0)
    assert second.kernel.shape == (2, 8, 4, 1024, 1024, 128, 128)
    assert second.kernel.work == pytest.approx(1025 / 2048)
    assert third.kernel.bytes == 2**20
    again = tmp_path / "t.json"
    again.write_text(written([first, second, third]))
    assert read_timings(str(again)) == [first, second, third]
    table.write_text(written_csv([first, second, third], [1, 20, 3]))
    assert read_timings(str(table)) == [first, second, third]
    assert table.read_text().splitlines()[2].endswith(",20,100000.0")


@pytest.mark.parametrize(("row", "message"), [
    ("kind,m,n,k,us\ngem,1,2,3,4\n", "did you mean 'gemm'"),
    ("kind,m,n,us\ngemm,1,2,3\n", "row 1: has no k"),
    ("kind,m,n,k\ngemm,1,2,3\n", "has 0 of the columns ns, us and ms"),
    ("kind,m,n,k,us\ngemm,1,2,3,-4\n", "'-4' is no time or size"),
    ("kind,m,n,k,us\ngemm,1,2,3,1e308\n", "'1e308' is no time or size"),
    ('[{"kind": "gemm", "m": true, "n": 2, "k": 3, "us": 4}]', "'True' is no time or size"),
    (f"kind,m,n,k,us\ngemm,1{'0' * 30},2,3,4\n", "is no time or size"), ("kind\n\udcff\n", "byte 5 is not UTF-8"),
    ("\ufeffkind,m,n,k,us\ngem,1,2,3,4\n", "did you mean 'gemm'"), ("[" * 100_000, "is no JSON or CSV"),
    ("kind,batch,heads,queries,keys,head_length,causal,us\nattention,1,4,64,32,64,1,9\n", "more queries than keys"),
    ("kind,m,n,k,kk,us\ngemm,1,2,3,4,5\n", "column 'kk' is not known for gemm"),
    ("kind,m,n,k,us\n", "has no rows"),
])
def test_bad_rows_are_refused(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(row, errors="surrogateescape")
    with pytest.raises(InputError, match=message):
        read_timings(str(path))


@pytest.mark.parametrize(("text", "message"), [
    ("kind,m,m,n,k,us\ngemm,8,16,8,8,5\n", "column 'm' is there twice; expected one column of a name"),
    ("kind,m,n,k,us\ngemm,8,8,8,5\ngemm,8,8,8,5,6\n", "row 2: has more than 5 cells; expected one for every column")])
def test_cells_that_belong_to_no_column_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_timings(str(tmp_path / "t.csv"))


def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text("format = 2\n")
    with pytest.raises(InputError, match="no calibration of kernels"):
        load_calibrated(str(path))
    whole = dumps(calibrated("h100_sxm", [Timing(product(16, 64, 64), 28873.0)]))
    for old, new in (("28873", "nan"), ("28873", "-1"), (", 28873", ""), ("stream = 1", "stream = 0"), ("64", "-64")):
        assert old in whole
        path.write_text(whole.replace(old, new))
        with pytest.raises(InputError, match="is a damaged calibration: "):
            load_calibrated(str(path))


def test_a_stream_beyond_the_memory_is_cut_to_what_it_holds() -> None:
    optimizer = Kernel("optimizer", "fp32", (), 1.0, 0.0, 105_000_000_000, 2)
    assert cut(optimizer, 20_000_000_000) == optimizer._replace(bytes=40_000_000_000)
    assert cut(optimizer, 60_000_000_000) == optimizer
    assert cut(product(2**20, 2**20, 64), 1) == product(2**20, 2**20, 64)


def test_kernels_run_with_torch_here() -> None:
    pytest.importorskip("torch")
    attention = Kernel("attention", "bf16", (1, 4, 2, 32, 32, 16, 16), 0.5, 1.0, 0)
    backward = attention._replace(kind="attention_backward")
    timings, notes, _ = measured([product(64, 64, 64), attention, Kernel("optimizer", "fp32", (), 1.0, 0.0, 4096, 2),
                                    backward])
    assert [each.kernel.kind for each in timings] == ["gemm", "attention", "optimizer"]
    assert all(each.ns > 0 for each in timings)
    assert timings[2].kernel.bytes == 2048
    assert len(notes) == 1
    assert "not measured: attention_backward" in notes[0]
