"""Rows of nccl-tests: predicted on the fabric that they name, scored, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from astrarium.collective.fabrics import fabric
from astrarium.collective.measured import Layout, measured_ns
from astrarium.validate.collectives import design_of, fitted_collectives
from astrarium.validate.predict import NotPredictable, Prediction, predict
from astrarium.validate.rows import Row, read_rows
from astrarium.vocab import CommOp

HEAD = "source,hw,n_gpus,nodes,op,algo,size_B,time_us,busbw_GBs,note\n"


def rows(folder: Path, *lines: str) -> list[Row]:
    path = folder / "rows.csv"
    path.write_text(HEAD + "".join(line + "\n" for line in lines))
    return read_rows(path)


def test_a_row_is_predicted_on_its_fabrics(tmp_path: Path) -> None:
    time, rate = map(predict, rows(tmp_path, "mine,H100 IB NDR,32,4,all_gather,,1073741824,5000,,",
                                   "mine,H100 IB NDR,32,4,all_gather,,1073741824,,200,"))
    assert isinstance(time, Prediction)
    assert isinstance(rate, Prediction)
    host, nics = fabric("dgx_h100_nvswitch"), fabric("infiniband_ndr")
    expected = measured_ns(CommOp.ALL_GATHER, 1 << 30, Layout(8, 4), host, nics)
    assert time.values[0].predicted * 1e3 == pytest.approx(expected, rel=1e-6)
    assert rate.values[0].predicted == pytest.approx((1 << 30) * 31 / 32 / expected, rel=1e-6)
    assert time.meant.stated
    assert rate.values[0].time_error == pytest.approx(expected / 1e9 / ((1 << 30) * 31 / 32 / 200e9) - 1, rel=1e-6)


@pytest.mark.parametrize(("hw", "source", "name"), [
    ("H100 8/node", "GCP A3-mega", "gcp_a3_mega"), ("B200 EFA 50GB/s/GPU", "x", "efa_b200"),
    ("H100 EFA", "x", "efa_p5"),
    ("A100 p4d.24xlarge", "aws", "efa_p4de"), ("H200 RoCE", "x", "ethernet_400g"), ("A100 HDR", "x", "infiniband_hdr")])
def test_the_words_of_a_row_name_its_network(tmp_path: Path, hw: str, source: str, name: str) -> None:
    meant = design_of(rows(tmp_path, f"{source},{hw},16,2,all_reduce,,1048576,1,,")[0])
    assert [dim.fabric for dim in meant.design.network.flat][1] == name
    assert meant.stated


def test_what_a_row_leaves_open_is_assumed(tmp_path: Path) -> None:
    no_network, ring = (design_of(row) for row in rows(tmp_path, "mine,H100,16,,all_reduce,,1048576,1,,",
                                                       "mine,H100,8,1,all_reduce,ring,1048576,1,,"))
    assert [text.split(":")[0] for text in no_network.assumed] == ["nodes", "network"]
    assert [text.split(":")[0] for text in ring.assumed] == ["algo"]
    assert not no_network.stated


@pytest.mark.parametrize(("line", "reason"), [
    ("mine,H100,8,1,broadcast,,1024,1,,", "not one of the measured collectives"),
    ("mine,H100,8,1,all_reduce,,4096tok,1,,", "no number of bytes"), ("mine,H100,1,1,all_reduce,,1024,1,,", "no group"),
    ("mine,H100,8,1,all_reduce,,1024,,,", "neither time_us"), ("mine,TPU v9,8,1,all_reduce,,1024,1,,", "no device"),
    ("mine,MI300X,4,1,all_reduce,,1024,1,,", "least group has 8"),
    ("mine,H100,9,2,all_reduce,,1024,1,,", "fill 2 hosts")])
def test_what_cannot_be_predicted_says_why(tmp_path: Path, line: str, reason: str) -> None:
    found = predict(rows(tmp_path, line)[0])
    assert isinstance(found, NotPredictable)
    assert reason in found.reason


def test_rows_of_the_fit_are_known(tmp_path: Path) -> None:
    made = rows(tmp_path, "aiconfigurator parquet,A100 HGX,8,1,all_reduce,,1024,1,,",
                *["GCP A3-mega,H100 8/node,16,2,all_reduce,,1024,1,,"] * 3, "mine,H100,8,1,all_reduce,,1024,1,,")
    assert fitted_collectives(made) == [True, True, False, True, False]
