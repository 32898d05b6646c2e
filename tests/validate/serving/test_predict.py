"""Predictions of serving rows of every kind."""

from __future__ import annotations

from astrarium.validate.predict import NotPredictable, Prediction, predict
from astrarium.validate.rows import Row
from astrarium.validate.serving.runs import run_of


def test_a_run_of_vllm_has_its_metric() -> None:
    values = {"experiment": "19-llama-3-1-8b-tp1-roleplay-1", "model": "meta-llama/Llama-3.1-8B-Instruct", "tp": 1,
              "hardware": "H100", "workload": "roleplay", "stage": 0.0, "metric": "itl_mean", "precision": "FP16",
              "max_num_batched_tokens": 2048, "actual_ms_or_unit": 7.77}
    found = predict(Row("runs.csv", 2, "vllm", values))
    assert isinstance(found, Prediction)
    assert [each.metric for each in found.values] == ["itl_mean"]
    assert abs(found.values[0].error) < 0.12
    assert "prompts: 44 different ones, sent again and again" in found.meant.assumed


def test_each_stage_of_a_run_has_its_rate() -> None:
    values = {"experiment": "23-llama-3-1-8b-tp1-general-1", "model": "meta-llama/Llama-3.1-8B-Instruct", "tp": 1,
              "hardware": "H100", "workload": "general", "metric": "itl_mean", "precision": "FP16",
              "max_num_batched_tokens": 8192, "actual_ms_or_unit": 7.8}
    rates = [run_of(Row("runs.csv", 2, "vllm", {**values, "stage": stage})).rates for stage in (-1, 0, 1)]
    assert rates == [(8.0, 20.0), (8.0,), (20.0,)]


def test_a_published_figure_under_a_concurrency() -> None:
    values = {"source": "NIM", "model": "Llama3.3-70B", "gpu": "H100", "n_gpus": 8, "tp": 8, "precision": "bf16",
              "isl": 200, "osl": 200, "concurrency": 1, "metric": "ITL", "value": 10.0}
    found = predict(Row("inference.csv", 2, "inference", values))
    assert isinstance(found, Prediction)
    assert found.meant.stack == "trt-llm"
    assert 5 < found.values[0].predicted < 15
    values |= {"metric": "e2e latency", "value": 2.0, "unit": "s"}
    found = predict(Row("inference.csv", 2, "inference", values))
    assert isinstance(found, Prediction)
    assert found.values[0].measured == 2000
    for more, why in (({"metric": "goodput"}, "its metric (goodput) is not one of ttft, itl, tpot, "),
                      ({"value": ""}, "has no value")):
        unknown = predict(Row("inference.csv", 2, "inference", {**values, **more}))
        assert isinstance(unknown, NotPredictable)
        assert unknown.reason.startswith(why)
