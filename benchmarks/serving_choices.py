"""Ten questions to the serving planner and to AIConfigurator, judged by measured rows: whose tp serves more tokens.

usage: serving_choices.py [--rival PROGRAM] [--only K[,K...]]

A question is a group of the silicon table of aiconfigurator-core (model, system, engine, lengths, format) with several
tp, and a limit of mean TPOT: the 40th percentile of those measured, so that several tp hold it. The measured worth of
a tp is tokens/s and GPU at the limit, between the loads of its rows. PROGRAM: `aiconfigurator` of
`aiconfigurator==0.12.0`, best in an environment without other work; without it only the planner is asked. Times are
seconds of CPU.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import aiconfigurator_core
import numpy as np

from astrarium.errors import AstrariumError
from astrarium.planner.serving import plan_serving
from astrarium.validate.rows import Row, read_rows
from astrarium.validate.serving.deployment import Deployment
from astrarium.validate.serving.silicon import deployment_of, distinct, measured, rate_of

TABLE = Path(aiconfigurator_core.__file__).parent / "systems" / "silicon_sample.csv"
GPT, QWEN, LLAMA = "openai/gpt-oss-120b", "Qwen/Qwen3-32B", "meta-llama/Llama-3.1-8B-Instruct"
QUESTIONS = ((GPT, "h100_sxm", "vllm", 1024, 1024), (GPT, "h100_sxm", "vllm", 8192, 1024),
             (GPT, "h200_sxm", "vllm", 1024, 1024), (GPT, "h200_sxm", "vllm", 8192, 1024),
             (GPT, "b200_sxm", "vllm", 1024, 1024), (GPT, "b200_sxm", "vllm", 8192, 1024),
             (QWEN, "h100_sxm", "vllm", 1024, 512), (QWEN, "h100_sxm", "vllm", 1024, 1024),
             (QWEN, "h100_sxm", "vllm", 4096, 1024), (LLAMA, "h100_sxm", "trtllm", 2048, 512))
BUNDLED = {LLAMA: "meta-llama/Meta-Llama-3.1-8B"}       # names whose sizes AIConfigurator brings
GPUS, SHARE, TTFT = 8, 40, "10s"
DEVICES = {"b200_sxm": "b200"}
Stated = tuple[Row, Deployment]


def rows_of(question: tuple[str, str, str, int, int]) -> list[Stated]:
    """The aggregated rows of a question that state what a prediction needs, in the checkpoint's format."""
    model, system, engine, prompt, output = question
    found = []
    for row in distinct(read_rows(TABLE)):
        cells = tuple(row.text(name) for name in ("model_path", "system", "backend", "isl", "osl"))
        if row.kind == "silicon" and cells == (model, system, engine, str(prompt), str(output)) and \
                row.text("mode") == "agg" and row.text("precision") in ("", "fp4") and len(measured(row)) == 2:
            try:
                meant = deployment_of(row)
            except AstrariumError:
                continue
            if meant.layout.dp == 1 and meant.layout.ep == 1:
                found.append((row, meant))
    return found


def worth(rows: list[Stated], limit: float) -> Mapping[int, float]:
    """tp -> measured tokens/s and GPU at the limit (ms), linear in TPOT between the loads that were measured."""
    pairs: dict[int, list[tuple[float, float]]] = {}
    for row, meant in rows:
        pairs.setdefault(meant.layout.tp, []).append((measured(row)["tpot"], rate_of(row, meant) or 0.0))
    found = {}
    for tp, some in pairs.items():
        times, rates = np.array(sorted(some)).T
        found[tp] = float(np.interp(limit, times, np.maximum.accumulate(rates), left=0.0))
    return found


def ours(rows: list[Stated], limit: float) -> int:
    """The tp that the planner chooses."""
    _, meant = rows[0]
    checkpoint = "published" if meant.model.startswith("gpt-oss") else "bf16"
    found = plan_serving(
        meant.model, DEVICES.get(meant.system, meant.system), GPUS, prompt=round(meant.prompt.mean),
        output=round(meant.output.mean), ttft=f"mean={TTFT}", tpot=f"mean={limit:.6g}ms", stack=meant.stack, top=1,
        fixed={"weights": [checkpoint], "cache": [str(meant.formats["cache"])], "ep": [1]})
    return found.best.trial.candidate.engine.layout.tp


def rivals(program: str, question: tuple[str, str, str, int, int], limit: float) -> int:
    """The tp that AIConfigurator ranks first of engines that prefill and decode; 0: it answers nothing."""
    model, system, engine, prompt, output = question
    said = subprocess.run([program, "cli", "default", "--model", BUNDLED.get(model, model), "--total-gpus", str(GPUS),
                           "--system", system, "--isl", str(prompt), "--osl", str(output), "--ttft", "10000",
                           "--tpot", f"{limit:.6g}", "--backend", engine, "--serving-mode", "agg", "--no-color"],
                          check=False, capture_output=True, text=True).stdout
    found = re.search(r"\|\s+1\s+\|.*?\btp(\d+)", said)
    return int(found[1]) if found else 0


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rival", default="", help="the program aiconfigurator")
    parser.add_argument("--only", default="", help="numbers of questions, from 1, joined by commas")
    options = parser.parse_args()
    wanted = [int(each) for each in options.only.split(",")] if options.only else range(1, len(QUESTIONS) + 1)
    for number in wanted:
        question = QUESTIONS[number - 1]
        rows = rows_of(question)
        limit = float(np.percentile([measured(row)["tpot"] for row, _ in rows], SHARE))
        values = worth(rows, limit)
        best, start = max(values.values()), time.process_time()
        mine = ours(rows, limit)
        spent = time.process_time() - start
        text = f"{number:>2} {' '.join(map(str, question))}, TPOT {limit:.3g} ms, {len(rows)} rows; best tp " \
               f"{max(values, key=lambda tp: values[tp])} ({best:,.0f}); planner tp {mine} " \
               f"({values.get(mine, 0) / best:.2f}), {spent:.0f} s"
        if options.rival:
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            theirs = rivals(options.rival, question, limit)
            spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            text += f"; rival tp {theirs} ({values.get(theirs, 0) / best:.2f}), {spent:.0f} s"
        print(text, flush=True)


if __name__ == "__main__":
    main()
