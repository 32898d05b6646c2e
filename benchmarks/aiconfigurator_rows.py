"""The rows of serving_rows.py as AIConfigurator predicts them: a CSV that `serving_rows.py --read` judges beside ours.

usage: aiconfigurator_rows.py --csv FILE [--half even|odd] [--models WORDS] [--stack NAME] [--limit N] [--part K/N]
                              [--until SECONDS] [--columns]

Needs `pip install aiconfigurator==0.12.0` beside astrarium, best in an environment without other work. Calls its public
`cli_estimate`. Rows are read as Astrarium reads them: layout, requests in flight, mean lengths, formats; if it refuses
that, the row's columns as they are. With `--columns` always the latter, as its own tool for this table does (repository
ai-dynamo/aiconfigurator, tools/accuracy_regression_testing/predict_silicon_sample.py). It takes one version of each
engine, its current one.

Its kernel tables were measured by the makers of the silicon rows, on the same machines.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import logging
import time
from collections.abc import Iterator, Mapping, Sequence

import serving_rows
from aiconfigurator.cli.api import EstimateResult, cli_estimate

from astrarium.errors import AstrariumError
from astrarium.validate.rows import Row, read_rows
from astrarium.validate.serving.deployment import Deployment, Layout
from astrarium.validate.serving.silicon import DENSE, deployment_of

Arguments = Mapping[str, str | int | None]
BUNDLED = {"meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B", "zhipuai/GLM-5": "zai-org/GLM-5",
           "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
           "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
           "nvidia/Qwen3-32B-NVFP4": "Qwen/Qwen3-32B", "nvidia/DeepSeek-R1-NVFP4": "deepseek-ai/DeepSeek-R1",
           "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-ai/DeepSeek-V3"}
"""Names that it would look up at Hugging Face -> the same sizes among the configurations that it brings."""
FORMATS = {"bf16": "bfloat16", "int4": "int4_wo", "mxfp4": None}     # None: it chooses by model and device
DEGREES = ("tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
WORKERS = ("batch_size", "num_workers")


def degrees(layout: Layout, dense: bool, side: str = "") -> dict[str, int]:
    """Its names for a layout."""
    experts = 1 if dense else layout.tp * layout.dp // layout.ep
    values = (layout.tp, layout.pp, layout.dp, experts, 1 if dense else layout.ep)
    return {side + name: value for name, value in zip(DEGREES, values, strict=True)}


def read(row: Row, meant: Deployment) -> Arguments:
    """Arguments for the row as Astrarium reads it."""
    dense, layout = meant.model in DENSE, meant.layout
    weights = str(meant.formats["weights"])
    experts = str(meant.formats.get("experts", weights))
    found: dict[str, str | int | None] = {
        **common(row), "isl": round(meant.prompt.mean), "osl": round(meant.output.mean),
        "gemm_quant_mode": FORMATS.get(weights, weights), "moe_quant_mode": FORMATS.get(experts, experts),
        "kvcache_quant_mode": FORMATS.get(str(meant.formats["cache"]), str(meant.formats["cache"]))}
    each = max(1, meant.concurrency // (layout.dp * meant.engines))
    if not meant.prefill:
        return found | degrees(layout, dense) | {"batch_size": each}
    front, workers = meant.prefill
    return found | degrees(front, dense, "prefill_") | degrees(layout, dense, "decode_") | {
        "prefill_batch_size": row.count("prefill_batch_size") or 1, "prefill_num_workers": workers,
        "decode_batch_size": each, "decode_num_workers": meant.engines}


def columns(row: Row) -> Arguments:
    """Arguments for the row as it is."""
    sides = [""] if row.text("mode") == "agg" else ["prefill_", "decode_"]
    names = [side + name for side in sides for name in (*DEGREES, *(WORKERS if side else WORKERS[:1]))]
    return {**common(row), "isl": row.count("isl"), "osl": row.count("osl"),
            **{name: row.text(name) or None for name in ("gemm_quant_mode", "moe_quant_mode")},
            **{name: int(row.text(name)) for name in names if row.text(name)}}


def common(row: Row) -> dict[str, str | int | None]:
    """Arguments of either reading."""
    path = row.text("model_path")
    return {"model_path": BUNDLED.get(path, path), "system_name": row.text("system"), "mode": row.text("mode"),
            "backend_name": row.text("backend"), "backend_version": "current"}


def estimate(readings: Sequence[Arguments]) -> EstimateResult:
    """Its estimate with the first arguments that it takes. Raises its error of the first."""
    errors = list[Exception]()
    for arguments in readings:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                return cli_estimate(**arguments)
        except Exception as error:      # whatever its code raises is a row that it does not cover
            errors.append(error)
    raise errors[0]


def lines(options: argparse.Namespace) -> Iterator[tuple[object, ...]]:
    """(id, TPOT, tokens/s/NPU, TTFT, why not) of the rows that state enough for a prediction."""
    start = time.process_time()
    for row in serving_rows.chosen(read_rows(serving_rows.TABLE), options):
        if options.until and time.process_time() - start > options.until:
            print(f"stopped after {options.until:.0f} CPU s")
            return
        try:
            meant = deployment_of(row)
            made = estimate([columns(row)] if options.columns else [read(row, meant), columns(row)])
            yield row.text("id"), float(made.tpot), float(made.tokens_per_second_per_gpu), float(made.ttft), ""
        except AstrariumError as error:
            yield row.text("id"), "", "", "", f"not stated: {error}"
        except Exception as error:
            yield row.text("id"), "", "", "", f"{type(error).__name__}: {error}"[:300].replace("\n", " ")


def main() -> None:
    """Predict and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("even", "odd"), default="even")
    for name, default in (("models", ""), ("stack", ""), ("part", "0/1"), ("only", "")):
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--until", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--csv", required=True)
    parser.add_argument("--columns", action="store_true", help="give it the rows' columns as they are")
    options = parser.parse_args()
    options.shuffle = ""
    logging.disable(logging.WARNING)
    start, count = time.process_time(), 0
    with open(options.csv, "w", newline="", encoding="utf-8") as file:
        sink = csv.writer(file)
        sink.writerow(("id", "tpot_made", "rate_made", "ttft_made", "reason"))
        for count, cells in enumerate(lines(options), start=1):     # noqa: B007
            sink.writerow(cells)
            file.flush()
    print(f"{count} rows, {time.process_time() - start:.0f} CPU s")


if __name__ == "__main__":
    main()
